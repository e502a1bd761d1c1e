// Reads a JSON object into a struct, by a table of its fields. Every byte is checked; numbers keep their digits.
#include <stdlib.h>

#include "tidegate.h"

enum { DEPTH = 128 };

typedef struct {
  const uint8_t *at, *end;
  const char *wrong;
} reader;

static bool fail(reader *r, const char *why) {
  if (r->wrong == NULL) r->wrong = why;
  return false;
}

static void blanks(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool take(reader *r, char c) {
  if (r->at < r->end && *r->at == (uint8_t)c) {
    r->at++;
    return true;
  }
  return false;
}

static bool word(reader *r, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length) != 0) return fail(r, "not JSON");
  r->at += length;
  return true;
}

static bool hex4(reader *r, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 4; i++, r->at++) {
    if (r->at >= r->end) return fail(r, "an escape is cut off");
    uint8_t c = *r->at, low = c | 0x20;
    if (c >= '0' && c <= '9') *out = *out * 16 + (c - '0');
    else if (low >= 'a' && low <= 'f') *out = *out * 16 + (low - 'a' + 10);
    else return fail(r, "an escape has other than hexadecimal digits");
  }
  return true;
}

static uint8_t *encode(uint8_t *to, uint32_t c) {
  if (c < 0x80) *to++ = (uint8_t)c;
  else if (c < 0x800) { *to++ = 0xC0 | c >> 6; *to++ = 0x80 | (c & 0x3F); }
  else if (c < 0x10000) { *to++ = 0xE0 | c >> 12; *to++ = 0x80 | (c >> 6 & 0x3F); *to++ = 0x80 | (c & 0x3F); }
  else { *to++ = 0xF0 | c >> 18; *to++ = 0x80 | (c >> 12 & 0x3F); *to++ = 0x80 | (c >> 6 & 0x3F); *to++ = 0x80 | (c & 0x3F); }
  return to;
}

