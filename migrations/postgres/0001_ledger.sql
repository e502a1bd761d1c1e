-- Everything that tidegate remembers. Ids compare by bytes (COLLATE "C"): a change of the C library's collations can let
-- duplicates into a unique key. No foreign keys: they would lock parent rows on the hot path.

-- A consumer. lock_no is the number of its advisory lock (a hashed name could collide). horizon: what was processed
-- before it may have been cleaned up; only inputs that occurred after it can be "first".
CREATE TABLE consumers (
  consumer_name varchar(100) COLLATE "C" PRIMARY KEY,
  lock_no       int GENERATED ALWAYS AS IDENTITY UNIQUE,
  key_version   int NOT NULL,
  plugin_digest bytea NOT NULL,
  horizon       timestamptz NOT NULL DEFAULT '-infinity',
  group_id      varchar(249) COLLATE "C" NOT NULL,
  started_from  jsonb NOT NULL DEFAULT '{}',
  created_at    timestamptz NOT NULL DEFAULT now()
);

-- The ledger: an input that was applied. Never a skipped, dead or too old one: a corrected republish would be lost.
-- The source columns are for tracing only and never part of the key.
CREATE TABLE processed_messages (
  consumer_name    varchar(100) COLLATE "C" NOT NULL,
  message_id       varchar(120) COLLATE "C" NOT NULL,
  aggregate_id     varchar(120) COLLATE "C" NOT NULL,
  source_topic     varchar(249) COLLATE "C",
  source_partition int,
  source_offset    bigint,
  processed_at     timestamptz NOT NULL DEFAULT now(),
  fingerprint      bytea NOT NULL,
  PRIMARY KEY (consumer_name, message_id)
);
-- For people's queries. Cleanup walks the heap instead: a BRIN fails it once freed space is used again.
CREATE INDEX processed_messages_at ON processed_messages USING brin (processed_at)
  WITH (pages_per_range = 32, autosummarize = on);

-- The checkpoint chain: the run of offsets of one partition that one transaction covered ('r'), or a move of the
-- position ('m'). Insert-only. A link has one successor, a chain one genesis (seq 0); the tip is max(seq).
CREATE TABLE checkpoints (
  checkpoint_id uuid PRIMARY KEY,
  prev_id       uuid UNIQUE,
  seq           bigint NOT NULL,
  consumer_name varchar(100) COLLATE "C" NOT NULL,
  cluster_id    varchar(100) COLLATE "C" NOT NULL,
  topic_id      uuid NOT NULL,
  topic         varchar(249) COLLATE "C",
  partition     int NOT NULL,
  kind          char(1) NOT NULL DEFAULT 'r' CHECK (kind IN ('r', 'm')),
  first_offset  bigint NOT NULL,
  next_offset   bigint NOT NULL,
  consumed      int NOT NULL,
  applied       int NOT NULL,
  duplicate     int NOT NULL,
  skipped       int NOT NULL,
  dead          int NOT NULL,
  too_old       int NOT NULL,
  key_version   int NOT NULL,
  plugin_digest bytea NOT NULL,
  committed_at  timestamptz NOT NULL DEFAULT now(),
  CHECK (consumed = applied + duplicate + skipped + dead + too_old),
  CHECK (kind = 'm' OR next_offset > first_offset),
  CHECK (kind = 'r' OR consumed = 0),
  CHECK ((prev_id IS NULL) = (seq = 0))
);
CREATE UNIQUE INDEX checkpoints_place ON checkpoints (consumer_name, cluster_id, topic_id, partition, seq);

-- A duplicate, by where it stood, and how often it was seen there.
CREATE TABLE duplicate_attempts (
  consumer_name   varchar(100) COLLATE "C" NOT NULL,
  message_id      varchar(120) COLLATE "C" NOT NULL,
  source_position varchar(600) COLLATE "C" NOT NULL,
  seen            bigint NOT NULL DEFAULT 1,
  first_seen      timestamptz NOT NULL DEFAULT now(),
  last_seen       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer_name, message_id, source_position)
);

-- The same id with another payload: a producer's bug or a wrong key. The payload that was not applied is kept.
CREATE TABLE payload_conflicts (
  consumer_name   varchar(100) COLLATE "C" NOT NULL,
  message_id      varchar(120) COLLATE "C" NOT NULL,
  fingerprint     bytea NOT NULL,
  source_position varchar(600) COLLATE "C" NOT NULL,
  payload         bytea,
  seen            bigint NOT NULL DEFAULT 1,
  first_seen      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer_name, message_id, fingerprint)
);

