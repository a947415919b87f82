// SPDX-License-Identifier: Apache-2.0
//
// answer_display: see answer_display.h.  Runs in the gate.  run/display.c checked the bundles;
// user code made the rest.
//
//   a picture      one line and an image block; its original, if any, is stored instead of it
//   a figure       the same, a summary in a few lines, and its data, linked when large
//   sound, PDF     one line and an audio block or an embedded resource; linked if it is too large
//   anything else  its best text, clipped; the richest form is stored and linked if it says more
//
// The lines take at most a third of the budget.  Items that do not fit are counted.

#include "mcp/tools/answer_display.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/mime.h"
#include "mcp/tools/tools.h"
#include "json/encode.h"
#include "json/whole.h"

enum {
    ITEM_TEXT_MAX = 2000,         // characters of one text
    SUMMARY_MAX = 1200,           // characters of the summary of a figure
    CHART_INLINE = 4 << 10,       // bytes of a figure's data that are put into the object
    CHARTS_INLINE = 24 << 10,     // the same of all
    LINE_SIZE = 384,              // of a line that describes an item
    BLOCKS_BYTES_MAX = 700 << 10, // base64 of all such blocks: an answer stays below 1 MB
};

struct work {
    const struct answer_options *options;
    json_t *object;
    struct answer_display *out;
    FILE *f;
    size_t room;   // characters left for lines
    size_t blocks; // bytes left for the base64 of blocks
    size_t charts; // bytes left for data of figures
    unsigned left_out;
};

// ---- pictures -----------------------------------------------------------------------------------

static int add_link(struct work *w, const char *word, size_t number, const char *uri,
                    const char *mime_type, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "%s %zu", word, number);
    return json_array_append_new(w->out->links, tool_link(uri, name, mime_type, (json_int_t)size));
}

// Of a picture the original is stored, if there is one.
static bool keep_picture(const struct work *w, size_t index, const struct picture *p,
                         char uri[OUTPUT_URI_MAX])
{
    const struct answer_options *options = w->options;
    return options->keep &&
           options->keep(options->argument, (enum output_part)(OUTPUT_DISPLAY + index),
                         p->mime_type, p->base64, strlen(p->base64), uri);
}

static json_t *picture_json(const struct picture *p)
{
    return json_pack("{s:s, s:I, s:I, s:I}", "mime_type", p->mime_type, "width",
                     (json_int_t)p->width, "height", (json_int_t)p->height, "size",
                     (json_int_t)p->size);
}

// Writes a line if it fits; otherwise counts it.
static bool write_line(struct work *w, const char *line)
{
    size_t length = strlen(line);
    if (length + 1 > w->room) {
        w->left_out++;
        return false;
    }
    w->room -= length + 1;
    fprintf(w->f, "%s\n", line);
    return true;
}

static void write_text(struct work *w, json_t *text)
{
    size_t clean = 0;
    _cleanup_free_ char *copy =
        answer_clean(json_string_value(text), json_string_length(text), true, &clean);
    if (copy) // without memory it is in the object
        fprintf(w->f, "%s%s", copy, clean && copy[clean - 1] == '\n' ? "" : "\n");
    w->room -= clean < w->room ? clean : w->room;
}

// ---- figures as data ----------------------------------------------------------------------------

static int write_summary(struct work *w, json_t *chart)
{
    json_t *summary = json_object_get(chart, "summary");
    size_t room = w->room < SUMMARY_MAX ? w->room : SUMMARY_MAX;
    if (json_string_length(summary) == 0 || room < 64)
        return 0;
    json_auto_t *shown =
        answer_clip(json_string_value(summary), json_string_length(summary), room - 40);
    if (!shown)
        return -1;
    write_text(w, shown);
    return 0;
}

// Puts the data of a figure into its object, or a link to it.  `spoken`: its lines were written.
static int add_chart(struct work *w, size_t index, json_t *item, json_t *o, bool spoken)
{
    const struct answer_options *options = w->options;
    json_t *text = json_object_get(item, DISPLAY_CHART), *chart = display_chart(item);
    size_t size = json_string_length(text);
    char uri[OUTPUT_URI_MAX];
    if (!chart)
        return 0;
    int failed = spoken ? 0 : write_summary(w, chart);
    if (size <= CHART_INLINE && size <= w->charts) {
        w->charts -= size;
        return failed | json_object_set_new(o, "chart", chart);
    }
    json_t *summary = json_object_get(chart, "summary");
    if (json_is_string(summary))
        failed |= json_object_set_new(
            o, "chart_summary",
            answer_clip(json_string_value(summary), json_string_length(summary), SUMMARY_MAX));
    json_decref(chart);
    if (options->keep && options->keep(options->argument, (enum output_part)(OUTPUT_CHART + index),
                                       "application/json", json_string_value(text), size, uri)) {
        char line[LINE_SIZE];
        snprintf(line, sizeof line, "[data of figure %zu: %s]", index + 1, uri);
        (void)write_line(w, line);
        failed |= json_object_set_new(o, "chart_uri", json_string(uri));
        failed |= add_link(w, "chart", index + 1, uri, "application/json", size);
    }
    return failed;
}

