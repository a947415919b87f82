// SPDX-License-Identifier: Apache-2.0
//
// doctor_show: prints the findings as a table or as one JSON object.  Runs in the gate, or in the
// first process when no box started.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/doctor.h"

static const char *const state_words[] = {
    [LAYER_LIVE] = "live",
    [LAYER_PARTIAL] = "partial",
    [LAYER_DEGRADED] = "degraded",
    [LAYER_MISSING] = "missing",
};

static const char *state_of(const struct doctor *d, int layer)
{
    return d->untested[layer] ? "untested" : state_words[d->caps.layer[layer].state];
}

static const char *text_of(const struct doctor *d, int layer)
{
    return d->untested[layer] ? "no box started, so it could not be checked"
                              : d->caps.layer[layer].text;
}

static bool is_live(const struct doctor *d, int layer)
{
    return !d->untested[layer] && d->caps.layer[layer].state == LAYER_LIVE;
}

static const char *fix_of(const struct doctor *d, int layer)
{
    if (is_live(d, layer) || d->untested[layer])
        return "";
    if (d->caps.layer[layer].state == LAYER_DEGRADED && !d->caps.layer[layer].fix[0])
        return "remove --allow-degraded";
    return d->caps.layer[layer].fix;
}

static unsigned count_mandatory(const struct doctor *d, unsigned *ret_live)
{
    unsigned all = 0;
    *ret_live = 0;
    for (int i = 0; i < LAYER_MAX; i++)
        if (layers[i].mandatory) {
            all++;
            *ret_live += is_live(d, i);
        }
    return all;
}

static json_int_t broken_probes(const struct doctor *d)
{
    return json_integer_value(json_object_get(d->self_test, "total")) -
           json_integer_value(json_object_get(d->self_test, "held"));
}

bool doctor_is_fine(const struct doctor *d)
{
    unsigned live;
    return count_mandatory(d, &live) == live && !d->error.message[0] && broken_probes(d) == 0 &&
           !(d->network_is_on && d->network.state == LAYER_MISSING);
}

// ---- JSON ---------------------------------------------------------------------------------------

static json_t *clean_string(const char *text)
{
    char buf[4096];
    snprintf(buf, sizeof buf, "%s", text);
    text_sanitize(buf);
    return json_string(buf);
}

static json_t *layers_json(const struct doctor *d)
{
    json_t *list = json_array();
    for (int i = 0; i < LAYER_MAX; i++)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:b, s:s, s:o, s:o, s:s}", "name", layers[i].name, "mandatory",
                            layers[i].mandatory, "state", state_of(d, i), "text",
                            clean_string(text_of(d, i)), "fix", clean_string(fix_of(d, i)), "what",
                            layers[i].what));
    return list;
}

static json_t *interpreter_json(const struct doctor *d)
{
    if (!d->has_interp)
        return json_null();
    json_t *tree = json_pack("[s]", "/usr");
    for (size_t i = 0; i < d->interp.path_count; i++)
        (void)json_array_append_new(tree, clean_string(d->interp.paths[i]));
    json_t *loaded = json_object_get(d->report, "preloaded");
    json_t *failed = json_object_get(d->report, "failed");
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "path", clean_string(d->interp.executable),
                     "version", clean_string(d->interp.version), "tree", tree, "preloaded",
                     json_is_array(loaded) ? json_incref(loaded) : json_array(), "preload_failed",
                     json_is_array(failed) ? json_incref(failed) : json_array());
}

static json_t *limits_json(const struct config *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "wall_ms",
                     (json_int_t)c->wall_ms, "cpu_ms", (json_int_t)c->cpu_ms, "memory_bytes",
                     (json_int_t)c->memory_bytes, "processes", (json_int_t)c->processes,
                     "scratch_bytes", (json_int_t)c->scratch_bytes, "inodes", (json_int_t)c->inodes,
                     "open_files", (json_int_t)c->files, "file_bytes",
                     (json_int_t)c->file_size_bytes, "output_bytes", (json_int_t)c->output_bytes);
}

static json_t *error_json(const struct err *e)
{
    if (!e->message[0])
        return json_null();
    return json_pack("{s:s, s:o, s:o}", "code", err_code_name(e->code), "message",
                     clean_string(e->message), "hint", clean_string(e->hint));
}

