// SPDX-License-Identifier: Apache-2.0
//
// notebook: see notebook.h.

#include "cli/notebook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"
#include "run/result.h"
#include "run/source.h"

enum { NBFORMAT = 4, NAME_SHOWN = 200 };

static const char what_it_is[] = "give a notebook that Jupyter has saved, or a file of Python "
                                 "source whose name does not end with .ipynb";

bool notebook_is(const struct config *c, const char *operand)
{
    size_t n = strlen(operand);
    return !c->code && !c->module && n > 6 && strcmp(operand + n - 6, ".ipynb") == 0;
}

int notebook_open(const char *path, struct err *e)
{
    struct stat st;
    // O_NONBLOCK: open() of a pipe without a writer must not block.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_set(e, ERR_SOURCE_UNREADABLE, errno, what_it_is, "open '%s'", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_SOURCE_UNREADABLE, 0, what_it_is, "'%s' is not a regular file", path);
    }
    return fd;
}

// ---- reading ------------------------------------------------------------------------------------

struct cells {
    const char *name; // of the file
    struct cell {
        char *text;
        size_t length;
    } * items;
    size_t count;
};

static int unusable(const struct cells *cells, const char *hint, struct err *e, const char *why)
{
    return err_set(e, ERR_NOTEBOOK, 0, hint, "'%.*s' is not a usable notebook: %s", NAME_SHOWN,
                   cells->name, why);
}

static int read_bytes(int fd, const struct cells *cells, char **ret, size_t *ret_length,
                      struct err *e)
{
    struct stat st;
    size_t have = 0;
    if (fstat(fd, &st) < 0)
        return err_set(e, ERR_SOURCE_UNREADABLE, errno, what_it_is, "read '%s'", cells->name);
    if (st.st_size > NOTEBOOK_BYTES_MAX)
        return err_set(e, ERR_SOURCE_TOO_LARGE, 0,
                       "remove its old outputs: jupyter nbconvert --clear-output --inplace FILE",
                       "'%s' is larger than %d MiB", cells->name, NOTEBOOK_BYTES_MAX >> 20);
    char *text = malloc((size_t)st.st_size + 1);
    while (text && have < (size_t)st.st_size) {
        ssize_t n = read(fd, text + have, (size_t)st.st_size - have);
        if (n < 0 && errno != EINTR) {
            free(text);
            return err_set(e, ERR_SOURCE_UNREADABLE, errno, what_it_is, "read '%s'", cells->name);
        }
        if (n == 0)
            break; // it became shorter: what there is must be a notebook
        have += n > 0 ? (size_t)n : 0;
    }
    *ret = text;
    *ret_length = have;
    return text ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", cells->name);
}

// The source of a cell: a text, or a list of lines.
static int read_source(const struct cells *cells, json_t *source, struct cell *ret, struct err *e)
{
    size_t i, size = 0;
    json_t *line, *whole = json_is_string(source) ? json_pack("[O]", source) : json_incref(source);
    json_auto_t *lines = whole;
    if (!json_is_array(lines))
        return unusable(cells, what_it_is, e, "the source of a code cell is not a text");
    json_array_foreach (lines, i, line) {
        if (!json_is_string(line))
            return unusable(cells, what_it_is, e, "a line of a code cell is not a text");
        size += json_string_length(line);
    }
    if (!(ret->text = malloc(size + 1)))
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read a cell");
    json_array_foreach (lines, i, line) {
        memcpy(ret->text + ret->length, json_string_value(line), json_string_length(line));
        ret->length += json_string_length(line);
    }
    ret->text[ret->length] = '\0';
    return 0;
}

// As in Jupyter, a cell without code has no number.
static bool is_blank(const struct cell *c)
{
    return strspn(c->text, " \t\r\n\f") == c->length;
}

static int add_cell(struct cells *cells, json_t *cell, uint64_t bytes_max, struct err *e)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));
    struct cell *c = &cells->items[cells->count];
    char name[64];
    if (!type)
        return unusable(cells, what_it_is, e, "a cell has no cell_type");
    if (strcmp(type, "code") != 0)
        return 0; // markdown, raw
    if (read_source(cells, json_object_get(cell, "source"), c, e) < 0)
        return -1;
    snprintf(name, sizeof name, "cell %zu", cells->count + 1);
    if (source_check(c->text, c->length, name, bytes_max, e) < 0)
        return -1;
    if (is_blank(c))
        free(TAKE_PTR(c->text));
    else
        cells->count++;
    c->length = c->text ? c->length : 0;
    return 0;
}

// The notebook's language, in lower or upper case; NULL: it does not say.
static const char *language_of(json_t *notebook)
{
    json_t *meta = json_object_get(notebook, "metadata");
    const char *a =
        json_string_value(json_object_get(json_object_get(meta, "kernelspec"), "language"));
    return a ? a
             : json_string_value(json_object_get(json_object_get(meta, "language_info"), "name"));
}

static int check_kind(const struct cells *cells, json_t *notebook, struct err *e)
{
    json_t *format = json_object_get(notebook, "nbformat");
    const char *language = language_of(notebook);
    if (!json_is_object(notebook))
        return unusable(cells, what_it_is, e, "it is JSON, but not an object");
    if (json_is_integer(format) && json_integer_value(format) != NBFORMAT)
        return unusable(cells, "convert it: jupyter nbconvert --to notebook FILE", e,
                        json_integer_value(format) < NBFORMAT
                            ? "it has the format of an old Jupyter, and only nbformat 4 is read"
                            : "it has a newer format than nbformat 4");
    if (!json_is_array(json_object_get(notebook, "cells")))
        return unusable(cells, what_it_is, e, "it has no list of cells");
    if (language && strcasecmp(language, "python") != 0)
        return unusable(cells, "run it with the kernel that it was written for", e,
                        "its language is not Python");
    return 0;
}