-- An input that could not be applied, raw, to be corrected or replayed. From Kafka (all of its position) or from
-- another source (source_ref: file and line, table and id).
CREATE TABLE dead_letters (
  dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  consumer_name  varchar(100) COLLATE "C" NOT NULL,
  message_id     varchar(120) COLLATE "C",
  status         varchar(10) COLLATE "C" NOT NULL DEFAULT 'open'
                 CHECK (status IN ('open', 'replayed', 'superseded', 'discarded')),
  cluster_id     varchar(100) COLLATE "C",
  topic_id       uuid,
  topic          varchar(249) COLLATE "C",
  partition      int,
  "offset"       bigint,
  run_id         varchar(120) COLLATE "C",
  source_ref     varchar(600) COLLATE "C",
  code           varchar(100) NOT NULL,
  message        text NOT NULL,
  sqlstate       char(5),
  key            bytea,
  payload        bytea,
  headers        jsonb,
  seen           bigint NOT NULL DEFAULT 1,
  created_at     timestamptz NOT NULL DEFAULT now(),
  resolved_at    timestamptz,
  resolved_by    uuid,
  CHECK (num_nulls(cluster_id, topic_id, partition, "offset") IN (0, 4)),
  CHECK ((cluster_id IS NULL) <> (source_ref IS NULL))
);
CREATE UNIQUE INDEX dead_letters_kafka ON dead_letters (consumer_name, cluster_id, topic_id, partition, "offset")
  WHERE cluster_id IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_other ON dead_letters (consumer_name, source_ref) WHERE source_ref IS NOT NULL;
CREATE INDEX dead_letters_open ON dead_letters (consumer_name, message_id) WHERE status = 'open';

-- Raw inputs with the identity they gave: another plugin version must give the same.
CREATE TABLE key_samples (
  consumer_name varchar(100) COLLATE "C" NOT NULL,
  n             int NOT NULL,
  source        varchar(100) NOT NULL,
  key           bytea,
  payload       bytea,
  headers       jsonb NOT NULL,
  message_id    varchar(120) COLLATE "C" NOT NULL,
  aggregate_id  varchar(120) COLLATE "C" NOT NULL,
  key_version   int NOT NULL,
  taken_at      timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer_name, n)
);

-- One backfill run. The run id is for tracking, never part of a dedup key.
CREATE TABLE backfill_runs (
  run_id        varchar(120) COLLATE "C" PRIMARY KEY,
  consumer_name varchar(100) COLLATE "C" NOT NULL,
  kind          varchar(12) NOT NULL,
  source_range  jsonb NOT NULL,
  state         varchar(10) NOT NULL,
  resume_after  jsonb,
  consumed      bigint NOT NULL DEFAULT 0,
  applied       bigint NOT NULL DEFAULT 0,
  duplicate     bigint NOT NULL DEFAULT 0,
  skipped       bigint NOT NULL DEFAULT 0,
  dead          bigint NOT NULL DEFAULT 0,
  too_old       bigint NOT NULL DEFAULT 0,
  started_at    timestamptz NOT NULL DEFAULT now(),
  finished_at   timestamptz,
  CHECK (consumed = applied + duplicate + skipped + dead + too_old)
);

-- Inputs applied once more on purpose, once per run.
CREATE TABLE reprocessed_messages (
  run_id        varchar(120) COLLATE "C" NOT NULL,
  consumer_name varchar(100) COLLATE "C" NOT NULL,
  message_id    varchar(120) COLLATE "C" NOT NULL,
  processed_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (run_id, consumer_name, message_id)
);

CREATE TABLE cleanup_runs (
  cleanup_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  consumer_name varchar(100) COLLATE "C" NOT NULL,
  horizon       timestamptz NOT NULL,
  started_at    timestamptz NOT NULL DEFAULT now(),
  finished_at   timestamptz,
  deleted       bigint NOT NULL DEFAULT 0
);

-- Every attempt: what was applied, and each time a duplicate of it was seen.
CREATE VIEW processed_input_attempts AS
  SELECT consumer_name, message_id AS input_id, 'applied' AS outcome,
         source_topic || ':' || source_partition || ':' || source_offset AS source_position,
         processed_at AS attempted_at
    FROM processed_messages
  UNION ALL
  SELECT d.consumer_name, d.message_id, 'duplicate', d.source_position,
         CASE WHEN n = d.seen THEN d.last_seen ELSE d.first_seen END
    FROM duplicate_attempts d CROSS JOIN LATERAL generate_series(1, d.seen) AS n;
