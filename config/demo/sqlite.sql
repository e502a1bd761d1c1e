-- The tables that the demo's plugins write. The business key is the primary key: one row per payment, one per order,
-- whatever arrives twice. Times are microseconds since 1970; SQLite has no decimals, so amounts with digits behind the
-- point are text.
CREATE TABLE settlements (
  payment_id    TEXT    NOT NULL PRIMARY KEY,
  order_id      TEXT    NOT NULL,
  amount        TEXT    NOT NULL,
  status        TEXT    NOT NULL,           -- authorized, captured, refunded, failed
  event_version INTEGER NOT NULL,           -- of the newest event that the row has seen
  created_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE order_summary (
  order_id           TEXT    NOT NULL PRIMARY KEY,
  customer           TEXT,
  stage              INTEGER,               -- the furthest seen: 1 placed, 2 authorized, 3 paid, 4 shipped, 5 cancelled, 6 refunded
  ordered_minor      INTEGER NOT NULL,      -- amounts in cents
  captured_minor     INTEGER NOT NULL,
  refunded_minor     INTEGER NOT NULL,
  last_event_version INTEGER NOT NULL,
  placed_at          INTEGER,
  updated_at         INTEGER NOT NULL
) STRICT;
