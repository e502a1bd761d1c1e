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
  stage              bigint,               -- the furthest seen: 1 placed, 2 authorized, 3 paid, 4 shipped, 5 cancelled, 6 refunded
  ordered_minor      bigint       NOT NULL, -- amounts in cents
  captured_minor     bigint       NOT NULL,
  refunded_minor     bigint       NOT NULL,
  last_event_version bigint       NOT NULL,
  placed_at          timestamptz,
  updated_at         timestamptz  NOT NULL
);
