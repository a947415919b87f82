// SPDX-License-Identifier: Apache-2.0
//
// config_load: reads the four sources of the configuration (command line, environment, file, .env)
// and hands each value to config_set(), which keeps the strongest.  Runs in the first process,
// before any fork, with the rights the program was started with.

#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

enum { CONFIG_FILE_MAX = 64 * 1024 };

/* ---- Command line ---- */

// The arguments not read yet.
struct args {
    unsigned command;
    int left;
    char **next;
};

static char *take_arg(struct args *a)
{
    if (a->left == 0)
        return NULL;
    a->left--;
    return *a->next++;
}

// The key whose option is `name` (of length `len`) or `letter`, else CONFIG_KEY_MAX.
static enum config_key find_flag(unsigned commands, const char *name, size_t len, char letter)
{
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++) {
        const struct config_option *o = &config_options[key];
        if (!(o->commands & commands) || !(o->from & CONFIG_FLAG_ONLY))
            continue;
        if (letter ? o->letter == letter : strlen(o->key) == len && memcmp(o->key, name, len) == 0)
            return key;
    }
    return CONFIG_KEY_MAX;
}

static const struct config_option *find_secret(const char *name)
{
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++)
        if (config_options[key].secret && strcmp(config_options[key].key, name) == 0)
            return &config_options[key];
    return NULL;
}

static int unknown_flag(const struct args *a, const char *arg, size_t len, struct err *e)
{
    char name[64] = "";
    if (arg[1] == '-' && len - 2 < sizeof name)
        memcpy(name, arg + 2, len - 2);
    const struct config_option *near =
        name[0] ? config_nearest(name, CONFIG_FLAG_ONLY, a->command) : NULL;
    int r =
        err_set(e, ERR_UNKNOWN_OPTION, 0, "'--help-all' lists the options of this command",
                "unknown option '%.*s%s'", (int)(len > 80 ? 80 : len), arg, len > 80 ? "..." : "");
    const struct config_option *secret = find_secret(name);
    if (secret)
        err_hint(e,
                 "a command line shows the secret to every user of this machine: set the "
                 "environment variable %s, or name a file with --%s-file",
                 secret->env[0].name, secret->key);
    else if (name[0] && find_flag(~0U, name, len - 2, 0) != CONFIG_KEY_MAX)
        err_hint(e, "--%s is an option of other commands; see 'constrictor --help'", name);
    else if (near)
        err_hint(e, "did you mean --%s? '--help-all' lists the options of this command", near->key);
    return r;
}

// Splits `arg` into an option and the value joined to it ("--key=value", "-cCODE"; else NULL).
static enum config_key split_flag(const struct args *a, const char *arg, const char **ret_value,
                                  struct err *e)
{
    bool is_long = arg[1] == '-';
    size_t len = is_long ? strcspn(arg, "=") : 2;
    enum config_key key = is_long ? find_flag(a->command, arg + 2, len - 2, 0)
                                  : find_flag(a->command, NULL, 0, arg[1]);
    // "-hx" is not "-h": nothing may be joined to an option without a value.
    bool joined_to_bool =
        key != CONFIG_KEY_MAX && !is_long && arg[2] && config_options[key].type == CONFIG_BOOL;
    if (key == CONFIG_KEY_MAX || joined_to_bool) {
        (void)unknown_flag(a, arg, is_long ? len : strlen(arg), e);
        return CONFIG_KEY_MAX;
    }
    *ret_value = is_long ? (arg[len] ? arg + len + 1 : NULL) : (arg[2] ? arg + 2 : NULL);
    return key;
}

static int read_flag(struct config *c, struct args *a, enum config_key *ret_key, struct err *e)
{
    const char *arg = take_arg(a), *value = NULL;
    enum config_key key = split_flag(a, arg, &value, e);
    if (key == CONFIG_KEY_MAX)
        return -1;
    const struct config_option *o = &config_options[key];
    if (!value)
        value = o->type == CONFIG_BOOL ? "true" : take_arg(a);
    if (!value)
        return err_set(e, ERR_USAGE, 0, o->help, "the option '%s' needs a value: %s", arg,
                       o->value);
    *ret_key = key;
    return config_set(c, key, value, (struct config_origin){.source = CONFIG_FROM_FLAG}, e);
}

static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] != '\0';
}

// A --json behind a bad option still decides how the mistake is reported.
static bool json_follows(const struct args *a)
{
    for (int i = 0; i < a->left && strcmp(a->next[i], "--") != 0; i++)
        if (strcmp(a->next[i], "--json") == 0)
            return true;
    return false;
}

static int read_flags(struct config *c, struct args *a, struct err *e)
{
    static char names[CONFIG_KEY_MAX][3];
    while (a->left > 0 && is_flag(*a->next)) {
        enum config_key key = CONFIG_KEY_MAX;
        if (strcmp(*a->next, "--") == 0) {
            (void)take_arg(a);
            return 0;
        }
        int r = read_flag(c, a, &key, e);
        if (r < 0)
            return r;
        if (config_options[key].type == CONFIG_CODE) {
            // The argument that held the code has been read; it becomes sys.argv[0].
            snprintf(names[key], sizeof names[key], "-%c", config_options[key].letter);
            *--a->next = names[key];
            a->left++;
            return 0;
        }
    }
    return 0;
}

