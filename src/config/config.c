// SPDX-License-Identifier: Apache-2.0
//
// config: the table, and how to parse, format and describe each type.  config_load.c reads the
// sources and calls config_set().  Runs in the first process, before any fork, with the rights the
// program was started with.

#include "config/config.h"
#include "config/code_policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/sys.h"

const struct config_option config_options[CONFIG_KEY_MAX] = {
#define OPTION(TYPE, field_, key_, fallback_, min_, max_, ...)                                     \
    [CONFIG_KEY_##field_] = {.type = CONFIG_##TYPE,                                                \
                             .offset = offsetof(struct config, field_),                            \
                             .key = key_,                                                          \
                             .fallback = fallback_,                                                \
                             .min = min_,                                                          \
                             .max = max_,                                                          \
                             __VA_ARGS__},
#include "config/config.def"
#undef OPTION
};

const char *const config_groups[GROUP_MAX] = {
    [GROUP_NONE] = "",
    [GROUP_GENERAL] = "General",
    [GROUP_LIMITS] = "Limits",
    [GROUP_BOXES] = "Boxes and interpreter",
    [GROUP_NETWORK] = "Network of boxes",
    [GROUP_POLICY] = "Import policy",
    [GROUP_INPUT] = "Input of the code",
    [GROUP_PACKAGES] = "Packages and environments",
    [GROUP_SERVER] = "Server",
    [GROUP_ACCESS] = "Access to the server",
    [GROUP_MCP] = "MCP",
    [GROUP_SESSIONS] = "Sessions and files",
    [GROUP_LOGGING] = "Logging and configuration",
    [GROUP_HELP] = "Help",
};

const struct config_set_default config_set_defaults[] = {
#define SET_DEFAULT(set_, field_, value_) {set_, CONFIG_KEY_##field_, value_},
#include "config/config_sets.def"
#undef SET_DEFAULT
    {0},
};

/* ---- Types ---- */

// The value of one field, before it is stored.
union value {
    uint64_t number;
    uint32_t small;
    int choice;
    bool flag;
    const char *borrowed;
    char text[CONFIG_TEXT_MAX + 1];
    struct text_list list;
    struct config_texts texts;
};

static int parse_text(const struct config_option *o, const char *s, union value *v)
{
    size_t len = strlen(s);
    if (len < o->min || len > o->max)
        return -ERANGE;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return -EINVAL;
    memcpy(v->text, s, len + 1);
    return 0;
}

static int parse_list(const struct config_option *o, const char *s, union value *v)
{
    int r = text_list_add(&v->list, s), ignored;
    for (size_t i = 0; o->choices && r == 0 && i < v->list.count; i++)
        r = text_parse_choice(v->list.items[i], o->choices, &ignored);
    return r;
}

static int parse_size(const struct config_option *o, const char *s, union value *v)
{
    return text_parse_size(s, o->min, o->max, &v->number);
}

static int parse_duration(const struct config_option *o, const char *s, union value *v)
{
    return text_parse_duration(s, o->min, o->max, &v->number);
}

// A day, a second of it, or seconds since 1970; UTC.
static int parse_instant(const struct config_option *o, const char *s, union value *v)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M",
                                        "%Y-%m-%d"};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct tm tm = {0};
        const char *end = strptime(s, forms[i], &tm);
        int day = tm.tm_mday;
        if (!end || *end)
            continue;
        time_t t = timegm(&tm);
        if (tm.tm_mday != day) // the 30th of February
            return -EINVAL;
        v->number = (uint64_t)t;
        return t >= 0 && v->number >= o->min && v->number <= o->max ? 0 : -ERANGE;
    }
    return text_parse_u64(s, o->min, o->max, &v->number);
}

static int parse_int(const struct config_option *o, const char *s, union value *v)
{
    uint64_t n;
    int r = text_parse_u64(s, o->min, o->max, &n);
    if (r < 0)
        return r;
    v->small = (uint32_t)n; // no row has a larger maximum; test_config checks it
    return 0;
}

