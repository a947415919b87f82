// SPDX-License-Identifier: Apache-2.0
//
// box_question_parse: a question of ask.h, taken apart and checked.  Called by ask.c; touches nothing but
// its arguments. Fuzzed by tests/fuzz/fuzz_ask.c.

#ifndef CONSTRICTOR_BROKER_BOX_QUESTION_PARSE_H
#define CONSTRICTOR_BROKER_BOX_QUESTION_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "net/address.h"

enum { ASK_WORDS_MAX = 5 };

enum ask_kind { ASK_WHY, ASK_CONNECT, ASK_TAKEN, ASK_CLOSED, ASK_UDP, ASK_RAW, ASK_MAX_KINDS };

struct ask_words {
    enum ask_kind kind;
    char *word[ASK_WORDS_MAX];
    struct net_address address; // of connect and note udp
    uint16_t port;
};

// `text` has room for one byte more than `length`, and is cut into words.  0, or -1: no such
// question.
int ask_words_read(char *text, size_t length, struct ask_words *ret);

#endif
