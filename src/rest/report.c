// SPDX-License-Identifier: Apache-2.0
//
// report: see report.h.
//
// SECURITY: code, output, names and pictures are hostile, and the document is opened by people.
//   1. Every text goes through put(), which escapes markup, and shows characters that cannot be
//      seen or that turn others round.
//   2. Pictures are data of types without script, in base64 that was checked.
//   3. The policy, as a header and in the document for the saved file, allows one style by its
//      hash and pictures from data; no script, frame, form, link or request.

#include "rest/report.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "rest/html.h"

static const char style[] =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1d1f1e;background:#fff}"
    "h1{font-size:1.4rem;margin:0 0 .3rem;overflow-wrap:anywhere}"
    "p{margin:.2rem 0;color:#565c58}"
    "section{margin:1.6rem 0;border-top:1px solid #d5d9d6;padding-top:.6rem}"
    "h2{font-size:.9rem;font-weight:600;margin:0 0 .4rem;color:#565c58}"
    "pre{font:14px/1.45 ui-monospace,monospace;margin:.3rem 0;padding:.6rem .8rem;overflow:auto;"
    "white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;border-radius:6px}"
    ".code{background:#f1f3f2}.error{background:#fdf0ee;color:#8c1d0c}.stderr{color:#7a4a00}"
    "img{max-width:100%;display:block;margin:.4rem 0;background:#fff}"
    "@media(prefers-color-scheme:dark){body{color:#e2e5e3;background:#171918}"
    "p,h2{color:#a5aca8}section{border-color:#383c39}.code{background:#232625}"
    ".error{background:#35201c;color:#ffb4a6}.stderr{color:#e8bd77}}";

const char *report_policy(void)
{
    static char policy[HTML_POLICY_MAX];
    if (!policy[0]) {
        html_policy(style, "img-src data:; ", policy);
        snprintf(policy + strlen(policy), sizeof policy - strlen(policy), "; sandbox");
    }
    return policy;
}

// ---- texts --------------------------------------------------------------------------------------

static void put(FILE *f, json_t *text)
{
    size_t length = 0;
    _cleanup_free_ char *shown =
        json_is_string(text)
            ? utf8_reveal(json_string_value(text), json_string_length(text), &length)
            : NULL;
    html_put_bytes(f, shown, length);
}

static void put_block(FILE *f, const char *kind, const char *label, json_t *text)
{
    if (!json_string_length(text))
        return;
    fprintf(f, "<pre class=\"%s\" dir=\"ltr\" aria-label=\"%s\">", kind, label);
    put(f, text);
    fputs("</pre>\n", f);
}

// ---- pictures -----------------------------------------------------------------------------------

static bool is_base64(const char *text, size_t length)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    return length && length % 4 == 0 && n + strspn(text + n, "=") == length && length - n <= 2;
}

static bool is_picture(const char *type)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

static void put_picture(FILE *f, json_t *picture, json_int_t number)
{
    json_t *data = json_object_get(picture, "data");
    const char *type = json_string_value(json_object_get(picture, "type"));
    if (is_picture(type) && json_is_string(data) &&
        is_base64(json_string_value(data), json_string_length(data)))
        fprintf(f, "<img alt=\"Picture of run %lld\" src=\"data:%s;base64,%s\">\n",
                (long long)number, type, json_string_value(data));
}

// ---- the document -------------------------------------------------------------------------------

static void put_run(FILE *f, json_t *run)
{
    json_int_t number = json_integer_value(json_object_get(run, "number"));
    json_t *picture;
    size_t i;
    fputs("<section>\n<h2>", f);
    if (json_is_true(json_object_get(run, "undo")))
        fputs("Went back to an earlier state", f);
    else
        fprintf(f, "Run %lld", (long long)number);
    fputs(" · ", f);
    put(f, json_object_get(run, "at"));
    fputs(" · ", f);
    put(f, json_object_get(run, "verdict"));
    fputs("</h2>\n", f);
    put_block(f, "code", "code", json_object_get(run, "code"));
    put_block(f, "stdout", "output", json_object_get(run, "stdout"));
    put_block(f, "stderr", "error output", json_object_get(run, "stderr"));
    put_block(f, "result", "result", json_object_get(run, "result"));
    put_block(f, "error", "error", json_object_get(run, "error"));
    json_array_foreach (json_object_get(run, "pictures"), i, picture)
        put_picture(f, picture, number);
    if (json_is_true(json_object_get(run, "cut")))
        fputs("<p>Some of it was too long for this report and was cut.</p>\n", f);
    fputs("</section>\n", f);
}

char *report_html(json_t *history, size_t *ret_length)
{
    json_t *run, *name = json_object_get(history, "name"), *runs = json_object_get(history, "runs");
    json_int_t omitted = json_integer_value(json_object_get(history, "omitted"));
    char *text = NULL;
    size_t length = 0, i;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    json_t *title = json_is_string(name) ? name : json_object_get(history, "session");
    html_begin(f, report_policy());
    put(f, title);
    fprintf(f, "</title>\n<style>%s</style>\n<h1><bdi>", style);
    put(f, title);
    fprintf(f,
            "</bdi></h1>\n<p>Code that was run in a session of Constrictor, and what came of it. "
            "%zu runs.</p>\n",
            json_array_size(runs));
    if (omitted)
        fprintf(f, "<p>%lld earlier runs are not in this report: it was full.</p>\n",
                (long long)omitted);
    json_array_foreach (runs, i, run)
        put_run(f, run);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    *ret_length = length;
    return text;
}