static int read_notebook(const struct gate *g, struct cells *cells, struct err *e)
{
    int fd = g->own.keep[g->own.keep_count - 1];
    _cleanup_free_ char *text = NULL;
    size_t length, i;
    json_error_t where;
    json_t *cell;
    if (read_bytes(fd, cells, &text, &length, e) < 0)
        return -1;
    json_auto_t *notebook = json_loadb(text, length, JSON_ALLOW_NUL, &where);
    free(TAKE_PTR(text));
    if (!notebook) {
        char why[sizeof where.text + 64];
        text_sanitize(where.text);
        snprintf(why, sizeof why, "it is not JSON: line %d: %s", where.line, where.text);
        return unusable(cells, what_it_is, e, why);
    }
    if (check_kind(cells, notebook, e) < 0)
        return -1;
    json_t *list = json_object_get(notebook, "cells");
    cells->items = calloc(json_array_size(list) + 1, sizeof *cells->items);
    if (!cells->items)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", cells->name);
    json_array_foreach (list, i, cell)
        if (add_cell(cells, cell, g->facts->config->source_bytes, e) < 0)
            return -1;
    return 0;
}

// ---- running ------------------------------------------------------------------------------------

struct running {
    struct single_run *o;
    struct run_show *w;
    const struct cells *cells;
    json_t *shown; // of --json: the object of each cell
    size_t cell;   // its number, from 1
    struct result result;
};

// Runs a cell and shows it.  Returns the exit status.
static int run_cell(struct running *r, const struct cell *c)
{
    const struct single_code code = {.text = c->text, .length = c->length, .filename = "<cell>"};
    struct exec *x;
    struct err e;
    if (single_run_do(r->o, &code, &e) < 0)
        return cli_fail(&e, r->w->config->json);
    x = r->o->exec;
    if (x->error.message[0])
        return cli_fail(&x->error, r->w->config->json);
    if (r->o->interrupted && x->result.verdict == VERDICT_ERROR)
        x->result.verdict = VERDICT_CANCELLED;
    r->result = x->result;
    json_auto_t *o = run_show_result(r->w, x);
    if (o && !r->w->config->json)
        run_show_error(r->w, x, o);
    if (o)
        (void)json_object_set_new(o, "cell", json_integer((json_int_t)r->cell));
    if (o && r->shown)
        (void)json_array_append(r->shown, o);
    return result_exit_status(&x->result);
}

static int print_json(const struct running *r, json_t *files)
{
    json_auto_t *o = json_pack(
        "{s:s, s:b, s:i, s:I, s:O, s:O}", "verdict", result_verdict_name(r->result.verdict),
        "success", r->result.verdict == VERDICT_OK, "exit_status", result_exit_status(&r->result),
        "code_cells", (json_int_t)r->cells->count, "cells", r->shown, "files", files);
    if (!o || json_dumpf(o, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF) {
        struct err e;
        err_set(&e, ERR_SYSTEM, errno, NULL, "write the result");
        return cli_fail(&e, false);
    }
    return cli_finish();
}

// The files that the cells left, unless the box is gone.
static int finish(struct running *r, int status)
{
    json_t *o = NULL;
    struct err e;
    int failed = 0;
    if (r->o->exec->session)
        (void)single_run_nothing(r->o, &o, &e);
    json_auto_t *last = o ? o : json_pack("{s:[]}", "files");
    run_show_mark_files(r->w, json_object_get(last, "files"));
    if (r->w->config->json)
        failed = print_json(r, json_object_get(last, "files"));
    else
        run_show_files(r->w, last);
    if (status == 0 && run_show_unwritten()) {
        err_set(&e, ERR_SYSTEM, run_show_unwritten(), NULL, "write the output of the code");
        failed = cli_fail(&e, false);
    }
    status = failed ? failed : status;
    return status == 0 && r->w->unsaved ? err_exit_status(ERR_OUT_FOLDER) : status;
}

static int run_cells(struct running *r)
{
    int status = 0;
    for (size_t i = 0; i < r->cells->count && status == 0; i++) {
        r->cell = i + 1;
        status = run_cell(r, &r->cells->items[i]);
        if (run_show_unwritten())
            break; // the reader is gone
    }
    if (r->o->exec->error.message[0])
        return status; // it did not run; the error was printed
    char name[NAME_SHOWN];
    snprintf(name, sizeof name, "%s", r->cells->name);
    text_sanitize(name);
    if (status && !r->w->config->json)
        fprintf(stderr, "constrictor: %s: cell %zu of %zu failed; the cells after it did not run\n",
                name, r->cell, r->cells->count);
    if (!r->cells->count && !r->w->config->json)
        fprintf(stderr, "constrictor: %s has no code\n", name);
    return finish(r, status);
}

int notebook_run(const char *name, struct single_run *o, struct run_show *w, int sock,
                 const struct keeper_facts *facts)
{
    struct cells cells = {.name = name};
    struct running r = {.o = o, .w = w, .cells = &cells};
    json_t *nothing;
    struct err e;
    r.shown = w->config->json ? json_array() : NULL;
    w->values = true;
    o->lives = true;
    if (single_run_open(o, sock, facts, &e) < 0 || read_notebook(&o->gate, &cells, &e) < 0 ||
        single_run_nothing(o, &nothing, &e) < 0)
        return cli_fail(&e, w->config->json);
    json_decref(nothing);
    return run_cells(&r); // the process ends here and frees everything
}
