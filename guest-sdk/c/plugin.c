// From two functions over one event to what the host calls: configure, extract-keys and compute over a batch, in a fresh
// instance per batch. What was read of an event is kept in between.
#include <stdlib.h>

#include "tidegate.h"

struct tg_stop {
  bool skip;
  tg_text code, text;
};

struct tg_rows {
  tidegate_plugin_types_shape_t *shapes;
  size_t shape_count, shape_room;
  tidegate_plugin_types_change_t *changes;
  size_t change_count, change_room;
};

static void **events;

static void *zeroed(size_t count, size_t size) {
  void *memory = calloc(count == 0 ? 1 : count, size);
  if (memory == NULL) tg_fail(tg_str("no memory"));
  return memory;
}

static void *grown(void *of, size_t count, size_t *room, size_t size) {
  if (count < *room) return of;
  *room = *room == 0 ? 8 : *room * 2;
  void *more = realloc(of, *room * size);
  if (more == NULL) tg_fail(tg_str("no memory"));
  return more;
}

tg_result tg_skip(tg_text why) {
  struct tg_stop *stop = zeroed(1, sizeof *stop);
  *stop = (struct tg_stop){ true, { NULL, 0 }, why };
  return stop;
}

tg_result tg_reject(const char *code, tg_text message) {
  struct tg_stop *stop = zeroed(1, sizeof *stop);
  *stop = (struct tg_stop){ false, tg_str(code), message };
  return stop;
}

tg_value tg_null(void) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_NULL }; }
tg_value tg_of_text(tg_text text) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_TEXT, .val.text = text }; }
tg_value tg_of_str(const char *text) { return tg_of_text(tg_str(text)); }
tg_value tg_of_int(int64_t n) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_INTEGER, .val.integer = n }; }
tg_value tg_of_real(double n) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_REAL, .val.real = n }; }
tg_value tg_of_bool(bool yes) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_BOOLEAN, .val.boolean = yes }; }
tg_value tg_of_decimal(tg_decimal n) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_DECIMAL, .val.decimal = n.digits }; }
tg_value tg_of_instant(tg_instant at) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_TIMESTAMP, .val.timestamp = at }; }
tg_value tg_of_json(tg_text json) { return (tg_value){ .tag = TIDEGATE_PLUGIN_TYPES_VALUE_JSON, .val.json = json }; }

// The head of a row is said once per batch, and found again by its columns.
static uint32_t shape_of(tg_rows *rows, uint8_t operation, const char *target, const tg_column *row, size_t columns) {
  for (size_t at = 0; at < rows->shape_count; at++) {
    const tidegate_plugin_types_shape_t *known = &rows->shapes[at];
    bool same = known->operation == operation && known->columns.len == columns && tg_equal(known->target, target);
    for (size_t i = 0; same && i < columns; i++) same = tg_equal(known->columns.ptr[i], row[i].name);
    if (same) return (uint32_t)at;
  }
  rows->shapes = grown(rows->shapes, rows->shape_count, &rows->shape_room, sizeof *rows->shapes);
  tidegate_plugin_types_shape_t *shape = &rows->shapes[rows->shape_count];
  *shape = (tidegate_plugin_types_shape_t){ operation, tg_str(target), { zeroed(columns, sizeof(tg_text)), columns } };
  for (size_t i = 0; i < columns; i++) shape->columns.ptr[i] = tg_str(row[i].name);
  return (uint32_t)rows->shape_count++;
}

static void push(tg_rows *rows, uint8_t operation, const char *target, const tg_column *row, size_t columns) {
  rows->changes = grown(rows->changes, rows->change_count, &rows->change_room, sizeof *rows->changes);
  tg_value *values = zeroed(columns, sizeof *values);
  for (size_t i = 0; i < columns; i++) values[i] = row[i].value;
  uint32_t shape = shape_of(rows, operation, target, row, columns);
  rows->changes[rows->change_count++] = (tidegate_plugin_types_change_t){ shape, { values, columns } };
}

void tg_upsert(tg_rows *rows, const char *target, const tg_column *row, size_t columns) {
  push(rows, TIDEGATE_PLUGIN_TYPES_OPERATION_UPSERT, target, row, columns);
}
void tg_update(tg_rows *rows, const char *target, const tg_column *row, size_t columns) {
  push(rows, TIDEGATE_PLUGIN_TYPES_OPERATION_UPDATE, target, row, columns);
}
void tg_delete(tg_rows *rows, const char *target, const tg_column *row, size_t columns) {
  push(rows, TIDEGATE_PLUGIN_TYPES_OPERATION_DELETE, target, row, columns);
}

void exports_tidegate_plugin_processor_describe(plugin_string_t *ret) {
  const tg_plugin *plugin = &tg_the_plugin;
  tg_text json = tg_format("{\"name\":\"%s\",\"version\":\"%s\",\"key-version\":%d,\"targets\":{", plugin->name,
                           plugin->version, plugin->key_version);
  for (const tg_writes *writes = plugin->writes; writes->target != NULL; writes++) {
    json = tg_format("%.*s%s\"%s\":[", TG_FMT(json), writes == plugin->writes ? "" : ",", writes->target);
    for (const char *const *column = writes->columns; *column != NULL; column++) {
      json = tg_format("%.*s%s\"%s\"", TG_FMT(json), column == writes->columns ? "" : ",", *column);
    }
    json = tg_format("%.*s]", TG_FMT(json));
  }
  *ret = tg_format("%.*s}}", TG_FMT(json));
}