// Where "on" and "off" are choices, every spelling of a boolean (true, 1, no ...) means one of
// them.
static int parse_enum(const struct config_option *o, const char *s, union value *v)
{
    bool flag;
    int r = text_parse_choice(s, o->choices, &v->choice);
    if (r < 0 && text_parse_bool(s, &flag) == 0)
        r = text_parse_choice(flag ? "on" : "off", o->choices, &v->choice);
    return r;
}

static int parse_bool(const struct config_option *o, const char *s, union value *v)
{
    (void)o;
    return text_parse_bool(s, &v->flag);
}

static int parse_code(const struct config_option *o, const char *s, union value *v)
{
    (void)o;
    v->borrowed = s;
    return 0;
}

static int parse_texts(const struct config_option *o, const char *s, union value *v)
{
    if (strlen(s) < o->min)
        return -ERANGE;
    if (v->texts.count >= CONFIG_TEXTS_MAX)
        return -E2BIG;
    v->texts.items[v->texts.count++] = s;
    return 0;
}

static void format_text(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    (void)o;
    snprintf(buf, cap, "%s", (const char *)field);
}

static void format_list(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    const struct text_list *list = field;
    (void)o;
    buf[0] = '\0';
    for (size_t i = 0, n = 0; i < list->count && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%s", i ? "," : "", list->items[i]);
}

static void format_size(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    (void)o;
    text_format_size(*(const uint64_t *)field, buf, cap);
}

static void format_duration(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    (void)o;
    text_format_duration(*(const uint64_t *)field, buf, cap);
}

static void format_instant(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    time_t t = (time_t) * (const uint64_t *)field;
    struct tm tm;
    (void)o;
    if (!gmtime_r(&t, &tm) || !strftime(buf, cap, "%Y-%m-%dT%H:%M:%SZ", &tm))
        buf[0] = '\0';
}

static void format_bound_instant(uint64_t v, char *buf, size_t cap)
{
    format_instant(NULL, &v, buf, cap);
}

static void format_int(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    (void)o;
    snprintf(buf, cap, "%" PRIu32, *(const uint32_t *)field);
}

static void format_enum(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    const char *s = o->choices;
    for (int i = *(const int *)field; i > 0; i--)
        s += strcspn(s, "|") + 1;
    snprintf(buf, cap, "%.*s", (int)strcspn(s, "|"), s);
}

static void format_bool(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    (void)o;
    snprintf(buf, cap, "%s", *(const bool *)field ? "true" : "false");
}

static void format_code(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    (void)o;
    (void)field;
    snprintf(buf, cap, "-");
}

static void format_texts(const struct config_option *o, const void *field, char *buf, size_t cap)
{
    const struct config_texts *texts = field;
    (void)o;
    buf[0] = '\0';
    if (texts->count)
        snprintf(buf, cap, "(%zu given)", texts->count);
}

// `noun` is the start of the text of config_describe(); types with a unit print bounds in that
// unit.
static const struct type {
    int (*parse)(const struct config_option *o, const char *s, union value *v);
    void (*format)(const struct config_option *o, const void *field, char *buf, size_t cap);
    void (*format_bound)(uint64_t v, char *buf, size_t cap);
    size_t size;
    const char *noun;
    const char *hint;
} types[CONFIG_TYPE_MAX] = {
    [CONFIG_STRING] = {parse_text, format_text, NULL, sizeof(char[CONFIG_TEXT_MAX + 1]),
                       "a text of 1 to 4095 characters without control characters",
                       "give a text that is not empty"},
    [CONFIG_PATH] = {parse_text, format_text, NULL, sizeof(char[CONFIG_TEXT_MAX + 1]),
                     "a path of 1 to 4095 characters without control characters",
                     "give the path of a file"},
    [CONFIG_LIST] = {parse_list, format_list, NULL, sizeof(struct text_list),
                     "a comma-separated list of at most 64 names of 1 to 256 characters",
                     "write names with commas between them, such as numpy,pandas"},
    [CONFIG_SIZE] =
        {parse_size, format_size, text_format_size, sizeof(uint64_t), "a size",
         "write a number followed by K, M, G or T, such as 64M; a plain number is bytes"},
    [CONFIG_DURATION] = {parse_duration, format_duration, text_format_duration, sizeof(uint64_t),
                         "a duration",
                         "write a number followed by ms, s, m or h, such as 1.5s; a "
                         "plain number is seconds"},
    [CONFIG_INSTANT] = {parse_instant, format_instant, format_bound_instant, sizeof(uint64_t),
                        "a time",
                        "write a time of UTC such as 2026-01-31T12:00:00Z, or 2026-01-31"},
    [CONFIG_INT] = {parse_int, format_int, NULL, sizeof(uint32_t), "a whole number",
                    "write digits only, such as 64"},
    [CONFIG_ENUM] = {parse_enum, format_enum, NULL, sizeof(int), "one of",
                     "write one of the words listed"},
    [CONFIG_BOOL] = {parse_bool, format_bool, NULL, sizeof(bool), "true or false",
                     "write true or false"},
    [CONFIG_CODE] = {parse_code, format_code, NULL, sizeof(const char *), "a text", NULL},
    [CONFIG_TEXTS] = {parse_texts, format_texts, NULL, sizeof(struct config_texts),
                      "a text that is not empty, given at most 100 times",
                      "give the option once for each of them"},
};

/* ---- Limits of time ---- */

static bool has_cpu_limit(const struct config *c)
{
    return c->origins[CONFIG_KEY_cpu_ms].source != CONFIG_FROM_DEFAULT;
}

uint64_t config_cpu_ms(const struct config *c, uint64_t asked_ms, uint64_t wall_ms)
{
    if (asked_ms)
        return asked_ms;
    return has_cpu_limit(c) ? c->cpu_ms : wall_ms * sys_cores();
}

uint64_t config_wall_max_ms(const struct config *c)
{
    return c->timeout_max_ms > c->wall_ms ? c->timeout_max_ms : c->wall_ms;
}

uint64_t config_cpu_max_ms(const struct config *c)
{
    uint64_t wall_ms = config_wall_max_ms(c);
    if (!has_cpu_limit(c)) // the wall time is the limit that counts
        return config_options[CONFIG_KEY_cpu_ms].max;
    return c->cpu_ms > wall_ms ? c->cpu_ms : wall_ms;
}

/* ---- Describing ---- */

static void format_choices(const char *choices, char *buf, size_t cap)
{
    size_t n = 0;
    for (; *choices && n + 3 < cap; choices++) {
        if (*choices == '|')
            buf[n++] = ',';
        buf[n++] = *choices == '|' ? ' ' : *choices;
    }
    buf[n] = '\0';
}

void config_describe(const struct config_option *o, const struct config_env *env,
                     char buf[CONFIG_DESCRIBE_MAX])
{
    const struct type *t = &types[o->type];
    char low[64], high[64], choices[128];

    if (env && env->factor) {
        double unit = (double)env->factor;
        snprintf(buf, CONFIG_DESCRIBE_MAX, "a number of %s between %.15g and %.15g", env->unit,
                 (double)o->min / unit, (double)o->max / unit);
    } else if (t->format_bound) {
        t->format_bound(o->min, low, sizeof low);
        t->format_bound(o->max, high, sizeof high);
        snprintf(buf, CONFIG_DESCRIBE_MAX, "%s between %s and %s", t->noun, low, high);
    } else if (o->type == CONFIG_INT) {
        snprintf(buf, CONFIG_DESCRIBE_MAX, "%s between %" PRIu64 " and %" PRIu64, t->noun, o->min,
                 o->max);
    } else if (o->type == CONFIG_ENUM) {
        format_choices(o->choices, choices, sizeof choices);
        snprintf(buf, CONFIG_DESCRIBE_MAX, "%s %s", t->noun, choices);
    } else if (o->choices) {
        format_choices(o->choices, choices, sizeof choices);
        snprintf(buf, CONFIG_DESCRIBE_MAX, "a comma-separated list of these words: %s", choices);
    } else {
        snprintf(buf, CONFIG_DESCRIBE_MAX, "%s", t->noun);
    }
}

void config_format(const struct config *c, enum config_key key, char *buf, size_t cap)
{
    const struct config_option *o = &config_options[key];
    types[o->type].format(o, (const char *)c + o->offset, buf, cap);
    if (o->secret && buf[0])
        snprintf(buf, cap, "(set)");
}

void config_format_origin(const struct config *c, enum config_key key, struct config_origin origin,
                          char buf[CONFIG_DESCRIBE_MAX])
{
    const struct config_option *o = &config_options[key];
    switch (origin.source) {
    case CONFIG_FROM_DEFAULT: snprintf(buf, CONFIG_DESCRIBE_MAX, "the default"); break;
    case CONFIG_FROM_SET:
        snprintf(buf, CONFIG_DESCRIBE_MAX, "the default of the tool set '%s'",
                 config_set_defaults[origin.set].set);
        break;
    case CONFIG_FROM_PIP: snprintf(buf, CONFIG_DESCRIBE_MAX, "the settings of pip"); break;
    case CONFIG_FROM_DOTENV:
        snprintf(buf, CONFIG_DESCRIBE_MAX, "%s in line %u of '.env'", o->env[origin.env].name,
                 origin.line);
        break;
    case CONFIG_FROM_FILE:
        snprintf(buf, CONFIG_DESCRIBE_MAX, "line %u of '%.200s'", origin.line, c->config_file);
        break;
    case CONFIG_FROM_ENV:
        snprintf(buf, CONFIG_DESCRIBE_MAX, "the environment variable %s", o->env[origin.env].name);
        break;
    case CONFIG_FROM_FLAG: snprintf(buf, CONFIG_DESCRIBE_MAX, "the option --%s", o->key); break;
    }
}

const struct config_option *config_nearest(const char *name, unsigned from, unsigned commands)
{
    const struct config_option *best = NULL;
    unsigned best_distance = (unsigned)(strnlen(name, 64) / 3 + 2); // beyond this it is no typo
    for (size_t i = 0; i < CONFIG_KEY_MAX; i++) {
        const struct config_option *o = &config_options[i];
        if (!(o->from & from) || !(o->commands & commands))
            continue;
        unsigned d = text_distance(name, o->key);
        if (d < best_distance) {
            best = o;
            best_distance = d;
        }
    }
    return best;
}

/* ---- Setting ---- */

static const struct config_env *origin_env(const struct config_option *o,
                                           struct config_origin origin)
{
    bool named = origin.source == CONFIG_FROM_ENV || origin.source == CONFIG_FROM_DOTENV;
    return named ? &o->env[origin.env] : NULL;
}

// Values of a list add up when they come from one source: the options, one variable, one file.
static bool same_source(struct config_origin a, struct config_origin b)
{
    return a.source == b.source && a.env == b.env;
}

// Of two variables of one key, or two tool sets, the first in the table is the stronger.
static bool is_weaker(struct config_origin a, struct config_origin b)
{
    return a.source < b.source || (a.source == b.source && (a.env > b.env || a.set > b.set));
}

static int parse_value(const struct config_option *o, const struct config_env *env,
                       const char *text, union value *v)
{
    if (env && env->factor)
        return text_parse_scaled(text, env->factor, o->min, o->max, &v->number);
    return types[o->type].parse(o, text, v);
}

static int bad_value(const struct config *c, enum config_key key, const char *text,
                     struct config_origin origin, struct err *e)
{
    const struct config_option *o = &config_options[key];
    const struct config_env *env = origin_env(o, origin);
    char from[CONFIG_DESCRIBE_MAX], expected[CONFIG_DESCRIBE_MAX];
    config_format_origin(c, key, origin, from);
    config_describe(o, env, expected);
    // SECURITY: an address may contain a password, and such a text anything.
    bool secret =
        o->secret || o->type == CONFIG_TEXTS || (strstr(text, "://") && strchr(text, '@'));
    int r = err_set(e, ERR_BAD_VALUE, 0, o->hint ? o->hint : types[o->type].hint,
                    "%s '%.80s%s' from %s is not %s", o->key, secret ? "(secret)" : text,
                    strlen(text) > 80 && !secret ? "..." : "", from, expected);
    if (env && env->factor)
        err_hint(e, "write a plain number; %s counts in %s", env->name, env->unit);
    return r;
}

int config_set(struct config *c, enum config_key key, const char *text, struct config_origin origin,
               struct err *e)
{
    const struct config_option *o = &config_options[key];
    void *field = (char *)c + o->offset;
    size_t size = types[o->type].size;
    union value v;

    memset(&v, 0, sizeof v);
    if ((o->type == CONFIG_LIST || o->type == CONFIG_TEXTS) && same_source(origin, c->origins[key]))
        memcpy(&v, field, size);
    if (parse_value(o, origin_env(o, origin), text, &v) < 0)
        return bad_value(c, key, text, origin, e);
    if (is_weaker(origin, c->origins[key]))
        return 0;
    memcpy(field, &v, size);
    c->origins[key] = origin;
    return 0;
}

// Writes `text` as config_format() would; "" also if it is no value.
static void normalize(const struct config_option *o, const char *text, char *buf, size_t cap)
{
    union value v;
    memset(&v, 0, sizeof v);
    buf[0] = '\0';
    if (text && types[o->type].parse(o, text, &v) == 0)
        types[o->type].format(o, &v, buf, cap);
}

bool config_is_one_of(enum config_key key, const char *text, const char *values)
{
    const struct config_option *o = &config_options[key];
    char value[CONFIG_TEXT_MAX + 1], fallback[CONFIG_TEXT_MAX + 1];
    int ignored;
    normalize(o, text, value, sizeof value);
    normalize(o, o->fallback, fallback, sizeof fallback);
    if (strcmp(value, fallback) == 0 && (value[0] || !text[0]))
        return true;
    return value[0] && values && text_parse_choice(value, values, &ignored) == 0;
}

void config_init(struct config *c)
{
    memset(c, 0, sizeof *c);
    config_init_zeroed(c);
}

void config_init_zeroed(struct config *c)
{
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++)
        if (config_options[key].fallback)
            (void)config_set(c, key, config_options[key].fallback, (struct config_origin){0},
                             NULL); // defaults are within their bounds: test_config
}

static bool names_set(const struct text_list *list, const char *set)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], set) == 0)
            return true;
    return false;
}

void config_apply_sets(struct config *c)
{
    for (unsigned i = 0; config_set_defaults[i].set; i++) {
        const struct config_set_default *d = &config_set_defaults[i];
        struct config_origin origin = {.source = CONFIG_FROM_SET, .set = i};
        if (names_set(&c->tools, d->set))
            (void)config_set(c, d->key, d->value, origin,
                             NULL); // within its bounds: test_config
        // numpy, pandas and scikit-learn together need more than that server gives a run.
        if (c->origins[CONFIG_KEY_memory_bytes].source == CONFIG_FROM_SET &&
            code_policy_has_tier(c, "data_science") && c->memory_bytes < CONFIG_DATA_MEMORY)
            c->memory_bytes = CONFIG_DATA_MEMORY;
    }
}
