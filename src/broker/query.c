// SPDX-License-Identifier: Apache-2.0
//
// query: see query.h.

#include "broker/query.h"

#include <stdio.h>
#include <string.h>

enum {
    HEADER = 12,
    FLAG_ANSWER = 0x8000,
    FLAG_OPCODE = 0x7800,
    FLAG_RECURSION = 0x0100,
    FLAG_CAN_RECURSE = 0x0080,
    CLASS_IN = 1,
    LABEL_MAX = 63,
};

static uint16_t number(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *put(uint8_t *p, unsigned value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
    return p + 2;
}

// Appends one label as text.  SECURITY: a dot or a control character inside a label must not look
// like another name.
static size_t label_text(const uint8_t *label, size_t length, char *text, size_t n)
{
    for (size_t i = 0; i < length; i++) {
        uint8_t c = label[i];
        if (c > 0x20 && c < 0x7f && c != '.' && c != '\\')
            text[n++] = (char)c;
        else
            n += (size_t)snprintf(text + n, QUERY_TEXT - n, "\\%03u", c);
    }
    return n;
}

// The name of a question: labels one after the other, no pointers; 4 characters a byte at most fit.
static size_t read_name(const uint8_t *data, size_t length, char text[QUERY_TEXT])
{
    size_t at = 0, n = 0;
    for (;;) {
        if (at >= length || at >= QUERY_NAME_MAX)
            return 0;
        size_t label = data[at++];
        if (label == 0)
            break;
        if (label > LABEL_MAX || at + label >= length || at + label >= QUERY_NAME_MAX)
            return 0;
        if (n)
            text[n++] = '.';
        n = label_text(data + at, label, text, n);
        at += label;
    }
    text[n] = '\0';
    return at;
}

int query_read(const uint8_t *data, size_t length, struct query *ret)
{
    *ret = (struct query){0};
    if (length < HEADER || number(data + 2) & FLAG_ANSWER)
        return -1;
    ret->id = number(data);
    ret->flags = number(data + 2);
    if (ret->flags & FLAG_OPCODE)
        return QUERY_NOT_DONE;
    if (number(data + 4) != 1 || number(data + 6) || number(data + 8) || number(data + 10) > 1)
        return QUERY_FORMAT;
    size_t n = read_name(data + HEADER, length - HEADER, ret->name);
    if (n == 0 || HEADER + n + 4 > length)
        return QUERY_FORMAT;
    const uint8_t *tail = data + HEADER + n;
    ret->type = number(tail);
    if (number(tail + 2) != CLASS_IN)
        return QUERY_NOT_DONE;
    ret->question_length = n + 4;
    memcpy(ret->question, data + HEADER, n + 4);
    return QUERY_OK;
}

size_t query_answer(const struct query *q, enum query_code code, const uint8_t *address,
                    uint32_t ttl_s, uint8_t ret[QUERY_ANSWER_MAX])
{
    uint8_t *p = put(ret, q->id);
    unsigned kept = q->flags & (FLAG_OPCODE | FLAG_RECURSION);
    p = put(p, FLAG_ANSWER | FLAG_CAN_RECURSE | kept | (unsigned)code);
    p = put(p, q->question_length ? 1 : 0);
    p = put(p, address ? 1 : 0);
    p = put(put(p, 0), 0);
    memcpy(p, q->question, q->question_length);
    p += q->question_length;
    if (address) {
        p = put(p, 0xc000 | HEADER); // the name is the question's
        p = put(put(p, QUERY_A), CLASS_IN);
        p = put(put(p, ttl_s >> 16), ttl_s & 0xffff);
        p = put(p, 4);
        memcpy(p, address, 4);
        p += 4;
    }
    return (size_t)(p - ret);
}
