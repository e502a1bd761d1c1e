-- All tables of tidegate, SQLite's form. Instants are INTEGER microseconds since the epoch; ids compare by bytes.
-- One process writes; STRICT, so that a value of another type is an error and not a surprise.

-- A consumer: half of the ledger's key, its key version, and from when on its ledger remembers.
CREATE TABLE consumers (
  consumer_name TEXT NOT NULL PRIMARY KEY CHECK (length(consumer_name) <= 100),
  key_version INTEGER NOT NULL,
  plugin_digest BLOB NOT NULL,
  horizon INTEGER NOT NULL DEFAULT -9223372036854775808,
  group_id TEXT NOT NULL,
  started_from TEXT NOT NULL DEFAULT '{}',
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The ledger: an input that was applied. Never a skipped, dead or too old one.
CREATE TABLE processed_messages (
  consumer_name TEXT NOT NULL,
  message_id TEXT NOT NULL CHECK (length(message_id) <= 120),
  aggregate_id TEXT NOT NULL CHECK (length(aggregate_id) <= 120),
  source_topic TEXT,
  source_partition INTEGER,
  source_offset INTEGER,
  processed_at INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  PRIMARY KEY (consumer_name, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX processed_messages_at ON processed_messages (consumer_name, processed_at);

-- The chain: the run of offsets of one partition that one transaction covered, with its five outcomes.
CREATE TABLE checkpoints (
  checkpoint_id BLOB NOT NULL PRIMARY KEY CHECK (length(checkpoint_id) = 16),
  prev_id BLOB UNIQUE,                     -- one successor per link
  seq INTEGER NOT NULL,                    -- 0 = genesis, the tip has the greatest
  consumer_name TEXT NOT NULL,
  cluster_id TEXT NOT NULL,
  topic_id TEXT NOT NULL,
  topic TEXT NOT NULL,
  partition INTEGER NOT NULL,
  kind TEXT NOT NULL DEFAULT 'r' CHECK (kind IN ('r', 'm')),  -- run | move
  first_offset INTEGER NOT NULL,
  next_offset INTEGER NOT NULL,
  consumed INTEGER NOT NULL,
  applied INTEGER NOT NULL,
  duplicate INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  dead INTEGER NOT NULL,
  too_old INTEGER NOT NULL,
  key_version INTEGER NOT NULL,
  plugin_digest BLOB NOT NULL,
  committed_at INTEGER NOT NULL,
  CHECK (consumed = applied + duplicate + skipped + dead + too_old),
  CHECK (kind = 'm' OR next_offset > first_offset),
  CHECK (kind = 'r' OR consumed = 0),
  CHECK ((prev_id IS NULL) = (seq = 0)),
  UNIQUE (consumer_name, cluster_id, topic_id, partition, seq)  -- one genesis, one tip
) STRICT;

-- How often a duplicate was seen at a position.
CREATE TABLE duplicate_attempts (
  consumer_name TEXT NOT NULL,
  message_id TEXT NOT NULL,
  source_position TEXT NOT NULL,
  seen INTEGER NOT NULL DEFAULT 1,
  first_seen INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  PRIMARY KEY (consumer_name, message_id, source_position)
) STRICT, WITHOUT ROWID;

-- The same id with another payload.
CREATE TABLE payload_conflicts (
  consumer_name TEXT NOT NULL,
  message_id TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  source_position TEXT NOT NULL,
  payload BLOB,
  seen INTEGER NOT NULL DEFAULT 1,
  first_seen INTEGER NOT NULL,
  PRIMARY KEY (consumer_name, message_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- An input that could not be applied, with all that a replay needs.
CREATE TABLE dead_letters (
  dead_letter_id INTEGER PRIMARY KEY,
  consumer_name TEXT NOT NULL,
  message_id TEXT,
  status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'replayed', 'superseded', 'discarded')),
  cluster_id TEXT, topic_id TEXT, topic TEXT, partition INTEGER, "offset" INTEGER,  -- Kafka
  run_id TEXT, source_ref TEXT,                                                     -- other sources
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  sqlstate TEXT,
  key BLOB,
  payload BLOB,
  headers TEXT,
  seen INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  resolved_at INTEGER,
  resolved_by BLOB,
  CHECK ((cluster_id IS NULL) <> (source_ref IS NULL)),
  CHECK ((cluster_id IS NULL) + (topic_id IS NULL) + (partition IS NULL) + ("offset" IS NULL) IN (0, 4))
) STRICT;
CREATE UNIQUE INDEX dead_letters_kafka ON dead_letters (consumer_name, cluster_id, topic_id, partition, "offset")
  WHERE cluster_id IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_other ON dead_letters (consumer_name, source_ref) WHERE source_ref IS NOT NULL;
CREATE INDEX dead_letters_open ON dead_letters (consumer_name, message_id) WHERE status = 'open';

-- Every attempt: what was applied, and each time that it came again.
CREATE VIEW processed_input_attempts AS
  SELECT consumer_name, message_id AS input_id, 'applied' AS outcome,
         source_topic || ':' || source_partition || ':' || source_offset AS source_position,
         processed_at AS attempted_at
    FROM processed_messages
  UNION ALL
  SELECT d.consumer_name, d.message_id, 'duplicate', d.source_position,
         CASE WHEN g.n = d.seen THEN d.last_seen ELSE d.first_seen END
    FROM duplicate_attempts d
    JOIN (WITH RECURSIVE g(n) AS (
            SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < (SELECT max(seen) FROM duplicate_attempts))
          SELECT n FROM g) g ON g.n <= d.seen;

-- Raw inputs with the identity they gave, for the key gate.
CREATE TABLE key_samples (
  consumer_name TEXT NOT NULL,
  n INTEGER NOT NULL,
  source TEXT NOT NULL,
  key BLOB,
  payload BLOB,
  headers TEXT NOT NULL,
  message_id TEXT NOT NULL,
  aggregate_id TEXT NOT NULL,
  key_version INTEGER NOT NULL,
  taken_at INTEGER NOT NULL,
  PRIMARY KEY (consumer_name, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE backfill_runs (
  run_id TEXT NOT NULL PRIMARY KEY,
  consumer_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  source_range TEXT NOT NULL,
  state TEXT NOT NULL,
  resume_after TEXT,
  consumed INTEGER NOT NULL DEFAULT 0,
  applied INTEGER NOT NULL DEFAULT 0,
  duplicate INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0,
  too_old INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  CHECK (consumed = applied + duplicate + skipped + dead + too_old)
) STRICT, WITHOUT ROWID;

CREATE TABLE reprocessed_messages (
  run_id TEXT NOT NULL,
  consumer_name TEXT NOT NULL,
  message_id TEXT NOT NULL,
  processed_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, consumer_name, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE cleanup_runs (
  cleanup_id INTEGER PRIMARY KEY,
  consumer_name TEXT NOT NULL,
  horizon INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