// `said`: the result, which comes before, has the same words.
static json_t *add_picture(struct work *w, size_t index, json_t *item, const struct picture *p,
                           bool said)
{
    char uri[OUTPUT_URI_MAX], line[LINE_SIZE], what[128], full[64] = "";
    struct picture original = {0};
    bool larger = display_picture(display_original(w->object, index), &original);
    bool kept = keep_picture(w, index, larger ? &original : p, uri);
    bool fits = strlen(p->base64) <= w->blocks, linked = kept && (larger || !fits);
    int failed = 0;
    json_t *o = picture_json(p);
    if (fits) {
        w->blocks -= strlen(p->base64);
        failed |= json_array_append_new(w->out->media, tool_image(p->base64, p->mime_type));
    }
    display_describe(p, what, sizeof what);
    if (larger && kept)
        snprintf(full, sizeof full, "; in full size, %ux%u", original.width, original.height);
    snprintf(line, sizeof line, "[image %zu: %s%s%s%s%s]", index + 1, what,
             fits ? "" : ", too large for this answer", full, linked ? ": " : "",
             linked ? uri : "");
    (void)write_line(w, line);
    if (kept)
        failed |= json_object_set_new(o, "uri", json_string(uri));
    if (larger)
        failed |= json_object_set_new(o, "original", picture_json(&original));
    if (linked)
        failed |=
            add_link(w, "image", index + 1, uri, p->mime_type, larger ? original.size : p->size);
    failed |= add_chart(w, index, item, o, /* spoken= */ said);
    return json_whole(o, failed);
}

// ---- everything else ----------------------------------------------------------------------------

// The first of some types that the item has.
static const char *first_of(json_t *item, const char *const *types, size_t count, json_t **ret)
{
    for (size_t i = 0; i < count; i++)
        if ((*ret = json_object_get(item, types[i])))
            return types[i];
    return NULL;
}

// Skip a repr like <plotly.Figure object at 0x7f>.
static bool is_bare_name(json_t *item)
{
    const char *text = json_string_value(json_object_get(item, "text/plain"));
    size_t length = text ? strlen(text) : 0;
    return length > 1 && text[0] == '<' && text[length - 1] == '>';
}

// Text that a model can read, or NULL.  A document counts only if it is short: half of one is
// useless.
static const char *best_text(json_t *item, json_t **ret)
{
    static const char *const spoken[] = {DISPLAY_TABLE, "text/markdown", "text/latex",
                                         "text/plain"};
    static const char *const coded[] = {"text/html", "image/svg+xml", "application/json"};
    const char *type = first_of(item, spoken, ARRAY_LEN(spoken) - is_bare_name(item), ret);
    if (type)
        return type;
    type = first_of(item, coded, ARRAY_LEN(coded), ret);
    return type && json_string_length(*ret) <= ITEM_TEXT_MAX ? type : NULL;
}

// The richest form, of any type.
static const char *richest(json_t *item, json_t **ret)
{
    static const char *const types[] = {"image/svg+xml", "text/html", "text/markdown", "text/latex",
                                        "application/json"};
    const char *type = first_of(item, types, ARRAY_LEN(types), ret), *key;
    json_t *value;
    if (!type)
        json_object_foreach (item, key, value) {
            *ret = value;
            type = key;
            if (strcmp(key, "text/plain") != 0)
                break;
        }
    return type;
}

// Sound or a PDF among the forms of an item, and its bytes' number.  SECURITY: clients decode it
// with rights of their own, so only if the bytes begin as such a file does.
static const char *medium(json_t *item, json_t **ret, size_t *ret_size)
{
    static const char pdf[] = "application/pdf", audio[] = "audio/";
    const char *type;
    json_t *value;
    json_object_foreach (item, type, value) {
        const bool is_pdf = strcmp(type, pdf) == 0, is_audio = strncmp(type, audio, 6) == 0;
        if (!is_pdf && !is_audio)
            continue;
        _cleanup_free_ unsigned char *data =
            decode_base64(json_string_value(value), json_string_length(value), ret_size);
        const char *seen = data ? mime_type("", data, *ret_size) : "";
        if (strncmp(seen, is_pdf ? pdf : audio, is_pdf ? sizeof pdf : 6) != 0)
            continue;
        *ret = value;
        return type;
    }
    return NULL;
}

// The size of a form as a file: of base64, what it stands for.
static size_t size_of(const char *type, json_t *value)
{
    size_t size = json_string_length(value);
    _cleanup_free_ unsigned char *data =
        mime_is_binary(type) ? decode_base64(json_string_value(value), size, &size) : NULL;
    return data ? size : json_string_length(value);
}

