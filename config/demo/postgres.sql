-- The tables that the demo's plugins write. The business key is the primary key: one row per payment, one per order,
-- whatever arrives twice.
CREATE TABLE settlements (
  payment_id    varchar(120)   PRIMARY KEY,
  order_id      varchar(120)   NOT NULL,
  amount        numeric(18, 4) NOT NULL,
  status        text           NOT NULL,   -- authorized, captured, refunded, failed
  event_version bigint         NOT NULL,   -- of the newest event that the row has seen
  created_at    timestamptz    NOT NULL
);
CREATE TABLE order_summary (
  order_id           varchar(120) PRIMARY KEY,
  customer           varchar(120),
  status             text,                 -- 1-placed … 6-refunded: the furthest that was seen
  ordered_minor      bigint       NOT NULL, -- amounts in cents
  captured_minor     bigint       NOT NULL,
  refunded_minor     bigint       NOT NULL,
  last_event_version bigint       NOT NULL,
  placed_at          timestamptz,
  updated_at         timestamptz  NOT NULL
);
