// SPDX-License-Identifier: Apache-2.0
//
// box_question_parse: parses and checks a question of box_question.h.  Called by
// box_question.c; touches nothing but its arguments. Fuzzed by tests/fuzz/fuzz_ask.c.

#ifndef CONSTRICTOR_BROKER_BOX_QUESTION_PARSE_H
#define CONSTRICTOR_BROKER_BOX_QUESTION_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "net/address.h"

enum { QUESTION_WORDS_MAX = 5 };

enum question_kind {
    QUESTION_WHY,
    QUESTION_CONNECT,
    QUESTION_TAKEN,
    QUESTION_CLOSED,
    QUESTION_UDP,
    QUESTION_RAW,
    QUESTION_MAX_KINDS
};

struct box_question {
    enum question_kind kind;
    char *word[QUESTION_WORDS_MAX];
    struct net_address address; // of connect and note udp
    uint16_t port;
};

// `text` has room for one byte more than `length`, and is cut into words.  0, or -1: an unknown
// question.
int box_question_parse(char *text, size_t length, struct box_question *ret);

#endif