// 1: added, 0: there is no room for it, -1: memory is out.
static int add_medium(struct work *w, const char *type, json_t *value, const char *uri)
{
    const char *base64 = json_string_value(value);
    if (strlen(base64) > w->blocks)
        return 0;
    w->blocks -= strlen(base64);
    json_t *block =
        strncmp(type, "audio/", 6) == 0
            ? json_pack("{s:s, s:s, s:s}", "type", "audio", "data", base64, "mimeType", type)
            : json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "resource", "resource", "uri", uri,
                        "mimeType", type, "blob", base64);
    return json_array_append_new(w->out->media, block) < 0 ? -1 : 1;
}

static json_t *add_document(struct work *w, size_t index, json_t *item, bool said)
{
    const struct answer_options *options = w->options;
    json_t *rich = NULL, *text = NULL, *shown = NULL;
    size_t size;
    const char *type = medium(item, &rich, &size), *text_type = best_text(item, &text);
    const bool is_medium = type != NULL;
    if (!is_medium) {
        type = richest(item, &rich);
        size = size_of(type, rich);
    }
    size_t room = w->room < ITEM_TEXT_MAX ? w->room : ITEM_TEXT_MAX;
    char uri[OUTPUT_URI_MAX], line[LINE_SIZE], what[128];
    if (text_type &&
        !(shown = answer_clip(json_string_value(text), json_string_length(text), room)))
        return NULL;
    bool whole = shown && text == rich && json_string_length(shown) == size;
    bool kept = !whole && options->keep &&
                options->keep(options->argument, (enum output_part)(OUTPUT_DISPLAY + index), type,
                              json_string_value(rich), json_string_length(rich), uri);
    int block = is_medium && kept ? add_medium(w, type, rich, uri) : 0;
    display_describe_size(type, size, what, sizeof what);
    snprintf(line, sizeof line, "[display %zu: %s%s%s]", index + 1, what, kept ? ": " : "",
             kept ? uri : "");
    if (!(said && options->brief) && write_line(w, line) && shown && !said)
        write_text(w, shown);
    json_t *o =
        json_pack("{s:s, s:I, s:o*}", "mime_type", type, "size", (json_int_t)size, "text", shown);
    int failed = !o || block < 0;
    if (kept) {
        failed |= json_object_set_new(o, "uri", json_string(uri));
        if (block == 0)
            failed |= add_link(w, "display", index + 1, uri, type, size);
    }
    failed |= add_chart(w, index, item, o, /* spoken= */ shown != NULL);
    return json_whole(o, failed);
}

// ---- all of it ----------------------------------------------------------------------------------

static int add_items(struct work *w, json_t *display)
{
    json_t *list = json_array(), *item, *value = answer_display_value(w->object);
    size_t i;
    int failed = !list;
    json_array_foreach (display, i, item) {
        struct picture p;
        bool said = value && (json_object_get(item, DISPLAY_TABLE) == value ||
                              json_object_get(item, "text/plain") == value);
        failed |= json_array_append_new(list, display_picture(item, &p)
                                                  ? add_picture(w, i, item, &p, said)
                                                  : add_document(w, i, item, said));
    }
    json_int_t omitted = json_integer_value(json_object_get(w->object, "display_omitted"));
    if (w->left_out)
        fprintf(w->f, "[%u more shown]\n", w->left_out);
    if (omitted)
        fprintf(w->f, "[%lld more left out: too many or too large]\n", (long long)omitted);
    failed |= json_object_set_new(w->object, "display", list);
    (void)json_object_del(w->object, "display_originals");
    (void)json_object_del(w->object, "display_value");
    return failed ? -1 : 0;
}

json_t *answer_display_value(json_t *object)
{
    json_t *at = json_object_get(object, "display_value");
    json_t *item = json_array_get(json_object_get(object, "display"),
                                  json_is_integer(at) ? (size_t)json_integer_value(at) : SIZE_MAX);
    json_t *text = json_object_get(item, DISPLAY_TABLE);
    if (!text && json_object_get(item, DISPLAY_CHART))
        text = json_object_get(item, "text/plain");
    return json_string_length(text) ? text : NULL;
}

int answer_display(const struct answer_options *options, json_t *object, struct answer_display *ret)
{
    size_t length = 0;
    json_t *display = json_object_get(object, "display");
    *ret = (struct answer_display){0};
    if (json_array_size(display) == 0 && !json_object_get(object, "display_omitted"))
        return 0;
    ret->media = json_array();
    ret->links = json_array();
    struct work w = {.options = options,
                     .object = object,
                     .out = ret,
                     .f = open_memstream(&ret->text, &length),
                     .room = options->budget / 3,
                     .blocks = BLOCKS_BYTES_MAX,
                     .charts = CHARTS_INLINE};
    if (!w.f || !ret->media || !ret->links)
        return w.f ? (void)fclose(w.f), -1 : -1;
    json_incref(display);
    int failed = add_items(&w, display);
    json_decref(display);
    failed |= fclose(w.f);
    return failed ? -1 : 0;
}

void answer_display_clear(struct answer_display *d)
{
    free(d->text);
    json_decref(d->media);
    json_decref(d->links);
    *d = (struct answer_display){0};
}
