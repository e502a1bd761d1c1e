// Which rows an event changes. Everything else (Kafka, transactions, duplicates) is tidegate's.
#include "tidegate.h"

// An event, as its producer writes it; others of its fields are ignored. What is broken becomes a dead letter by itself.
typedef struct {
  tg_text type, event_id, payment_id, order_id;
  int64_t version;
  tg_instant occurred_at;
  tg_decimal amount; // keeps the digits: 10.10 stays 10.10
} payment;

static const char *const TYPES[] = { "payment.captured", NULL }; // others are skipped

static const tg_field PAYMENT[] = {
  TG_ONLY(payment, type, TYPES),
  TG_TEXT(payment, event_id),
  TG_TEXT(payment, payment_id),
  TG_TEXT(payment, order_id),
  TG_INT64(payment, version),
  TG_INSTANT(payment, occurred_at),
  TG_DECIMAL(payment, amount),
  TG_END,
};

// The producer's own id of the event: the same on every re-publication. Never an offset, a time or a hash.
static tg_result key(const void *event, tg_identity *who) {
  const payment *p = event;
  *who = (tg_identity){ p->event_id, p->order_id, &p->occurred_at };
  return TG_OK;
}

// What the row shall be, not what to add to it.
static tg_result compute(const void *event, tg_rows *rows, const tg_context *context) {
  const payment *p = event;
  (void)context;
  if (tg_is_negative(p->amount)) return tg_reject("bad-amount", tg_str("amount is negative"));
  tg_upsert(rows, "payments", TG_ROW(
    { "payment_id", tg(p->payment_id) },
    { "order_id", tg(p->order_id) },
    { "amount", tg(p->amount) },
    { "event_version", tg(p->version) },
    { "paid_at", tg(p->occurred_at) }));
  return TG_OK;
}

// The columns of each target, as the configuration grants them. How a row merges with the one that is there is configuration.
static const char *const COLUMNS[] = { "payment_id", "order_id", "amount", "event_version", "paid_at", NULL };
static const tg_writes WRITES[] = { { "payments", COLUMNS }, { NULL, NULL } };

const tg_plugin tg_the_plugin = {
  .name = "__name__",
  .version = "0.1.0",
  .writes = WRITES,
  .event_size = sizeof(payment),
  .event = PAYMENT,
  .key = key,
  .compute = compute,
};