static bool escape(reader *r, uint8_t **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  if (r->at >= r->end) return fail(r, "a text is not closed");
  uint8_t c = *r->at++;
  if (c != 'u') {
    const char *found = c == 0 ? NULL : strchr(from, c);
    if (found == NULL) return fail(r, "an unknown escape");
    *(*to)++ = (uint8_t)into[found - from];
    return true;
  }
  uint32_t unit, low;
  if (!hex4(r, &unit)) return false;
  if (unit >= 0xDC00 && unit <= 0xDFFF) return fail(r, "half of a surrogate pair");
  if (unit >= 0xD800 && unit <= 0xDBFF) {
    if (!take(r, '\\') || !take(r, 'u') || !hex4(r, &low) || low < 0xDC00 || low > 0xDFFF) {
      return fail(r, "half of a surrogate pair");
    }
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  *to = encode(*to, unit);
  return true;
}

// A text without escapes is not copied.
static bool string(reader *r, tg_text *out) {
  if (!take(r, '"')) return fail(r, "expected a text");
  const uint8_t *begin = r->at;
  while (r->at < r->end && *r->at != '"' && *r->at != '\\' && *r->at >= 0x20) r->at++;
  if (r->at < r->end && *r->at == '"') {
    *out = (tg_text){ (uint8_t *)begin, (size_t)(r->at - begin) };
    r->at++;
    return true;
  }
  const uint8_t *close = r->at;
  while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
  if (close >= r->end) return fail(r, "a text is not closed");
  uint8_t *copy = malloc((size_t)(close - begin) + 1), *to = copy;
  if (copy == NULL) tg_fail(tg_str("no memory for a text"));
  memcpy(to, begin, (size_t)(r->at - begin));
  to += r->at - begin;
  while (*r->at != '"') {
    if (*r->at < 0x20) return fail(r, "a control character in a text");
    if (*r->at != '\\') {
      *to++ = *r->at++;
    } else {
      r->at++;
      if (!escape(r, &to)) return false;
    }
  }
  r->at++;
  *out = (tg_text){ copy, (size_t)(to - copy) };
  return true;
}

static bool digits(reader *r) {
  const uint8_t *begin = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at > begin;
}

static bool number(reader *r, tg_text *out, bool *whole) {
  const uint8_t *begin = r->at;
  take(r, '-');
  if (!take(r, '0') && !digits(r)) return fail(r, "not JSON");
  *whole = true;
  if (take(r, '.')) {
    *whole = false;
    if (!digits(r)) return fail(r, "a number without digits behind its point");
  }
  if (take(r, 'e') || take(r, 'E')) {
    *whole = false;
    if (!take(r, '-')) take(r, '+');
    if (!digits(r)) return fail(r, "a number without an exponent's digits");
  }
  *out = (tg_text){ (uint8_t *)begin, (size_t)(r->at - begin) };
  return true;
}

static bool skip(reader *r, int depth) {
  tg_text text;
  bool whole;
  if (depth > DEPTH) return fail(r, "nested too deeply");
  blanks(r);
  if (r->at >= r->end) return fail(r, "it ends too early");
  switch (*r->at) {
  case '"': return string(r, &text);
  case 't': return word(r, "true");
  case 'f': return word(r, "false");
  case 'n': return word(r, "null");
  case '[': case '{': break;
  default: return number(r, &text, &whole);
  }
  bool object = *r->at++ == '{';
  char close = object ? '}' : ']';
  blanks(r);
  if (take(r, close)) return true;
  do {
    if (object) {
      blanks(r);
      if (!string(r, &text)) return false;
      blanks(r);
      if (!take(r, ':')) return fail(r, "expected a colon");
    }
    if (!skip(r, depth + 1)) return false;
    blanks(r);
  } while (take(r, ','));
  return take(r, close) || fail(r, "expected a comma or the end");
}

// -, digits, optionally a point and digits, optionally an exponent of at most six characters.
static bool is_decimal(tg_text text) {
  reader r = { text.ptr, text.ptr + text.len, NULL };
  take(&r, '-');
  if (!digits(&r) || (take(&r, '.') && !digits(&r))) return false;
  if (take(&r, 'e') || take(&r, 'E')) {
    if (r.end - r.at > 6) return false;
    if (!take(&r, '-')) take(&r, '+');
    if (!digits(&r)) return false;
  }
  return r.at == r.end;
}

static bool int64(reader *r, int64_t *out) {
  tg_text text;
  bool whole;
  if (r->at >= r->end || (*r->at != '-' && (*r->at < '0' || *r->at > '9'))) return fail(r, "expected a whole number");
  if (!number(r, &text, &whole)) return false;
  if (!whole) return fail(r, "expected a whole number");
  bool negative = text.ptr[0] == '-';
  *out = 0;
  for (size_t i = negative; i < text.len; i++) {
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_sub_overflow(*out, text.ptr[i] - '0', out)) {
      return fail(r, "beyond 64 bits");
    }
  }
  if (!negative && *out == INT64_MIN) return fail(r, "beyond 64 bits");
  if (!negative) *out = -*out;
  return true;
}

static bool decimal(reader *r, tg_decimal *out) {
  bool whole;
  bool quoted = r->at < r->end && *r->at == '"';
  if (!quoted && (r->at >= r->end || (*r->at != '-' && (*r->at < '0' || *r->at > '9')))) {
    return fail(r, "expected a decimal number");
  }
  if (!(quoted ? string(r, &out->digits) : number(r, &out->digits, &whole))) return false;
  return is_decimal(out->digits) || fail(r, "not a decimal number such as -12.50");
}

static bool instant(reader *r, tg_instant *out) {
  if (r->at < r->end && *r->at == '"') {
    out->tag = TIDEGATE_PLUGIN_TYPES_INSTANT_RFC3339;
    return string(r, &out->val.rfc3339);
  }
  out->tag = TIDEGATE_PLUGIN_TYPES_INSTANT_UNIX_MS;
  return int64(r, &out->val.unix_ms) || fail(r, "expected an RFC 3339 text or milliseconds");
}