bool exports_tidegate_plugin_processor_configure(plugin_string_t *settings, plugin_string_t *err) {
  static const tg_field none[] = { TG_END };
  const tg_plugin *plugin = &tg_the_plugin;
  // A misspelt setting is found at start.
  tg_result stop = tg_check_names(*settings, plugin->settings == NULL ? none : plugin->settings);
  if (stop == TG_OK && plugin->settings != NULL) stop = tg_read_json(*settings, plugin->settings, plugin->settings_into);
  if (stop != TG_OK) {
    *err = stop->text;
    return false;
  }
  const char *why = plugin->configure == NULL ? NULL : plugin->configure();
  if (why != NULL) *err = tg_str(why);
  return why == NULL;
}

static tg_result parse(const tg_message *message, void *event) {
  if (tg_the_plugin.parse != NULL) return tg_the_plugin.parse(message, event);
  switch (message->body.tag) {
  case TIDEGATE_PLUGIN_TYPES_BODY_TEXT: return tg_read_json(message->body.val.text, tg_the_plugin.event, event);
  case TIDEGATE_PLUGIN_TYPES_BODY_ABSENT: return tg_skip(tg_str("tombstone"));
  default: return tg_reject("payload-binary", tg_str("the payload comes as bytes: set payload = \"text\" for this consumer"));
  }
}

static tidegate_plugin_types_rejection_t rejection(tg_result stop) {
  return (tidegate_plugin_types_rejection_t){ stop->code, stop->text };
}

void exports_tidegate_plugin_processor_extract_keys(exports_tidegate_plugin_processor_list_message_t *batch,
                                                    exports_tidegate_plugin_processor_list_key_result_t *ret) {
  events = zeroed(batch->len, sizeof *events);
  *ret = (exports_tidegate_plugin_processor_list_key_result_t){ zeroed(batch->len, sizeof *ret->ptr), batch->len };
  for (size_t at = 0; at < batch->len; at++) {
    tidegate_plugin_types_key_result_t *result = &ret->ptr[at];
    void *event = zeroed(1, tg_the_plugin.event_size);
    tg_identity who = { 0 };
    tg_result stop = parse(&batch->ptr[at], event);
    if (stop == TG_OK) stop = tg_the_plugin.key(event, &who);
    if (stop == TG_OK) {
      events[at] = event;
      result->tag = TIDEGATE_PLUGIN_TYPES_KEY_RESULT_IDENTITY;
      result->val.identity.message_id = who.message_id;
      result->val.identity.aggregate_id = who.aggregate_id;
      result->val.identity.occurred_at.is_some = who.occurred_at != NULL;
      if (who.occurred_at != NULL) result->val.identity.occurred_at.val = *who.occurred_at;
    } else if (stop->skip) {
      result->tag = TIDEGATE_PLUGIN_TYPES_KEY_RESULT_SKIP;
      result->val.skip = stop->text;
    } else {
      result->tag = TIDEGATE_PLUGIN_TYPES_KEY_RESULT_REJECT;
      result->val.reject = rejection(stop);
    }
  }
}

void exports_tidegate_plugin_processor_compute(exports_tidegate_plugin_processor_list_accepted_t *batch,
                                               exports_tidegate_plugin_processor_computed_t *ret) {
  tg_rows rows = { 0 };
  tidegate_plugin_types_compute_result_t *results = zeroed(batch->len, sizeof *results);
  for (size_t at = 0; at < batch->len; at++) {
    const tidegate_plugin_types_accepted_t *accepted = &batch->ptr[at];
    tg_context context = { accepted->record_time_ms.is_some, accepted->record_time_ms.val, accepted->seed };
    // Each event has changes of its own, which the result keeps.
    rows.changes = NULL;
    rows.change_count = rows.change_room = 0;
    tg_result stop = tg_the_plugin.compute(events[accepted->index], &rows, &context);
    if (stop == TG_OK) {
      results[at].tag = TIDEGATE_PLUGIN_TYPES_COMPUTE_RESULT_CHANGES;
      results[at].val.changes = (tidegate_plugin_types_list_change_t){ rows.changes, rows.change_count };
    } else if (stop->skip) {
      results[at].tag = TIDEGATE_PLUGIN_TYPES_COMPUTE_RESULT_SKIP;
      results[at].val.skip = stop->text;
    } else {
      results[at].tag = TIDEGATE_PLUGIN_TYPES_COMPUTE_RESULT_REJECT;
      results[at].val.reject = rejection(stop);
    }
  }
  *ret = (exports_tidegate_plugin_processor_computed_t){ { rows.shapes, rows.shape_count }, { results, batch->len } };
}
