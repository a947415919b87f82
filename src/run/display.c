// SPDX-License-Identifier: Apache-2.0
//
// display: see display.h.  SECURITY: everything here was written by the code in the box.  A picture
// is passed on only if its base64 is exact and its bytes begin as a picture of that type does: the
// client decodes it with the client's rights.

#include "run/display.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "json/encode.h"
#include "json/whole.h"

static const char png[] = "image/png", jpeg[] = "image/jpeg";
static const char original_of[] = "item";

// ---- pictures -----------------------------------------------------------------------------------

static unsigned number(const unsigned char *p, size_t bytes)
{
    unsigned n = 0;
    while (bytes--)
        n = n << 8 | *p++;
    return n;
}

static bool measure_png(const unsigned char *data, size_t length, struct picture *p)
{
    static const unsigned char magic[] = "\x89PNG\r\n\x1a\n";
    if (length < 24 || memcmp(data, magic, 8) != 0 || memcmp(data + 12, "IHDR", 4) != 0)
        return false;
    p->width = number(data + 16, 4);
    p->height = number(data + 20, 4);
    return true;
}

// Segments up to the one that begins a frame.
static bool measure_jpeg(const unsigned char *data, size_t length, struct picture *p)
{
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3) != 0)
        return false;
    for (size_t at = 2; at + 9 < length && data[at] == 0xff;) {
        unsigned kind = data[at + 1];
        if (kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc) {
            p->height = number(data + at + 5, 2);
            p->width = number(data + at + 7, 2);
            return true;
        }
        at += kind == 0xff ? 1 : 2 + (size_t)number(data + at + 2, 2);
    }
    return false;
}

static bool measure(const char *mime_type, json_t *value, struct picture *ret)
{
    struct picture p = {.mime_type = mime_type, .base64 = json_string_value(value)};
    _cleanup_free_ unsigned char *data =
        p.base64 ? decode_base64(p.base64, json_string_length(value), &p.size) : NULL;
    bool is_png = strcmp(mime_type, png) == 0;
    if (!data || !(is_png ? measure_png : measure_jpeg)(data, p.size, &p))
        return false;
    enum { EDGE_MAX = 65535 };
    if (p.width == 0 || p.height == 0 || p.width > EDGE_MAX || p.height > EDGE_MAX)
        return false;
    *ret = p;
    return true;
}

bool display_picture(json_t *item, struct picture *ret)
{
    return measure(png, json_object_get(item, png), ret) ||
           measure(jpeg, json_object_get(item, jpeg), ret);
}

json_t *display_chart(json_t *item)
{
    json_t *text = json_object_get(item, DISPLAY_CHART);
    size_t length = json_string_length(text);
    if (length == 0 || length > DISPLAY_CHART_MAX)
        return NULL;
    json_t *chart = json_loadb(json_string_value(text), length, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(chart))
        return chart;
    json_decref(chart);
    return NULL;
}

json_t *display_original(json_t *object, size_t index)
{
    size_t i;
    json_t *original;
    json_array_foreach (json_object_get(object, "display_originals"), i, original)
        if (json_integer_value(json_object_get(original, original_of)) == (json_int_t)index)
            return original;
    return NULL;
}

void display_describe_size(const char *mime_type, size_t size, char *buf, size_t cap)
{
    if (size < 1000)
        snprintf(buf, cap, "%.*s, %zu bytes", DISPLAY_MIME_TEXT_MAX, mime_type, size);
    else
        snprintf(buf, cap, "%.*s, %.*f kB", DISPLAY_MIME_TEXT_MAX, mime_type, size < 10000,
                 (double)size / 1000);
}

void display_describe(const struct picture *p, char *buf, size_t cap)
{
    char type[64];
    snprintf(type, sizeof type, "%s, %ux%u", p->mime_type, p->width, p->height);
    display_describe_size(type, p->size, buf, cap);
}

// ---- what a box sent ----------------------------------------------------------------------------

// [a-z]+/[a-z0-9.+-]+
static bool is_mime(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    size_t kind = strspn(text, letters), length = strlen(text);
    if (kind == 0 || text[kind] != '/' || length > DISPLAY_MIME_MAX)
        return false;
    size_t subtype = strspn(text + kind + 1, "abcdefghijklmnopqrstuvwxyz0123456789.+-");
    return subtype > 0 && kind + 1 + subtype == length;
}

