// SPDX-License-Identifier: Apache-2.0
//
// box_question_parse: see box_question_parse.h.

#include "broker/box_question_parse.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

static const struct {
    enum question_kind kind;
    size_t count;
    const char *first, *second; // NULL: anything
    const char *last[2];        // one of them; NULL: anything
    size_t address;             // which word, a port follows; 0: none
} forms[] = {
    {QUESTION_WHY, 2, "why", NULL, {NULL, NULL}, 0},
    {QUESTION_CONNECT, 4, "connect", NULL, {"wait", "now"}, 1},
    {QUESTION_TAKEN, 2, "taken", NULL, {NULL, NULL}, 0},
    {QUESTION_CLOSED, 2, "closed", NULL, {NULL, NULL}, 0},
    {QUESTION_UDP, 4, "note", "udp", {NULL, NULL}, 2},
    {QUESTION_RAW, 5, "note", "raw", {NULL, NULL}, 0},
};

static size_t split(char *text, size_t length, char *words[QUESTION_WORDS_MAX])
{
    size_t n = 0;
    text[length] = '\0';
    if (memchr(text, '\0', length))
        return 0;
    for (char *next = text; next; n++) {
        if (n == QUESTION_WORDS_MAX)
            return 0;
        words[n] = next;
        next = strchr(next, ' ');
        if (next)
            *next++ = '\0';
        if (!words[n][0])
            return 0; // single blanks
    }
    return n;
}

static bool is(const char *wanted, const char *word)
{
    return !wanted || strcmp(wanted, word) == 0;
}

int box_question_parse(char *text, size_t length, struct box_question *ret)
{
    *ret = (struct box_question){0};
    size_t count = length ? split(text, length, ret->word) : 0;
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (count != forms[i].count || !is(forms[i].first, ret->word[0]) ||
            !is(forms[i].second, ret->word[1]))
            continue;
        const char *last = ret->word[count - 1];
        if (!is(forms[i].last[0], last) && !is(forms[i].last[1], last))
            continue;
        uint64_t port = 0;
        size_t a = forms[i].address;
        if (a && (net_address_parse(ret->word[a], &ret->address) < 0 ||
                  text_parse_u64(ret->word[a + 1], 1, UINT16_MAX, &port) < 0))
            return -1;
        ret->port = (uint16_t)port;
        ret->kind = forms[i].kind;
        return 0;
    }
    return -1;
}
