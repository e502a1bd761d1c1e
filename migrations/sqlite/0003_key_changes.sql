-- Who accepted that a consumer's keys change, when, and from which plugin to which. From then on nothing commits under the
-- earlier version, and the plugin that was replaced is not taken again. key_version is the consumer's own count, which only
-- grows; declared_key_version is what the accepted plugin says of itself, and what its successors have to say.
CREATE TABLE key_changes (
  consumer_name TEXT NOT NULL,
  key_version INTEGER NOT NULL,
  from_version INTEGER NOT NULL,
  declared_key_version INTEGER NOT NULL,
  from_digest BLOB NOT NULL,
  to_digest BLOB NOT NULL,
  compared INTEGER NOT NULL,               -- key samples that were held against the new plugin
  changed INTEGER NOT NULL,                -- those whose keys differ
  made_by TEXT NOT NULL,
  made_at INTEGER NOT NULL,
  PRIMARY KEY (consumer_name, key_version)
) STRICT, WITHOUT ROWID;