static json_t *kernel_json(void)
{
    struct utsname u;
    if (uname(&u) < 0)
        return json_null();
    return json_pack("{s:s, s:s, s:s}", "system", u.sysname, "release", u.release, "machine",
                     u.machine);
}

static json_t *network_json(const struct doctor *d)
{
    if (!d->network_is_on)
        return json_pack("{s:b}", "on", false);
    json_t *allow = json_array();
    for (size_t i = 0; i < d->config->allow_hosts.count; i++)
        (void)json_array_append_new(allow, clean_string(d->config->allow_hosts.items[i]));
    return json_pack("{s:b, s:s, s:o, s:o, s:o, s:o}", "on", true, "state",
                     state_words[d->network.state], "text", clean_string(d->network.text), "fix",
                     clean_string(d->network.fix), "allow", allow, "file",
                     clean_string(d->config->network_file));
}

static int show_json(const struct doctor *d)
{
    const struct cgroup_driver *driver = d->caps.cgroups.driver;
    json_t *o = json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:i, s:o}", "ok",
                          doctor_is_fine(d), "layers", layers_json(d), "network", network_json(d),
                          "interpreter", interpreter_json(d), "limits", limits_json(d->config),
                          "kernel", kernel_json(), "uid", (json_int_t)d->uid, "cgroup_driver",
                          driver ? json_string(driver->name) : json_null(), "landlock_abi",
                          (int)d->caps.landlock_abi, "error", error_json(&d->error));
    if (o && d->self_test)
        (void)json_object_set(o, "self_test", d->self_test);
    if (!o || json_dumpf(o, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF) {
        struct err e;
        err_set(&e, ERR_SYSTEM, 0, NULL, "write the report");
        return cli_fail(&e, false);
    }
    json_decref(o);
    return cli_finish();
}

// ---- text ---------------------------------------------------------------------------------------

enum colour { PLAIN, GREEN, YELLOW, RED, BOLD };

static bool colours;

static void put(enum colour colour, int width, const char *text)
{
    static const char *const codes[] = {[PLAIN] = "",
                                        [GREEN] = "\033[32m",
                                        [YELLOW] = "\033[33m",
                                        [RED] = "\033[31m",
                                        [BOLD] = "\033[1m"};
    char buf[4096];
    snprintf(buf, sizeof buf, "%s", text);
    // SECURITY: paths and module errors may contain control characters that drive the terminal.
    text_sanitize(buf);
    if (colours && colour != PLAIN)
        printf("%s%-*s\033[0m", codes[colour], width, buf);
    else
        printf("%-*s", width, buf);
}

static void put_row(const char *name, const char *text)
{
    printf("  %-14s", name);
    put(PLAIN, 0, text);
    putchar('\n');
}

static void show_layer(const struct doctor *d, int i)
{
    enum colour colour = is_live(d, i)                                                ? GREEN
                         : d->caps.layer[i].state == LAYER_MISSING && !d->untested[i] ? RED
                                                                                      : YELLOW;
    printf("%s %-14s", layers[i].mandatory ? "*" : " ", layers[i].name);
    put(colour, 10, state_of(d, i));
    put(PLAIN, 0, text_of(d, i));
    putchar('\n');
    if (fix_of(d, i)[0]) {
        printf("      fix: ");
        put(PLAIN, 0, fix_of(d, i));
        putchar('\n');
    }
}

static void show_interpreter(const struct doctor *d)
{
    put(BOLD, 0, "Interpreter");
    putchar('\n');
    if (!d->has_interp) {
        put_row("path", "no usable interpreter");
        return;
    }
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof text, "/usr");
    for (size_t i = 0; i < d->interp.path_count && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s", d->interp.paths[i]);
    put_row("path", d->interp.executable);
    put_row("version", d->interp.version);
    put_row("tree", text);
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(d->report, "preloaded"), i, one)
        put_row(i ? "" : "preloaded", json_is_string(one) ? json_string_value(one) : "");
    json_array_foreach (json_object_get(d->report, "failed"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *why = json_string_value(json_object_get(one, "error"));
        snprintf(text, sizeof text, "%s: %s", name ? name : "?", why ? why : "?");
        put_row(i ? "" : "not preloaded", text);
    }
}

