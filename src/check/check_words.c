// SPDX-License-Identifier: Apache-2.0
//
// check_words: see check_words.h.

#include "check/check_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 50 }; // entries of a list

static const char *text_of(json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "";
}

static long long number_of(json_t *o, const char *name)
{
    return (long long)json_integer_value(json_object_get(o, name));
}

// "name:3:5: " or "line 3, column 5: "
static void print_position(FILE *f, json_t *o, const char *column, const char *name)
{
    long long line = number_of(o, "line"), at = number_of(o, column);
    if (line <= 0 && name)
        fprintf(f, "%s: ", name);
    else if (name && at > 0)
        fprintf(f, "%s:%lld:%lld: ", name, line, at);
    else if (name)
        fprintf(f, "%s:%lld: ", name, line);
    else if (line > 0 && at > 0)
        fprintf(f, "line %lld, column %lld: ", line, at);
    else if (line > 0)
        fprintf(f, "line %lld: ", line);
}

static void print_error(FILE *f, json_t *error, const char *name)
{
    if (!json_is_object(error))
        return;
    print_position(f, error, "offset", name);
    fprintf(f, "%s: %s\n", text_of(error, "type"), text_of(error, "message"));
    if (text_of(error, "context")[0])
        fprintf(f, "%s\n", text_of(error, "context"));
    if (text_of(error, "hint")[0])
        fprintf(f, "hint: %s\n", text_of(error, "hint"));
}

static void print_violations(FILE *f, json_t *list, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        print_position(f, item, "column", name);
        fprintf(f, "%s: %s%s%s\n", text_of(item, "kind"), text_of(item, "reason"),
                text_of(item, "hint")[0] ? "; " : "", text_of(item, "hint"));
    }
}

// "imports: math, os"
static void print_names(FILE *f, const char *title, json_t *list, const char *key)
{
    size_t i;
    json_t *item;
    if (!json_array_size(list))
        return;
    fprintf(f, "%s: ", title);
    json_array_foreach (list, i, item) {
        if (i == SHOWN_MAX)
            break;
        long long line = number_of(item, "line");
        fprintf(f, "%s%s", i ? ", " : "", text_of(item, key));
        if (line > 0)
            fprintf(f, " (line %lld)", line);
    }
    if (json_array_size(list) > SHOWN_MAX)
        fprintf(f, " and %zu more", json_array_size(list) - SHOWN_MAX);
    fputc('\n', f);
}

static void print_unbound(FILE *f, json_t *names)
{
    size_t i;
    json_t *item;
    if (json_object_get(names, "followed") && !json_is_true(json_object_get(names, "followed")))
        fprintf(f, "names could not be followed: %s\n", text_of(names, "reason"));
    json_array_foreach (json_object_get(names, "unbound"), i, item)
        fprintf(f, "name: line %lld: %s\n", number_of(item, "line"), text_of(item, "message"));
}

static void print_analysis(FILE *f, json_t *a)
{
    json_t *complexity = json_object_get(a, "complexity");
    fprintf(f, "analysis: %lld lines", number_of(a, "line_count"));
    if (json_object_get(a, "code_lines"))
        fprintf(f, " (%lld code, %lld comments, %lld blank)", number_of(a, "code_lines"),
                number_of(a, "comment_lines"), number_of(a, "blank_lines"));
    fprintf(f, ", %lld characters", number_of(a, "character_count"));
    if (complexity)
        fprintf(f, ", complexity %s (%lld in all, at most %lld in one function)",
                text_of(a, "estimated_complexity"), number_of(complexity, "total"),
                number_of(complexity, "highest"));
    fputc('\n', f);
    if (text_of(a, "incomplete")[0])
        fprintf(f, "analysis is incomplete: %s\n", text_of(a, "incomplete"));
    print_names(f, "imports", json_object_get(a, "imports"), "module");
    print_names(f, "functions", json_object_get(a, "functions"), "name");
    print_names(f, "classes", json_object_get(a, "classes"), "name");
    print_unbound(f, json_object_get(a, "names"));
}

static void print_advice(FILE *f, const char *title, json_t *list, const char *rule,
                         const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        fprintf(f, "%s: ", title);
        print_position(f, item, "column", name);
        fprintf(f, "%s [%s]\n", text_of(item, "message"), text_of(item, rule));
    }
    if (json_is_object(list))
        fprintf(f, "%s: none: %s\n", title, text_of(list, "reason"));
}

static void print_policy(FILE *f, json_t *policy)
{
    size_t i;
    json_t *tier, *tiers = json_object_get(policy, "tiers");
    fprintf(f, "policy: %s", text_of(policy, "mode"));
    json_array_foreach (tiers, i, tier)
        fprintf(f, "%s%s",
                i ? ", " : "; tiers: ", json_string_value(tier) ? json_string_value(tier) : "?");
    if (strcmp(text_of(policy, "mode"), "open") != 0 && text_of(policy, "advice")[0])
        fprintf(f, "; %s", text_of(policy, "advice"));
    fputc('\n', f);
}

// Control characters, also those of two bytes (U+0080 to U+009F), become question marks.
static void clean(char *s)
{
    for (unsigned char *p = (unsigned char *)s; *p; p++) {
        if ((*p < ' ' && *p != '\n' && *p != '\t') || *p == 127)
            *p = '?';
        if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
    }
}

char *check_words(json_t *answer, const char *name)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return NULL;
    bool valid = json_is_true(json_object_get(answer, "valid"));
    fprintf(f, "%s\n", valid ? "valid; the code was not run" : "not valid; the code was not run");
    print_error(f, json_object_get(answer, "error"), name);
    print_violations(f, json_object_get(answer, "violations"), name);
    print_analysis(f, json_object_get(answer, "analysis"));
    print_advice(f, "advice", json_object_get(answer, "recommendations"), "rule", name);
    print_advice(f, "lint", json_object_get(answer, "lint"), "code", name);
    print_policy(f, json_object_get(answer, "policy"));
    fprintf(f, "python: %s\n", text_of(answer, "python"));
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    clean(text);
    return text;
}
