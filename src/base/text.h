// SPDX-License-Identifier: Apache-2.0
//
// text: strict parsers for the values that people write (numbers, sizes, durations, lists), and the
// formatters that print them back.  Called by the configuration and the commands; touches nothing
// but its arguments, so it may run in any process.
//
// A parser accepts the whole text or nothing: no blanks, no sign, no exponent, no "inf" or "nan".
// It returns 0, -EINVAL when the text is not of the right form, or -ERANGE when the value is
// outside min..max (both included) or too large to hold.  `ret` is written only on success.

#ifndef CONSTRICTOR_BASE_TEXT_H
#define CONSTRICTOR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_KIB (UINT64_C(1) << 10)
#define TEXT_MIB (UINT64_C(1) << 20)
#define TEXT_GIB (UINT64_C(1) << 30)
#define TEXT_TIB (UINT64_C(1) << 40)
#define TEXT_SECOND_MS UINT64_C(1000)
#define TEXT_MINUTE_MS (60 * TEXT_SECOND_MS)
#define TEXT_HOUR_MS (60 * TEXT_MINUTE_MS)

// "42"
int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

// "1048576", "64M", "1.5GiB": K M G T (either case) and KiB MiB GiB TiB are powers of 1024.
int text_parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret_bytes);

// "2", "2s", "500ms", "1.5m", "1h": a plain number is seconds.
int text_parse_duration(const char *s, uint64_t min, uint64_t max, uint64_t *ret_ms);

// A plain number of a fixed unit: "0.5" with factor TEXT_SECOND_MS is 500.  The bounds are in the
// unit of the result.
int text_parse_scaled(const char *s, uint64_t factor, uint64_t min, uint64_t max, uint64_t *ret);

// true/false, yes/no, on/off, 1/0.
int text_parse_bool(const char *s, bool *ret);

// One of "error|warn|info"; `ret` is its position.
int text_parse_choice(const char *s, const char *choices, int *ret);

// The shortest exact form that the matching parser reads back ("64M", "1536K", "90s").
void text_format_size(uint64_t bytes, char *buf, size_t cap);
void text_format_duration(uint64_t ms, char *buf, size_t cap);

// "2026-11-16T03:12:00.123Z", from milliseconds since 1970.
enum { TEXT_TIME_MAX = 32 };
void text_format_time(int64_t ms, char buf[TEXT_TIME_MAX]);

enum { TEXT_LIST_MAX = 64, TEXT_ITEM_MAX = 256 };

struct text_list {
    size_t count;
    char items[TEXT_LIST_MAX][TEXT_ITEM_MAX + 1];
};

// Appends the comma-separated items of `s`; blanks around an item are dropped, an item that is
// already there is not added twice, and "" adds nothing.  -EINVAL: an empty item or a control
// character; -ENAMETOOLONG: an item above TEXT_ITEM_MAX; -E2BIG: more than TEXT_LIST_MAX items.  On
// failure the list may have got the items before the bad one.
int text_list_add(struct text_list *list, const char *s);
bool text_list_has(const struct text_list *list, const char *item);

// Edit distance, for "did you mean".  Texts above 63 bytes count as infinitely far.
unsigned text_distance(const char *a, const char *b);

// Makes foreign text fit for a terminal, a log line or JSON: control characters, characters
// that cannot be seen (utf8.h) and bytes that are not valid UTF-8 become '?'.
void text_sanitize(char *s);

#endif
