// SPDX-License-Identifier: Apache-2.0
//
// fields: what a JSON object of a request may hold, as a table of rows.  The same rows check the
// object, describe it in the OpenAPI document and make the input schema of a tool, so that no
// description can differ from what is done.  Pure: touches nothing but its arguments.

#ifndef CONSTRICTOR_EXEC_FIELDS_H
#define CONSTRICTOR_EXEC_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"

enum field_type {
    FIELD_STRING,
    FIELD_NUMBER,
    FIELD_INTEGER,
    FIELD_BOOLEAN,
    FIELD_OBJECT,       // with any keys
    FIELD_TEXTS,        // object of strings; SECURITY: they are secrets, no message has them
    FIELD_OBJECTS,      // array of objects with the fields `items`
    FIELD_STRINGS,      // array of strings
    FIELD_REQUIREMENTS, // a string or an array of strings: env/envs.h checks it
    FIELD_NETWORK,      // "off", rules, or an object of them: run/network.h checks it
    FIELD_TYPE_MAX
};

// Whether min and max are those of the row, or the configuration decides.
enum field_bound {
    BOUND_FIXED,
    BOUND_WALL,
    BOUND_CPU,
    BOUND_MEMORY,
    BOUND_IDLE,
    BOUND_SOURCE,
    BOUND_BUILDS
};

// How a value gets into a struct exec_request: exec/execute.c.
enum field_into {
    INTO_NOTHING, // the caller reads it
    INTO_CODE,
    INTO_TEXT,     // the field at `offset`: const char *, borrowed
    INTO_MS,       // the field at `offset`: uint64_t; the value is in seconds
    INTO_BORROWED, // the field at `offset`: json_t *
    INTO_MEMORY,
    INTO_ISOLATION,
    INTO_FILES,
    INTO_VARIABLES,
    INTO_ENV_VARS,
    INTO_STDIN,
    INTO_STDIN_BASE64,
    INTO_SEED,
    INTO_ARGV,
    INTO_ENVIRONMENT,
    INTO_PACKAGES,
    INTO_NETWORK,
};

struct field {
    const char *name; // NULL, and no `table`: the end
    enum field_type type;
    unsigned on; // surfaces that have this row, see `table`; 0: all
    bool required;
    enum field_bound bound;
    double min, max; // of a number; characters of a string; keys of an object; items of an array
    const struct field *items; // FIELD_OBJECTS
    const char *choices;       // FIELD_STRING: "a|b"; NULL: any
    const char *same_as;       // another name of that field; both at once is an error
    const char *excludes;      // a field that must not be given with this one.  Only the OpenAPI
                               // document uses it; code that reads the field checks it
    const char *pattern; // of the string, of each of FIELD_STRINGS, of the keys of FIELD_OBJECT.
                         // Only the document uses it, as above
    json_t *(*together)(void); // new: a rule for several fields of the table.  Only the document
                               // uses it, as above
    const char *help;          // lower case, without a dot at the end
    const char *tool_help;     // further sentences for the schema of a tool
    double tool_each;          // longest item of FIELD_STRINGS, in the schema of a tool
    enum field_into into;
    size_t offset;
    // In place of all the others: the rows of this table that are on one of the surfaces `on`.
    const struct field *table;
};

// All rows of some surfaces.
struct fields {
    const struct field *rows;
    unsigned on;
};

// Goes through the rows, and those of inner tables.
struct field_walk {
    struct fields outer, inner;
};
const struct field *field_next(struct field_walk *w);
#define FIELD_WALK(fields) ((struct field_walk){.outer = (fields)})
// The items of the row that the walk is at.
struct fields field_items(const struct field_walk *w, const struct field *f);
// All rows of a table that is not shared between surfaces.
#define FIELDS(table) ((struct fields){(table), ~0U})
const struct field *field_find(struct fields all, const char *name); // NULL: there is none

struct field_range {
    double min, max;
    bool has_fallback;
    double fallback;
};
struct field_range field_range(const struct field *f, const struct config *c);

// Is `body` an object of these fields and no others?  An optional field that is null counts as
// absent. 0, or a negative code and `e`, which names the field.
int fields_check(struct fields all, const struct config *c, json_t *body, struct err *e);

// The JSON schema for the OpenAPI document, of one row or of all; new.  NULL: memory is out.
json_t *field_schema(const struct field *f, struct fields items, const struct config *c);
json_t *fields_schema(struct fields all, const struct config *c);
// The input schema of a tool, new: only what every client and every model provider understands.
json_t *fields_tool_schema(struct fields all, const struct config *c);

// A field by its name or by the name of one that is the same; NULL: absent or null.
json_t *field_get(json_t *body, const char *name, const char *other);
const char *field_text(json_t *body, const char *name, const char *other); // NULL: absent
uint64_t field_ms(json_t *body, const char *name, uint64_t fallback_ms);   // seconds in the body

#endif
