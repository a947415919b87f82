// SPDX-License-Identifier: Apache-2.0
// openapi_answers: the rows from which openapi_answers.c makes the schemas of answers.

#ifndef CONSTRICTOR_REST_OPENAPI_ANSWERS_H
#define CONSTRICTOR_REST_OPENAPI_ANSWERS_H

// A type is a JSON type, the name of an object below, or "[NAME]" for an array of them.  A '?' at
// the end: may be null.  A '-' before the help: not always there.
struct answer_field {
    const char *name, *type, *help;
};

struct answer {
    const char *name, *help; // NULL ends a list
    struct answer_field fields[48];
};

// What only a page asks for: openapi_page.c.
extern const struct answer page_answers[];

#endif