int config_read_flags(struct config *c, unsigned command, int *argc, char ***argv, struct err *e)
{
    struct args a = {.command = command, .left = *argc, .next = *argv};
    int r = read_flags(c, &a, e);
    if (r < 0)
        c->json = c->json || json_follows(&a);
    *argc = a.left;
    *argv = a.next;
    return r;
}

/* ---- Environment ---- */

// `config` shows every key.
static bool is_used(const struct config_option *o, unsigned command)
{
    return !command || command & CONFIG_SHOW || o->commands & command;
}

// A variable of the environment or of .env.  Other programs have variables of the same names: a
// bad value of one that this command does not use is none of its business.
static int set_variable(struct config *c, unsigned command, enum config_key key, const char *value,
                        struct config_origin origin, struct err *e)
{
    const struct config_option *o = &config_options[key];
    const struct config_env *env = &o->env[origin.env];
    struct err why;
    if (strcmp(value, "None") == 0) // Python's word for "not set"
        return 0;
    int r = config_set(c, key, value, origin, &why);
    if (r == 0 || !is_used(o, command))
        return 0;
    if (env->foreign && strstr(value, env->foreign)) {
        log_line(LOG_WARN, "%s; it looks like another program's and is ignored", why.message);
        return 0;
    }
    if (e)
        *e = why;
    return r;
}

