-- Who moved a consumer, when, from where to where, and why: one row per partition of a `tidegate seek`. The move itself is
-- the link of this id in `checkpoints`; this outlives pruning.
CREATE TABLE seeks (
  checkpoint_id BLOB NOT NULL PRIMARY KEY CHECK (length(checkpoint_id) = 16),
  consumer_name TEXT NOT NULL,
  cluster_id TEXT NOT NULL,
  topic_id TEXT NOT NULL,
  topic TEXT NOT NULL,
  partition INTEGER NOT NULL,
  from_offset INTEGER,                     -- NULL: the first link in a topic that was made again
  to_offset INTEGER NOT NULL,
  how TEXT NOT NULL,                       -- the words of the command: --offset 12, --topic-recreated
  made_by TEXT NOT NULL,
  reason TEXT,
  made_at INTEGER NOT NULL
) STRICT;