static void show_limits(const struct config *c)
{
    static const enum config_key keys[] = {
        CONFIG_KEY_wall_ms,   CONFIG_KEY_cpu_ms,          CONFIG_KEY_memory_bytes,
        CONFIG_KEY_processes, CONFIG_KEY_scratch_bytes,   CONFIG_KEY_inodes,
        CONFIG_KEY_files,     CONFIG_KEY_file_size_bytes, CONFIG_KEY_output_bytes,
    };
    char value[64];
    put(BOLD, 0, "Limits of a box");
    printf("\n ");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        config_format(c, keys[i], value, sizeof value);
        printf(" %s %s%s", config_options[keys[i]].key, value,
               i + 1 < sizeof keys / sizeof keys[0] ? "," : "\n");
    }
}

static void show_network(const struct doctor *d)
{
    put(BOLD, 0, "Network of a box");
    putchar('\n');
    if (!d->network_is_on) {
        put_row("state", "off: no host is allowed (see --allow-host, --network-file)");
        return;
    }
    printf("  %-14s", "state");
    put(d->network.state == LAYER_LIVE      ? GREEN
        : d->network.state == LAYER_PARTIAL ? YELLOW
                                            : RED,
        10, state_words[d->network.state]);
    put(PLAIN, 0, d->network.text);
    putchar('\n');
    if (d->network.fix[0])
        put_row("fix", d->network.fix);
    for (size_t i = 0; i < d->config->allow_hosts.count; i++)
        put_row(i ? "" : "allowed", d->config->allow_hosts.items[i]);
    if (d->config->network_file[0])
        put_row("file", d->config->network_file);
}

static void show_self_test(json_t *test)
{
    size_t i;
    json_t *one;
    if (!test)
        return;
    put(BOLD, 0, "Self-test: attempts to escape from a box without network");
    putchar('\n');
    json_array_foreach (json_object_get(test, "probes"), i, one) {
        bool passed = json_is_true(json_object_get(one, "held"));
        printf("  %-18s", json_string_value(json_object_get(one, "name")));
        put(passed ? GREEN : RED, 8, passed ? "held" : "BROKEN");
        printf("%s (", json_string_value(json_object_get(one, "what")));
        put(PLAIN, 0, json_string_value(json_object_get(one, "outcome")));
        printf(")\n");
    }
    printf("%lld of %lld probes held\n",
           (long long)json_integer_value(json_object_get(test, "held")),
           (long long)json_integer_value(json_object_get(test, "total")));
}

static void show_summary(const struct doctor *d)
{
    unsigned live, all = count_mandatory(d, &live), given_up = 0;
    for (int i = 0; i < LAYER_MAX; i++)
        given_up += d->caps.layer[i].state == LAYER_DEGRADED;
    putchar('\n');
    if (d->error.message[0]) {
        put(RED, 0, "No box can be made here: ");
        put(PLAIN, 0, d->error.message);
        printf(" [%s]\n", err_code_name(d->error.code));
        if (d->error.hint[0]) {
            printf("  hint: ");
            put(PLAIN, 0, d->error.hint);
            putchar('\n');
        }
    } else if (live < all) {
        char text[128];
        snprintf(text, sizeof text, "%u of %u mandatory layers are live", live, all);
        put(RED, 0, text);
        printf(given_up ? "; %u allowed to be missing by --allow-degraded, as every result says.\n"
                        : ".\n",
               given_up);
    } else if (broken_probes(d)) {
        put(RED, 0, "A probe escaped: do not run untrusted code here.");
        putchar('\n');
    } else {
        char text[128];
        snprintf(text, sizeof text, "All %u mandatory layers are live.", all);
        put(GREEN, 0, text);
        putchar('\n');
    }
}

static int show_text(const struct doctor *d)
{
    const char *term = getenv("TERM");
    colours = isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && !(term && strcmp(term, "dumb") == 0);
    put(BOLD, 0, "Isolation layers");
    printf(" (* mandatory)\n");
    for (int i = 0; i < LAYER_MAX; i++)
        show_layer(d, i);
    show_interpreter(d);
    show_limits(d->config);
    show_network(d);
    show_self_test(d->self_test);
    show_summary(d);
    return cli_finish();
}

int doctor_show(const struct doctor *d)
{
    int failed = d->config->json ? show_json(d) : show_text(d);
    return failed ? failed : doctor_is_fine(d) ? 0 : 1;
}
