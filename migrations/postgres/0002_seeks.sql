-- Who moved a consumer, when, from where to where, and why: one row per partition of a `tidegate seek`. The move itself is
-- the link of this id in `checkpoints`; a table of its own costs the links of the hot path nothing and outlives pruning.
CREATE TABLE seeks (
  checkpoint_id uuid PRIMARY KEY,
  consumer_name varchar(100) COLLATE "C" NOT NULL,
  cluster_id    varchar(100) COLLATE "C" NOT NULL,
  topic_id      uuid NOT NULL,
  topic         varchar(249) COLLATE "C" NOT NULL,
  partition     int NOT NULL,
  from_offset   bigint,          -- NULL: the first link in a topic that was made again
  to_offset     bigint NOT NULL,
  how           text NOT NULL,   -- the words of the command: --offset 12, --topic-recreated
  made_by       text NOT NULL,
  reason        text,
  made_at       timestamptz NOT NULL DEFAULT now()
);
