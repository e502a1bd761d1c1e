// Payment events into settlements: what plugins/settlement is in Rust, in C.
#include "tidegate.h"

static const char *const TYPES[] = { "payment.authorized", "payment.captured", "payment.refunded", "payment.failed", NULL };

typedef struct {
  tg_text type, event_id, payment_id, order_id, currency;
  int64_t version;
  tg_instant occurred_at;
  tg_decimal amount; // keeps the digits: 10.10 stays 10.10
} payment;

static const tg_field PAYMENT[] = {
  TG_ONLY(payment, type, TYPES),
  TG_TEXT(payment, event_id),
  TG_TEXT(payment, payment_id),
  TG_TEXT(payment, order_id),
  TG_INT64(payment, version),
  TG_INSTANT(payment, occurred_at),
  TG_DECIMAL(payment, amount),
  TG_TEXT(payment, currency),
  TG_END,
};

typedef struct {
  bool has_currency;
  tg_text currency;
} options;

static options settings;

static const tg_field SETTINGS[] = { TG_OPTIONAL(options, currency, TG_IS_TEXT, has_currency), TG_END };

static const char *configure(void) {
  bool fine = !settings.has_currency || settings.currency.len == 3;
  for (size_t i = 0; i < settings.currency.len; i++) {
    fine = fine && settings.currency.ptr[i] >= 'A' && settings.currency.ptr[i] <= 'Z';
  }
  return fine ? NULL : "currency is no ISO 4217 code such as \"EUR\"";
}

static bool same(tg_text a, tg_text b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

static tg_result key(const void *event, tg_identity *who) {
  const payment *p = event;
  if (settings.has_currency && !same(p->currency, settings.currency)) {
    tg_text quoted = tg_quoted(p->currency);
    return tg_skip(tg_format("currency %.*s", TG_FMT(quoted)));
  }
  *who = (tg_identity){ p->event_id, p->order_id, &p->occurred_at };
  return TG_OK;
}

static tg_result compute(const void *event, tg_rows *rows, const tg_context *context) {
  const payment *p = event;
  (void)context;
  if (tg_is_negative(p->amount)) return tg_reject("bad-amount", tg_str("amount is negative"));
  size_t prefix = strlen("payment."); // the rest is the status
  tg_text status = { p->type.ptr + prefix, p->type.len - prefix };
  tg_upsert(rows, "settlements", TG_ROW(
    { "payment_id", tg(p->payment_id) },
    { "order_id", tg(p->order_id) },
    { "amount", tg(p->amount) },
    { "status", tg(status) },
    { "event_version", tg(p->version) },
    { "created_at", tg(p->occurred_at) }));
  return TG_OK;
}

static const char *const COLUMNS[] = { "payment_id", "order_id", "amount", "status", "event_version", "created_at", NULL };
static const tg_writes WRITES[] = { { "settlements", COLUMNS }, { NULL, NULL } };

const tg_plugin tg_the_plugin = {
  .name = "settlement",
  .version = "0.1.0",
  .writes = WRITES,
  .event_size = sizeof(payment),
  .event = PAYMENT,
  .settings = SETTINGS,
  .settings_into = &settings,
  .configure = configure,
  .key = key,
  .compute = compute,
};
