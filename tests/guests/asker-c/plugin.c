// Asks for what a plugin does not have, where the event says so: `{"id":"e-1","does":"time"}`. At start it may.
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tidegate.h"

typedef struct { tg_text id, does; } event;

static const tg_field EVENT[] = { TG_TEXT(event, id), TG_TEXT(event, does), TG_END };

static const char *configure(void) {
  struct timespec now;
  unsigned char bytes[16];
  int answered = time(NULL) != (time_t)-1 && clock_gettime(CLOCK_MONOTONIC, &now) == 0 && getentropy(bytes, sizeof bytes) == 0;
  return answered ? NULL : "nothing answers";
}

static tg_result key(const void *of, tg_identity *who) {
  const event *e = of;
  *who = (tg_identity){ e->id, e->id, NULL };
  if (tg_equal(e->does, "key") && time(NULL) == (time_t)-1) tg_fail(tg_format("no time"));
  return TG_OK;
}

static tg_result compute(const void *of, tg_rows *rows, const tg_context *context) {
  const event *e = of;
  (void)context;
  struct timespec now = { 0, 0 };
  unsigned char bytes[16];
  if (tg_equal(e->does, "time") && time(NULL) == (time_t)-1) tg_fail(tg_format("no time"));
  if (tg_equal(e->does, "monotonic") && clock_gettime(CLOCK_MONOTONIC, &now)) tg_fail(tg_format("no time"));
  if (tg_equal(e->does, "sleep") && nanosleep(&now, NULL)) tg_fail(tg_format("no sleep"));
  if (tg_equal(e->does, "random") && getentropy(bytes, sizeof bytes)) tg_fail(tg_format("no bytes"));
  if (tg_equal(e->does, "exit")) exit(0);
  tg_upsert(rows, "rows", TG_ROW({ "id", tg(e->id) }));
  return TG_OK;
}

static const char *const COLUMNS[] = { "id", NULL };
static const tg_writes WRITES[] = { { "rows", COLUMNS }, { NULL, NULL } };

const tg_plugin tg_the_plugin = {
  .name = "asker", .version = "0.1.0", .writes = WRITES, .event_size = sizeof(event), .event = EVENT,
  .configure = configure, .key = key, .compute = compute,
};
