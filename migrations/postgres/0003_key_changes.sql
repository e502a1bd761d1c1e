-- Who accepted that a consumer's keys change, when, and from which plugin to which. From then on nothing commits under the
-- earlier version, and the plugin that was replaced is not taken again. key_version is the consumer's own count, which only
-- grows; declared_key_version is what the accepted plugin says of itself, and what its successors have to say.
CREATE TABLE key_changes (
  consumer_name        varchar(100) COLLATE "C" NOT NULL,
  key_version          int NOT NULL,
  from_version         int NOT NULL,
  declared_key_version int NOT NULL,
  from_digest          bytea NOT NULL,
  to_digest            bytea NOT NULL,
  compared             int NOT NULL,   -- key samples that were held against the new plugin
  changed              int NOT NULL,   -- those whose keys differ
  made_by              text NOT NULL,
  made_at              timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer_name, key_version)
);
