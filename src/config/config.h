// SPDX-License-Identifier: Apache-2.0
//
// config: every setting of the program, made from the table in config.def.  main() fills one struct
// config before the first fork; from then on all processes only read it.  It owns no memory.
//
// Where values come from, strongest first: command line, environment, the file given with --config,
// the file .env in the current folder, pip's own settings (the package index only), the default of
// a named tool set, the default.  Every value
// given is checked, even one that a stronger source overrides: a mistake must show at once, not on
// the day the override goes away.

#ifndef CONSTRICTOR_CONFIG_CONFIG_H
#define CONSTRICTOR_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

enum { CONFIG_TEXT_MAX = 4095, CONFIG_ENV_MAX = 4, CONFIG_TEXTS_MAX = 100 };

// The texts of an option that is given several times.
struct config_texts {
    size_t count;
    const char *items[CONFIG_TEXTS_MAX];
};

// Commands that an option belongs to, as bits.
enum {
    CONFIG_RUN = 1 << 0,
    CONFIG_DOCTOR = 1 << 1,
    CONFIG_BENCH = 1 << 2,
    CONFIG_SHOW = 1 << 3,
    CONFIG_SERVE = 1 << 4,
    CONFIG_STDIO = 1 << 5,
    CONFIG_CLIENT = 1 << 6,
    CONFIG_CHECK = 1 << 7,
    CONFIG_ENV = 1 << 8,
    CONFIG_HELP = 1 << 9,
    CONFIG_REPL = 1 << 10,
    CONFIG_RUNS = CONFIG_RUN | CONFIG_REPL,
    CONFIG_MCP = CONFIG_SERVE | CONFIG_STDIO,
    // Commands that can change environments.
    CONFIG_ENVS = CONFIG_MCP | CONFIG_ENV | CONFIG_RUNS | CONFIG_CHECK,
    CONFIG_BOXES = CONFIG_DOCTOR | CONFIG_BENCH | CONFIG_SHOW | CONFIG_ENVS,
    CONFIG_POLICED = CONFIG_RUNS | CONFIG_CHECK | CONFIG_SHOW | CONFIG_MCP,
    CONFIG_ALL = CONFIG_BOXES | CONFIG_CLIENT | CONFIG_HELP,
};

// Sources in order of strength.
enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_SET, // the default of a tool set: config_sets.def
    CONFIG_FROM_PIP, // what the operator told pip: config_pip.c
    CONFIG_FROM_DOTENV,
    CONFIG_FROM_FILE,
    CONFIG_FROM_ENV,
    CONFIG_FROM_FLAG,
};

// Sets of sources, for the table.
// SECURITY: .env is read from the folder the program is started in, which may be a repository that
// an attacker wrote.  Keys that choose a program, a user id or a weaker wall are therefore
// CONFIG_TRUSTED: in .env they may only have their default, or one of the values of .in_dotenv.
enum {
    CONFIG_FLAG_ONLY = 1 << CONFIG_FROM_FLAG,
    CONFIG_CALL_ONLY = CONFIG_FLAG_ONLY | 1 << CONFIG_FROM_ENV,
    CONFIG_TRUSTED = CONFIG_CALL_ONLY | 1 << CONFIG_FROM_FILE,
    CONFIG_ANYWHERE = CONFIG_TRUSTED | 1 << CONFIG_FROM_DOTENV,
};

enum config_type {
    CONFIG_STRING,
    CONFIG_PATH,
    CONFIG_LIST,
    CONFIG_SIZE,
    CONFIG_DURATION,
    CONFIG_INSTANT, // of the clock, in seconds since 1970
    CONFIG_INT,
    CONFIG_ENUM,
    CONFIG_BOOL,
    CONFIG_CODE,  // text of any length, borrowed from argv; ends the options
    CONFIG_TEXTS, // the same, given any number of times, without ending the options
    CONFIG_TYPE_MAX
};

// Headings for options, in the order in which they are printed.
enum config_group {
    GROUP_NONE,
    GROUP_GENERAL,
    GROUP_LIMITS,
    GROUP_BOXES,
    GROUP_NETWORK,
    GROUP_POLICY,
    GROUP_INPUT,
    GROUP_PACKAGES,
    GROUP_SERVER,
    GROUP_ACCESS,
    GROUP_MCP,
    GROUP_SESSIONS,
    GROUP_LOGGING,
    GROUP_HELP,
    GROUP_MAX
};

extern const char *const config_groups[GROUP_MAX]; // the headings

enum config_key {
#define OPTION(TYPE, field, ...) CONFIG_KEY_##field,
#include "config/config.def"
#undef OPTION
    CONFIG_KEY_MAX
};

struct config_origin {
    enum config_source source;
    unsigned env;  // which of the key's variables, for CONFIG_FROM_ENV and CONFIG_FROM_DOTENV
    unsigned line; // for the two files
    unsigned set;  // for CONFIG_FROM_SET: row of config_set_defaults
};

