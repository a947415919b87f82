// SPDX-License-Identifier: Apache-2.0
//
// answer_foot: the last line of an answer: see answer_internal.h.

#include "mcp/tools/answer_internal.h"

#include <string.h>

#include "mcp/tools/answer.h"
#include "mcp/tools/answer_state.h"

enum { SLOW_MS = 10000 }; // a run that took longer says so

static const char *string_at(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && text[0] ? text : NULL;
}

bool answer_timed_out(json_t *object)
{
    json_t *error = json_object_get(object, "error");
    const char *verdict = string_at(object, "verdict"), *type = string_at(error, "type");
    return verdict && type && strncmp(verdict, "timeout", 7) == 0 &&
           strcmp(type, "KeyboardInterrupt") == 0 &&
           json_is_integer(json_object_get(error, "line"));
}

static void write_number(FILE *f, const char *name, json_t *usage, const char *key, double divisor,
                         const char *unit)
{
    json_t *value = json_object_get(usage, key);
    if (json_is_number(value))
        fprintf(f, ", %s %.1f %s", name, json_number_value(value) / divisor, unit);
}

// Does the head say it in other words?
static bool is_said(json_t *object, const char *verdict)
{
    return strcmp(verdict, "ok") == 0 || strcmp(verdict, "error") == 0 ||
           !json_is_object(json_object_get(object, "error")) || answer_timed_out(object);
}

static void write_unusual(FILE *f, const struct answer_options *options, json_t *object)
{
    const char *verdict = string_at(object, "verdict"), *between = "[";
    json_t *usage = json_object_get(object, "usage"), *code = json_object_get(object, "exit_code");
    double wall_ms = json_number_value(json_object_get(usage, "wall_ms"));
    json_int_t peak = json_integer_value(json_object_get(usage, "peak_memory_bytes"));
    bool is_late = strncmp(verdict, "timeout", 7) == 0;
    if (!is_said(object, verdict)) {
        fprintf(f, "%s%s", between, verdict);
        between = ", ";
    }
    if (json_is_object(json_object_get(object, "error")) && json_integer_value(code) > 1) {
        fprintf(f, "%sexit code %" JSON_INTEGER_FORMAT, between, json_integer_value(code));
        between = ", ";
    }
    if (wall_ms >= SLOW_MS && !is_late) {
        fprintf(f, "%s%.0f s", between, wall_ms / 1000);
        between = ", ";
    }
    if (options->memory_bytes && (uint64_t)peak > options->memory_bytes / 5 * 4) {
        fprintf(f, "%speak memory %.0f of %.0f MiB", between, (double)peak / (1 << 20),
                (double)options->memory_bytes / (1 << 20));
        between = ", ";
    }
    if (answer_state_is_new(object)) {
        answer_state_foot(f, object, between);
        between = ", ";
    }
    if (between[0] == ',')
        fputs("]\n", f);
}

void answer_foot(FILE *f, const struct answer_options *options, json_t *object, bool brief)
{
    if (string_at(object, "verdict") && !options->details) {
        write_unusual(f, options, object);
        return;
    }
    const char *verdict = string_at(object, "verdict"), *id = string_at(object, "execution_id");
    json_t *usage = json_object_get(object, "usage"), *code = json_object_get(object, "exit_code");
    const char *phase = string_at(object, "phase");
    fprintf(f, "[%s", verdict ? verdict : "still running");
    if (verdict && !brief) {
        if (phase && strcmp(phase, "execution") != 0)
            fprintf(f, " in %s", phase);
        if (json_is_integer(code))
            fprintf(f, ", exit code %" JSON_INTEGER_FORMAT, json_integer_value(code));
        double cpu = json_number_value(json_object_get(usage, "cpu_user_ms")) +
                     json_number_value(json_object_get(usage, "cpu_system_ms"));
        write_number(f, "wall", usage, "wall_ms", 1, "ms");
        if (json_is_number(json_object_get(usage, "cpu_user_ms")))
            fprintf(f, ", cpu %.1f ms", cpu);
        write_number(f, "peak memory", usage, "peak_memory_bytes", 1 << 20, "MiB");
        json_t *processes = json_object_get(usage, "processes");
        if (json_is_integer(processes))
            fprintf(f, ", processes %" JSON_INTEGER_FORMAT, json_integer_value(processes));
    }
    if (!brief)
        answer_state_foot(f, object, ", ");
    fprintf(f, ", run %s]\n", id ? id : "?");
}
