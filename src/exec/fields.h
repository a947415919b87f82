// SPDX-License-Identifier: Apache-2.0
//
// fields: what the JSON body of a request may hold, as a table of rows.  The same rows check a body
// and describe it in the OpenAPI document, so that the document cannot say anything else than what
// is done. Pure: touches nothing but its arguments.  Called by rest/call.c and rest/openapi.c in
// the gate.

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

struct field {
    const char *name; // NULL ends a table
    enum field_type type;
    bool required;
    enum field_bound bound;
    double min, max; // of a number; characters of a string; keys of an object; items of an array
    const struct field *items; // FIELD_OBJECTS
    const char *choices;       // FIELD_STRING: "a|b"; NULL: any
    const char *same_as;       // another name of that field; both at once is an error
    const char *excludes;      // the same for another field: for the document, others check it
    const char *pattern; // of the string, of each of FIELD_STRINGS, of the keys of FIELD_OBJECT:
                         // others check it
    json_t *(*together)(
        void); // new: what the fields of the table must be together: others check it
    const char *help;
};

struct field_range {
    double min, max;
    bool has_fallback;
    double fallback;
};
struct field_range field_range(const struct field *f, const struct config *c);

// Is `body` an object of these fields and no others?  An optional field that is null counts as
// absent. 0, or a negative code and `e`, which names the field.
int fields_check(const struct field *table, const struct config *c, json_t *body, struct err *e);

// The JSON schema of a table, or of one row, new; NULL: memory is out.
json_t *field_schema(const struct field *f, const struct config *c);
json_t *fields_schema(const struct field *table, const struct config *c);

// A field by its name or by the name of one that is the same; NULL: absent or null.
json_t *field_get(json_t *body, const char *name, const char *other);
const char *field_text(json_t *body, const char *name, const char *other); // NULL: absent
uint64_t field_ms(json_t *body, const char *name, uint64_t fallback_ms);   // seconds in the body

#endif
