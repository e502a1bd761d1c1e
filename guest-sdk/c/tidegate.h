// Write tidegate plugins in C: one event in, a key and rows out.
//
// Nothing has to be freed: an instance lives for one batch, and its memory goes as a whole. What an event's function returns
// as a stop rejects (or skips) that event alone. What crashes (tg_fail, abort, a bad pointer) ends the instance; the host then
// finds the event that does it by splitting the batch: right, but slow.
#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "contract.h"

// A text: UTF-8, not closed by a NUL.
typedef plugin_string_t tg_text;
// A number by its digits, never a float: 10.10 stays 10.10, however long.
typedef struct { tg_text digits; } tg_decimal;
// A point in time as the event has it: RFC 3339, or milliseconds since 1970. The host parses it.
typedef tidegate_plugin_types_instant_t tg_instant;
// What can stand in a column: made by tg() and its kind.
typedef tidegate_plugin_types_value_t tg_value;
typedef tidegate_plugin_types_message_t tg_message;

tg_text tg_str(const char *text);
bool tg_equal(tg_text text, const char *other);
// As printf; %.*s takes TG_FMT(text).
tg_text tg_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define TG_FMT(text) (int)(text).len, (const char *)(text).ptr
// The text with quotes and escapes, as JSON has it.
tg_text tg_quoted(tg_text text);

bool tg_is_negative(tg_decimal number);
bool tg_is_zero(tg_decimal number);
// The number in units of its n-th decimal place: 10.10 with two places is 1010. False where it would have to be rounded, or
// is beyond 64 bits.
bool tg_scaled(tg_decimal number, int places, int64_t *out);

// Why an event gives no rows. NULL: it does.
typedef const struct tg_stop *tg_result;
#define TG_OK NULL
// Not for this consumer. Counted, not kept.
tg_result tg_skip(tg_text why);
// Broken: to the dead letters. The code is a short word to filter them by.
tg_result tg_reject(const char *code, tg_text message);

// --- What an event looks like: a struct, and a table of its fields.

typedef enum { TG_IS_TEXT, TG_IS_INT64, TG_IS_DECIMAL, TG_IS_INSTANT, TG_IS_BOOL } tg_kind;
typedef struct {
  const char *name;
  tg_kind kind;
  size_t offset;
  // Where not NULL: one of these words; an event with another one is skipped. Put that field first.
  const char *const *only;
  // Where not 0: it may be missing or null, and the bool at this offset, less one, says whether it is there.
  size_t found;
} tg_field;

#define TG_TEXT(type, member) { #member, TG_IS_TEXT, offsetof(type, member), NULL, 0 }
#define TG_INT64(type, member) { #member, TG_IS_INT64, offsetof(type, member), NULL, 0 }
#define TG_DECIMAL(type, member) { #member, TG_IS_DECIMAL, offsetof(type, member), NULL, 0 }
#define TG_INSTANT(type, member) { #member, TG_IS_INSTANT, offsetof(type, member), NULL, 0 }
#define TG_BOOL(type, member) { #member, TG_IS_BOOL, offsetof(type, member), NULL, 0 }
#define TG_ONLY(type, member, words) { #member, TG_IS_TEXT, offsetof(type, member), words, 0 }
#define TG_OPTIONAL(type, member, kind, flag) { #member, kind, offsetof(type, member), NULL, offsetof(type, flag) + 1 }
#define TG_END { NULL, TG_IS_TEXT, 0, NULL, 0 }

// Reads a JSON object; what does not fit is rejected with the code bad-json. Other members are ignored.
tg_result tg_read_json(tg_text json, const tg_field *fields, void *event);

// Refuses an object with a member that is none of the fields.
tg_result tg_check_names(tg_text json, const tg_field *fields);

// --- A plugin.

typedef struct {
  // The producer's event id, the key of the deduplication: never made up here, never an offset. At most 120 characters.
  tg_text message_id;
  // The business object: for ordering and search. At most 120 characters.
  tg_text aggregate_id;
  // When it happened, where the event says so (NULL otherwise): tells a replay that is older than the ledger's memory.
  const tg_instant *occurred_at;
} tg_identity;

typedef struct { const char *name; tg_value value; } tg_column;
typedef struct tg_rows tg_rows;

// The rows of an event apply in this order: tg_upsert(rows, "payments", TG_ROW({"id", tg(event->id)}, …)). The columns of
// tg_delete are the target's key, and the column of its guard where it has one.
#define TG_ROW(...) (const tg_column[]){ __VA_ARGS__ }, sizeof((const tg_column[]){ __VA_ARGS__ }) / sizeof(tg_column)
void tg_upsert(tg_rows *rows, const char *target, const tg_column *row, size_t columns);
void tg_update(tg_rows *rows, const char *target, const tg_column *row, size_t columns);
void tg_delete(tg_rows *rows, const char *target, const tg_column *row, size_t columns);

tg_value tg_of_text(tg_text text);
tg_value tg_of_str(const char *text);
tg_value tg_of_int(int64_t number);
tg_value tg_of_real(double number);
tg_value tg_of_bool(bool yes);
tg_value tg_of_decimal(tg_decimal number);
tg_value tg_of_instant(tg_instant at);
tg_value tg_of_json(tg_text json);
tg_value tg_null(void);
#define tg(of)                                                                                                        \
  _Generic((of), tg_text: tg_of_text, const char *: tg_of_str, char *: tg_of_str, int: tg_of_int, int64_t: tg_of_int, \
           double: tg_of_real, bool: tg_of_bool, tg_decimal: tg_of_decimal, tg_instant: tg_of_instant)(of)

// All that compute may know besides the event.
typedef struct {
  // Kafka's timestamp, where there is one. A re-publication has another one: prefer the event's own time.
  bool has_record_time;
  int64_t record_time_ms;
  // The same for every copy of an event. There is no other randomness.
  uint32_t seed;
} tg_context;

typedef struct {
  const char *target;
  // Ends with NULL.
  const char *const *columns;
} tg_writes;

typedef struct {
  const char *name;
  const char *version;
  // Raise it when key gives other keys than before, on purpose.
  int key_version;
  // Ends with {0}.
  const tg_writes *writes;
  // The event's struct, and what is in it; or parse.
  size_t event_size;
  const tg_field *event;
  // Instead of `event`: reads a message into zeroed memory of event_size.
  tg_result (*parse)(const tg_message *message, void *event);
  // The consumer's settings, likewise, before configure; NULL: any setting is refused.
  const tg_field *settings;
  void *settings_into;
  // Judges the settings; NULL, or a text for the operator.
  const char *(*configure)(void);
  // Who the event is. Depends on the event alone.
  tg_result (*key)(const void *event, tg_identity *who);
  // The rows that the event changes.
  tg_result (*compute)(const void *event, tg_rows *rows, const tg_context *context);
} tg_plugin;

// Every plugin defines this one.
extern const tg_plugin tg_the_plugin;

// Lines for the operator's log.
void tg_debug(tg_text text);
void tg_info(tg_text text);
void tg_warn(tg_text text);
void tg_error(tg_text text);
// Ends the instance, and says why: the event's dead letter has this text.
_Noreturn void tg_fail(tg_text why);

#endif
