// Texts, numbers by their digits, the log.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tidegate.h"

tg_text tg_str(const char *text) { return (tg_text){ (uint8_t *)text, strlen(text) }; }

bool tg_equal(tg_text text, const char *other) {
  size_t length = strlen(other);
  return text.len == length && memcmp(text.ptr, other, length) == 0;
}

tg_text tg_format(const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  if (text == NULL) tg_fail(tg_str("a text could not be formatted"));
  vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return (tg_text){ (uint8_t *)text, (size_t)length };
}

tg_text tg_quoted(tg_text text) {
  char *out = malloc(text.len * 6 + 3), *at = out;
  if (out == NULL) tg_fail(tg_str("no memory for a text"));
  *at++ = '"';
  for (size_t i = 0; i < text.len; i++) {
    uint8_t c = text.ptr[i];
    if (c == '"' || c == '\\') { *at++ = '\\'; *at++ = (char)c; }
    else if (c == '\n') { *at++ = '\\'; *at++ = 'n'; }
    else if (c == '\r') { *at++ = '\\'; *at++ = 'r'; }
    else if (c == '\t') { *at++ = '\\'; *at++ = 't'; }
    else if (c < 0x20) at += sprintf(at, "\\u%04x", c);
    else *at++ = (char)c;
  }
  *at++ = '"';
  return (tg_text){ (uint8_t *)out, (size_t)(at - out) };
}

bool tg_is_zero(tg_decimal number) {
  for (size_t i = 0; i < number.digits.len; i++) {
    uint8_t c = number.digits.ptr[i];
    if (c == 'e' || c == 'E') return true;
    if (c >= '1' && c <= '9') return false;
  }
  return true;
}

bool tg_is_negative(tg_decimal number) {
  return number.digits.len > 0 && number.digits.ptr[0] == '-' && !tg_is_zero(number);
}

bool tg_scaled(tg_decimal number, int places, int64_t *out) {
  *out = 0;
  if (tg_is_zero(number)) return true;
  bool negative = number.digits.ptr[0] == '-', fraction = false;
  long shift = places, zeros = 0;
  int64_t value = 0; // built below zero: that side reaches one further
  for (size_t i = negative; i < number.digits.len; i++) {
    uint8_t c = number.digits.ptr[i];
    if (c == '.') { fraction = true; continue; }
    if (c == 'e' || c == 'E') {
      char exponent[16] = { 0 };
      memcpy(exponent, number.digits.ptr + i + 1, number.digits.len - i - 1 < 15 ? number.digits.len - i - 1 : 15);
      shift += strtol(exponent, NULL, 10);
      break;
    }
    if (fraction) shift--;
    // Zeros at the end would overflow for nothing: they wait for another digit.
    if (c == '0') { zeros++; continue; }
    for (; zeros > 0 && value != 0; zeros--) if (__builtin_mul_overflow(value, 10, &value)) return false;
    zeros = 0;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, c - '0', &value)) return false;
  }
  for (shift += zeros; shift > 0; shift--) if (__builtin_mul_overflow(value, 10, &value)) return false;
  if (shift < 0 || (!negative && value == INT64_MIN)) return false;
  *out = negative ? value : -value;
  return true;
}

void tg_debug(tg_text text) { tidegate_plugin_log_write(TIDEGATE_PLUGIN_LOG_LEVEL_DEBUG, &text); }
void tg_info(tg_text text) { tidegate_plugin_log_write(TIDEGATE_PLUGIN_LOG_LEVEL_INFO, &text); }
void tg_warn(tg_text text) { tidegate_plugin_log_write(TIDEGATE_PLUGIN_LOG_LEVEL_WARN, &text); }
void tg_error(tg_text text) { tidegate_plugin_log_write(TIDEGATE_PLUGIN_LOG_LEVEL_ERROR, &text); }

void tg_fail(tg_text why) {
  tg_error(why); // the host takes the last such line for the reason
  __builtin_trap();
}