// The C type of each field.
#define CONFIG_FIELD_STRING(field) char field[CONFIG_TEXT_MAX + 1];
#define CONFIG_FIELD_PATH(field) char field[CONFIG_TEXT_MAX + 1];
#define CONFIG_FIELD_LIST(field) struct text_list field;
#define CONFIG_FIELD_SIZE(field) uint64_t field;
#define CONFIG_FIELD_DURATION(field) uint64_t field;
#define CONFIG_FIELD_INSTANT(field) uint64_t field;
#define CONFIG_FIELD_INT(field) uint32_t field;
#define CONFIG_FIELD_ENUM(field) int field; // position in the choices of the table
#define CONFIG_FIELD_BOOL(field) bool field;
#define CONFIG_FIELD_CODE(field) const char *field; // NULL when not given
#define CONFIG_FIELD_TEXTS(field) struct config_texts field;

struct config {
#define OPTION(TYPE, field, ...) CONFIG_FIELD_##TYPE(field)
#include "config/config.def"
#undef OPTION
    struct config_origin origins[CONFIG_KEY_MAX];
};

// Did anything set this key?  For keys whose default is no value.
#define config_is_set(c, key) ((c)->origins[key].source != CONFIG_FROM_DEFAULT)

struct config_env {
    const char *name;
    uint64_t factor;  // 0: written as the key's own type; else a plain number times this
    const char *unit; // the word for that unit
    // Other programs use this name for values that contain this text ("": any text).  Such a value,
    // when it is invalid here, is ignored with a warning.
    const char *foreign;
};

// One row of the table.
struct config_option {
    enum config_type type;
    size_t offset;
    const char *key, *fallback;
    uint64_t min, max;
    char letter;       // short flag, or 0
    unsigned from;     // set of 1 << enum config_source
    unsigned commands; // set of CONFIG_RUN ...
    unsigned common;   // the same: commands whose --help shows it
    enum config_group group;
    const char *choices;      // "a|b|c" for CONFIG_ENUM; words of a CONFIG_LIST, or NULL: any
    bool secret;              // SECURITY: never printed, neither as a value nor in an error
    const char *in_dotenv;    // "a|b": values of a CONFIG_TRUSTED key that weaken nothing
    const char *dotenv_skips; // why .env cannot set other values, for a warning; NULL: an error
    const char *value;        // name of the value in --help
    const char *help;
    const char *hint; // for a bad value; NULL: the hint of the type
    struct config_env env[CONFIG_ENV_MAX];
};

extern const struct config_option config_options[CONFIG_KEY_MAX];

// Defaults of tool sets; ends with a row without a set.
struct config_set_default {
    const char *set;
    enum config_key key;
    const char *value;
};

extern const struct config_set_default config_set_defaults[];

// Defaults only.
void config_init(struct config *c);
// The same for a struct that is all zeroes already, such as a static one: it is large.
void config_init_zeroed(struct config *c);

// Reads all sources into an initialised `c`.  `command` is the bit of the command.  *argc and *argv
// are the words after its name, and become the words after the options.  After `-c CODE`,
// (*argv)[0] is "-c", so that for `run` the rest is the code's sys.argv.  With --help or --help-all
// the other sources are not read, so that a bad environment cannot hide the help.  c->json is valid
// even on failure.
int config_load(struct config *c, unsigned command, int *argc, char ***argv, struct err *e);

// Sets one key from text.  A value from a weaker source than the present one is checked but not
// stored.
int config_set(struct config *c, enum config_key key, const char *text, struct config_origin origin,
               struct err *e);

// Each reads one source.  Called by config_load(); public for the tests.
int config_read_flags(struct config *c, unsigned command, int *argc, char ***argv, struct err *e);
// With a `command`, variables that it does not use are not checked.
int config_read_environment(struct config *c, unsigned command, struct err *e);
int config_read_file(struct config *c, const char *path, struct err *e);
int config_read_dotenv(struct config *c, unsigned command, const char *path, struct err *e);
void config_read_pip(struct config *c);     // config_pip.c: the package index, if none is set
#define CONFIG_DATA_MEMORY (512 * TEXT_MIB) // that the modules of the tier data_science need
void config_apply_sets(struct config *c);   // the defaults of the tool sets in c->tools

// The CPU limit of a run that may take `wall_ms`: `asked_ms` of the caller, else --cpu if it is
// set, else all cores busy for the whole time.
uint64_t config_cpu_ms(const struct config *c, uint64_t asked_ms, uint64_t wall_ms);

// The most that a caller may ask for.
uint64_t config_wall_max_ms(const struct config *c);
uint64_t config_cpu_max_ms(const struct config *c);

// Is it the key's default, or one of `values` ("a|b")?
bool config_is_one_of(enum config_key key, const char *text, const char *values);

enum { CONFIG_DESCRIBE_MAX = 256 };

// "a size between 16M and 1T"; for a variable of another server "a number of MiB between ...".
void config_describe(const struct config_option *o, const struct config_env *env,
                     char buf[CONFIG_DESCRIBE_MAX]);

// The value as a file would hold it; a secret is "(set)" or "".  `cap` should be above
// CONFIG_TEXT_MAX.
void config_format(const struct config *c, enum config_key key, char *buf, size_t cap);

// "the environment variable MAX_MEMORY_MB"
void config_format_origin(const struct config *c, enum config_key key, struct config_origin origin,
                          char buf[CONFIG_DESCRIBE_MAX]);

// The key nearest to a misspelt `name`, among those with a bit of `from` and a bit of `commands`,
// or NULL.
const struct config_option *config_nearest(const char *name, unsigned from, unsigned commands);

#endif
