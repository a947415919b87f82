// SPDX-License-Identifier: Apache-2.0
//
// display: what a run has shown, as bundles from MIME type to text; pictures are base64.  Called by
// result.c in the gate, on what a hostile box sent, and by the interfaces that present a result.

#ifndef CONSTRICTOR_RUN_DISPLAY_H
#define CONSTRICTOR_RUN_DISPLAY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    DISPLAY_ITEMS_MAX = 20,     // the same bounds as in display.py
    DISPLAY_TYPES_MAX = 16,     // MIME types of an item
    DISPLAY_MIME_MAX = 100,     // characters of one
    DISPLAY_MIME_TEXT_MAX = 48, // characters of one where it is shown
};
#define DISPLAY_BYTES_MAX ((size_t)1 << 20) // of all texts, originals included
#define DISPLAY_CHART_MAX ((size_t)32 << 10)

// A figure as data, a JSON object with its own "summary"; and a table as a short text.
#define DISPLAY_CHART "application/vnd.constrictor.chart+json"
#define DISPLAY_TABLE "text/vnd.constrictor.table"

// A picture: where it is, and what its own bytes say about it.
struct picture {
    const char *mime_type, *base64; // borrowed from the item
    unsigned width, height;
    size_t size; // bytes, decoded
};

// Copies the valid parts of the report's display, display_originals, display_omitted and
// display_value (the number of the item that is the value of the last expression); an object always
// has "display".  0, or -1 when memory is out.
int display_take(json_t *object, json_t *report);

// The picture of an item (PNG before JPEG) or of an original.  False: it has none.
bool display_picture(json_t *item, struct picture *ret);

// The original of the item at `index`, a larger picture; NULL: there is none.  Borrowed.
json_t *display_original(json_t *object, size_t index);

// The chart of an item, new; NULL: it has none, or memory is out.
json_t *display_chart(json_t *item);

// "image/png, 640x480, 23 kB", or "text/html, 1.2 kB".
void display_describe(const struct picture *p, char *buf, size_t cap);
void display_describe_size(const char *mime_type, size_t size, char *buf, size_t cap);

#endif
