// Fails where its author did not foresee it and the event says so: `{"id":"e-1","does":"compute"}`.
#include "tidegate.h"

typedef struct { tg_text id, does; } event;

static const tg_field EVENT[] = { TG_TEXT(event, id), TG_TEXT(event, does), TG_END };

static tg_result key(const void *of, tg_identity *who) {
  const event *e = of;
  if (tg_equal(e->does, "key")) tg_fail(tg_format("no key of %.*s", TG_FMT(e->id)));
  *who = (tg_identity){ e->id, e->id, NULL };
  return TG_OK;
}

static tg_result compute(const void *of, tg_rows *rows, const tg_context *context) {
  const event *e = of;
  (void)context;
  tg_debug(tg_format("computing %.*s", TG_FMT(e->id)));
  tg_upsert(rows, "rows", TG_ROW({ "id", tg(e->id) }));
  if (tg_equal(e->does, "compute") || tg_equal(e->does, "value") || tg_equal(e->does, "column")) {
    tg_fail(tg_format("no rows of %.*s", TG_FMT(e->id)));
  }
  return TG_OK;
}

static const char *const COLUMNS[] = { "id", NULL };
static const tg_writes WRITES[] = { { "rows", COLUMNS }, { NULL, NULL } };

const tg_plugin tg_the_plugin = {
  .name = "thrower", .version = "0.1.0", .writes = WRITES, .event_size = sizeof(event), .event = EVENT,
  .key = key, .compute = compute,
};