int config_read_environment(struct config *c, unsigned command, struct err *e)
{
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++) {
        for (unsigned i = 0; i < CONFIG_ENV_MAX; i++) {
            const char *name = config_options[key].env[i].name;
            const char *value = name ? getenv(name) : NULL;
            if (!value)
                continue;
            struct config_origin origin = {.source = CONFIG_FROM_ENV, .env = i};
            int r = set_variable(c, command, key, value, origin, e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* ---- Files ---- */

static char *trim(char *s)
{
    static const char blanks[] = " \t\r";
    s += strspn(s, blanks);
    size_t n = strlen(s);
    while (n > 0 && strchr(blanks, s[n - 1]))
        s[--n] = '\0';
    return s;
}

// Removes quotes, or a comment (a blank and '#').  NULL when a quote is not closed, or when
// something other than a comment follows it.
static char *unquote(char *s)
{
    if (*s == '"' || *s == '\'') {
        char *end = strchr(s + 1, *s);
        if (!end)
            return NULL;
        const char *rest = trim(end + 1);
        if (*rest && *rest != '#')
            return NULL;
        *end = '\0';
        return s + 1;
    }
    for (char *p = s; *p; p++) {
        if (*p == '#' && (p == s || p[-1] == ' ' || p[-1] == '\t')) {
            *p = '\0';
            break;
        }
    }
    return trim(s);
}

struct line {
    const char *path;
    unsigned command;
    unsigned number;
    char *name;
    char *value; // NULL: no '='
};

// Handles a line that is not blank and not a comment.
typedef int line_fn(struct config *c, struct line *line, struct err *e);

static int for_each_line(struct config *c, struct line line, char *text, line_fn *fn, struct err *e)
{
    while (text) {
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        line.number++;
        line.name = trim(text);
        text = end ? end + 1 : NULL;
        if (!*line.name || *line.name == '#')
            continue;
        line.value = strchr(line.name, '=');
        if (line.value) {
            *line.value++ = '\0';
            line.name = trim(line.name);
            line.value = trim(line.value);
        }
        int r = fn(c, &line, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_lines(struct config *c, unsigned command, const char *path, line_fn *fn,
                      struct err *e)
{
    _cleanup_free_ char *text = malloc(CONFIG_FILE_MAX);
    if (!text)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", path);
    ssize_t n = file_read_at(AT_FDCWD, path, text, CONFIG_FILE_MAX);
    if (n < 0)
        return err_set(e, ERR_BAD_CONFIG_FILE, (int)-n,
                       n == -EFBIG ? "a configuration file has at most 64 KiB" : NULL,
                       "read the configuration file '%.300s'", path);
    if (strlen(text) != (size_t)n)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "a configuration file is plain text",
                       "the configuration file '%.300s' contains a NUL byte", path);
    return for_each_line(c, (struct line){.path = path, .command = command}, text, fn, e);
}

static int bad_quote(const struct line *line, struct err *e)
{
    return err_set(e, ERR_BAD_CONFIG_FILE, 0,
                   "put the whole value between two quotes of the same kind",
                   "line %u of '%.300s': the quotes around the value of %.64s do not match",
                   line->number, line->path, line->name);
}

static enum config_key find_key(const char *name, enum config_source source)
{
    for (enum config_key key = 0; key < CONFIG_KEY_MAX; key++)
        if ((config_options[key].from & 1U << source) && strcmp(config_options[key].key, name) == 0)
            return key;
    return CONFIG_KEY_MAX;
}

static int file_line(struct config *c, struct line *line, struct err *e)
{
    if (!line->value)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "each line is 'key = value' or begins with '#'",
                       "line %u of '%.300s' has no '='", line->number, line->path);
    enum config_key key = find_key(line->name, CONFIG_FROM_FILE);
    if (key == CONFIG_KEY_MAX) {
        const struct config_option *near = config_nearest(line->name, 1U << CONFIG_FROM_FILE, ~0U);
        int r = err_set(e, ERR_BAD_CONFIG_FILE, 0, "'constrictor config' prints all keys",
                        "line %u of '%.300s': unknown key '%.64s'", line->number, line->path,
                        line->name);
        if (near)
            err_hint(e, "did you mean '%s'? 'constrictor config' prints all keys", near->key);
        return r;
    }
    const char *value = unquote(line->value);
    if (!value)
        return bad_quote(line, e);
    struct config_origin origin = {.source = CONFIG_FROM_FILE, .line = line->number};
    return config_set(c, key, value, origin, e);
}

int config_read_file(struct config *c, const char *path, struct err *e)
{
    return read_lines(c, 0, path, file_line, e);
}

// The first key, from `key` on, that reads this variable; some variables set several keys.
static enum config_key find_variable(enum config_key key, const char *name, unsigned *ret_env)
{
    for (; key < CONFIG_KEY_MAX; key++) {
        for (unsigned i = 0; i < CONFIG_ENV_MAX; i++) {
            const char *known = config_options[key].env[i].name;
            if (known && strcmp(known, name) == 0) {
                *ret_env = i;
                return key;
            }
        }
    }
    return CONFIG_KEY_MAX;
}

// SECURITY: a stranger may have written the .env file.  To keys that weaken the wall or open the
// server it may only give their default, or a stricter value.
static int bad_dotenv(const struct config_option *o, const struct line *line, const char *value,
                      unsigned env, struct err *e)
{
    if (o->dotenv_skips) {
        log_line(LOG_WARN,
                 "line %u of '.env': %s=%.80s is not used, because a stranger may have written the "
                 "file: %s; use --%s %.80s or the environment variable %s",
                 line->number, line->name, value, o->dotenv_skips, o->key, value, o->env[env].name);
        return 0;
    }
    (void)err_set(e, ERR_BAD_CONFIG_FILE, 0, NULL, "line %u of '.env': %s cannot be set there",
                  line->number, line->name);
    err_hint(e,
             "a stranger may have written the .env file: use the option --%s or the environment "
             "variable %s%s%s",
             o->key, o->env[env].name, o->in_dotenv ? "; it may only say " : "",
             o->in_dotenv ? o->in_dotenv : "");
    return -1;
}

// Several programs share one .env, so lines with other names are ignored.
static int dotenv_line(struct config *c, struct line *line, struct err *e)
{
    static const char prefix[] = "export ";
    struct config_origin origin = {.source = CONFIG_FROM_DOTENV, .line = line->number};
    if (strncmp(line->name, prefix, sizeof prefix - 1) == 0)
        line->name = trim(line->name + sizeof prefix - 1);
    enum config_key key = find_variable(0, line->name, &origin.env);
    if (!line->value || key == CONFIG_KEY_MAX)
        return 0;
    const char *value = unquote(line->value);
    if (!value)
        return is_used(&config_options[key], line->command) ? bad_quote(line, e) : 0;
    int r = 0;
    for (; r == 0 && key != CONFIG_KEY_MAX; key = find_variable(key + 1, line->name, &origin.env)) {
        const struct config_option *o = &config_options[key];
        if (o->from & 1U << CONFIG_FROM_DOTENV || config_is_one_of(key, value, o->in_dotenv))
            r = set_variable(c, line->command, key, value, origin, e);
        else if (is_used(o, line->command))
            r = bad_dotenv(o, line, value, origin.env, e);
    }
    return r;
}

int config_read_dotenv(struct config *c, unsigned command, const char *path, struct err *e)
{
    struct stat st;
    // It need not exist, and it may be a folder (some virtual environments are called .env).
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    return read_lines(c, command, path, dotenv_line, e);
}

/* ---- All of them ---- */

int config_load(struct config *c, unsigned command, int *argc, char ***argv, struct err *e)
{
    int r = config_read_flags(c, command, argc, argv, e);
    if (r < 0 || c->help || c->help_all)
        return r;
    r = config_read_environment(c, command, e);
    if (r < 0)
        return r;
    // After the environment, because CONSTRICTOR_CONFIG may name the file.
    if (c->config_file[0]) {
        r = config_read_file(c, c->config_file, e);
        if (r < 0)
            return r;
    }
    r = config_read_dotenv(c, command, ".env", e);
    if (r < 0)
        return r;
    if (command & (CONFIG_ENVS | CONFIG_SHOW))
        config_read_pip(c);
    c->legacy_sse = c->legacy_sse || c->sse;
    if (c->debug && c->origins[CONFIG_KEY_log_level].source <= CONFIG_FROM_SET)
        c->log_level = LOG_DEBUG;
    config_apply_sets(c);
    c->cpu_ms = config_cpu_ms(c, 0, c->wall_ms);
    return 0;
}