// The client will parse it.
static bool is_chart(json_t *value)
{
    json_t *item = json_pack("{s:O}", DISPLAY_CHART, value), *chart = display_chart(item);
    bool right = chart != NULL;
    json_decref(chart);
    json_decref(item);
    return right;
}

// May the pair be passed on?  Then its bytes are taken off `left`.
static bool is_fit(const char *mime_type, json_t *value, size_t *left)
{
    struct picture ignored;
    size_t length = json_string_length(value);
    if (!json_is_string(value) || !is_mime(mime_type) || length > *left)
        return false;
    if ((strcmp(mime_type, png) == 0 || strcmp(mime_type, jpeg) == 0) &&
        !measure(mime_type, value, &ignored))
        return false;
    if (strcmp(mime_type, DISPLAY_CHART) == 0 && !is_chart(value))
        return false;
    *left -= length;
    return true;
}

// The valid pairs, perhaps none.  NULL: memory is out.
static json_t *take_item(json_t *item, size_t *left)
{
    json_t *taken = json_object(), *value;
    const char *mime_type;
    int failed = !taken;
    if (json_object_size(item) <= DISPLAY_TYPES_MAX)
        json_object_foreach (item, mime_type, value)
            if (is_fit(mime_type, value, left))
                failed |= json_object_set(taken, mime_type, value);
    return json_whole(taken, failed);
}

// The original of an item that was taken.  `positions`: where each item is now; -1: dropped.
static int take_original(json_t *list, json_t *original, const int *positions, size_t *left)
{
    json_t *index = json_object_get(original, original_of);
    json_int_t at = json_integer_value(index);
    struct picture p;
    if (!json_is_integer(index) || at < 0 || at >= DISPLAY_ITEMS_MAX || positions[at] < 0 ||
        !display_picture(original, &p))
        return 0;
    json_t *value = json_object_get(original, p.mime_type);
    if (json_string_length(value) > *left)
        return 0;
    *left -= json_string_length(value);
    return json_array_append_new(
        list, json_pack("{s:i, s:O}", original_of, positions[at], p.mime_type, value));
}

static int take_originals(json_t *object, json_t *report, const int *positions, size_t *left)
{
    json_t *given = json_object_get(report, "display_originals"), *original;
    if (json_array_size(given) == 0)
        return 0;
    json_t *list = json_array();
    int failed = !list;
    size_t i;
    json_array_foreach (given, i, original) {
        if (i >= DISPLAY_ITEMS_MAX)
            break;
        failed |= take_original(list, original, positions, left);
    }
    if (failed || json_array_size(list) == 0) {
        json_decref(list);
        return failed ? -1 : 0;
    }
    return json_object_set_new(object, "display_originals", list);
}

// Where the value of the last expression is now.
static int take_value(json_t *object, json_t *report, const int *positions)
{
    json_t *value = json_object_get(report, "display_value");
    json_int_t at = json_integer_value(value);
    if (!json_is_integer(value) || at < 0 || at >= DISPLAY_ITEMS_MAX || positions[at] < 0)
        return 0;
    return json_object_set_new(object, "display_value", json_integer(positions[at]));
}

int display_take(json_t *object, json_t *report)
{
    json_t *given = json_object_get(report, "display"), *item, *list = json_array();
    json_int_t omitted = json_integer_value(json_object_get(report, "display_omitted"));
    size_t i, left = DISPLAY_BYTES_MAX;
    int positions[DISPLAY_ITEMS_MAX], failed = json_object_set_new(object, "display", list);
    if (omitted < 0 || omitted > INT32_MAX)
        omitted = 0;
    memset(positions, -1, sizeof positions);
    json_array_foreach (given, i, item) {
        json_t *taken = i < DISPLAY_ITEMS_MAX ? take_item(item, &left) : NULL;
        failed |= i < DISPLAY_ITEMS_MAX && !taken;
        if (json_object_size(taken) == 0) {
            json_decref(taken);
            omitted++;
            continue;
        }
        if (failed) {
            json_decref(taken);
            return -1;
        }
        positions[i] = (int)json_array_size(list);
        failed |= json_array_append_new(list, taken);
    }
    failed |= take_originals(object, report, positions, &left);
    failed |= take_value(object, report, positions);
    if (omitted)
        failed |= json_object_set_new(object, "display_omitted", json_integer(omitted));
    return failed ? -1 : 0;
}
