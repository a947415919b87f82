// SPDX-License-Identifier: Apache-2.0
//
// compare: whether the output of a program is the expected one, for the tests of a batch.  Pure.

#ifndef CONSTRICTOR_REST_COMPARE_H
#define CONSTRICTOR_REST_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

enum compare_mode {
    COMPARE_EXACT,  // the same text, but for line feeds at the end
    COMPARE_TOKENS, // the same words, whatever blanks are between them
    COMPARE_FLOAT,  // the same words; numbers may differ by the tolerance, relative above 1
};

// "exact", "tokens" or "float".
enum compare_mode compare_mode_of(const char *word);

bool compare_texts(enum compare_mode mode, double tolerance, const char *got, size_t got_length,
                   const char *expected, size_t expected_length);

#endif