static bool boolean(reader *r, bool *out) {
  *out = r->at < r->end && *r->at == 't';
  return word(r, *out ? "true" : "false");
}

static bool read_field(reader *r, const tg_field *field, char *event) {
  void *to = event + field->offset;
  switch (field->kind) {
  case TG_IS_TEXT: return string(r, to);
  case TG_IS_INT64: return int64(r, to);
  case TG_IS_DECIMAL: return decimal(r, to);
  case TG_IS_INSTANT: return instant(r, to);
  case TG_IS_BOOL: return boolean(r, to);
  }
  return fail(r, "an unknown kind of field");
}

static tg_result bad(const char *path, const char *why) { return tg_reject("bad-json", tg_format("%s: %s", path, why)); }

// The members in their order; where each field's value begins.
static bool members(reader *r, const tg_field *fields, const uint8_t **begins) {
  tg_text name;
  blanks(r);
  if (!take(r, '{')) return fail(r, "expected an object");
  blanks(r);
  if (!take(r, '}')) {
    do {
      blanks(r);
      if (!string(r, &name)) return false;
      blanks(r);
      if (!take(r, ':')) return fail(r, "expected a colon");
      blanks(r);
      for (size_t i = 0; fields[i].name != NULL; i++) {
        if (tg_equal(name, fields[i].name)) begins[i] = r->at;
      }
      if (!skip(r, 2)) return false;
      blanks(r);
    } while (take(r, ','));
    if (!take(r, '}')) return fail(r, "expected a comma or the end");
  }
  blanks(r);
  return r->at == r->end || fail(r, "something stands behind the object");
}

static bool is_one_of(tg_text text, const char *const *words) {
  for (; *words != NULL; words++) {
    if (tg_equal(text, *words)) return true;
  }
  return false;
}

tg_result tg_read_json(tg_text json, const tg_field *fields, void *event) {
  size_t count = 0;
  while (fields[count].name != NULL) count++;
  const uint8_t *begins[count + 1];
  memset(begins, 0, sizeof begins);
  reader r = { json.ptr, json.ptr + json.len, NULL };
  if (!members(&r, fields, begins)) return bad("the event", r.wrong);
  for (size_t i = 0; i < count; i++) {
    const tg_field *field = &fields[i];
    bool there = begins[i] != NULL && !(field->found != 0 && *begins[i] == 'n');
    if (field->found != 0) *(bool *)((char *)event + field->found - 1) = there;
    if (!there && field->found != 0) continue;
    if (!there) return bad(field->name, "missing");
    reader value = { begins[i], r.end, NULL };
    if (!read_field(&value, field, event)) return bad(field->name, value.wrong);
    if (field->only != NULL) {
      tg_text *text = (tg_text *)((char *)event + field->offset);
      tg_text quoted = tg_quoted(*text);
      if (!is_one_of(*text, field->only)) return tg_skip(tg_format("%s %.*s", field->name, TG_FMT(quoted)));
    }
  }
  return TG_OK;
}

// Refuses a member that is none of the fields.
tg_result tg_check_names(tg_text json, const tg_field *fields) {
  reader r = { json.ptr, json.ptr + json.len, NULL };
  tg_text name;
  blanks(&r);
  if (!take(&r, '{')) return bad("the settings", "expected an object");
  blanks(&r);
  while (r.at < r.end && *r.at == '"') {
    if (!string(&r, &name)) break;
    bool known = false;
    for (size_t i = 0; fields[i].name != NULL; i++) known = known || tg_equal(name, fields[i].name);
    if (!known) return tg_reject("bad-json", tg_format("unknown setting %.*s", TG_FMT(name)));
    blanks(&r);
    if (!take(&r, ':') || !skip(&r, 2)) break;
    blanks(&r);
    if (!take(&r, ',')) break;
    blanks(&r);
  }
  return TG_OK;
}
