// SPDX-License-Identifier: Apache-2.0
//
// request: parses HTTP/1 requests as they pass on a connection: where a head begins, what it says,
// where its body ends.  Called by inspect.c; touches nothing but its arguments.  Fuzzed by
// tests/fuzz/fuzz_request.c.
//
// SECURITY: strict.  What two servers could read in two ways (two lengths, a folded line, a bare
// line feed, a blank before a colon, an absolute target) is refused: else a second request could
// hide in the body of the first (request smuggling) and escape judgement.

#ifndef CONSTRICTOR_BROKER_REQUEST_H
#define CONSTRICTOR_BROKER_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/rules.h"

enum {
    REQUEST_HEAD_MAX = 32 * 1024,
    REQUEST_METHOD_MAX = 32,
    REQUEST_TARGET_MAX = 8192,
    REQUEST_LINE_MAX = 1024, // of a chunk's size with extensions, and of a trailer
    REQUEST_TRAILERS_MAX = 8192,
};

enum request_state {
    REQUEST_IN_HEAD,
    REQUEST_IN_BODY,    // `left` bytes of it
    REQUEST_IN_SIZE,    // a chunk's size
    REQUEST_IN_CHUNK,   // `left` bytes, with the line's end behind them
    REQUEST_IN_TRAILER, // until an empty line
};

struct request { // zeroes: before the first one
    enum request_state state;
    uint64_t left;
    size_t scanned;     // bytes of a head that are known to have no end in them
    size_t line, total; // length of this line so far, and of all trailers
    bool digits, extension, cr;
};

struct request_head {
    char method[REQUEST_METHOD_MAX + 1];
    char path[REQUEST_TARGET_MAX + 1]; // without the query
    char host[NET_HOST_MAX + 1]; // normalised, without port; "" when there is none or an address
    char host_text[NET_HOST_MAX + 16]; // as it was written, for messages
    bool plain;                        // the path means the same to every server
    bool upgrade, websocket;
};

enum request_look { REQUEST_LOOK_MORE, REQUEST_LOOK_NO, REQUEST_LOOK_YES };

// The first line of what is no request by its beginning, as it passes.  Zeroes: before it.
struct request_line {
    bool in_word;
    size_t matched; // characters of "HTTP/" that its last word begins with; more: it does not
};

// Reads up to a line feed; *ret_end: there is one.  Does the line end with a word that begins with
// HTTP/ ?
bool request_line_names_http(struct request_line *l, const uint8_t *data, size_t length,
                             bool *ret_end);

// Are these the first bytes of an HTTP/1 connection?  YES also for what is not quite a request:
// that is found out by request_next.
enum request_look request_look(const uint8_t *data, size_t length);

enum request_step {
    REQUEST_MORE, // the head is not all there; nothing was used
    REQUEST_HEAD, // *ret_used bytes are a head, which is in `head`
    REQUEST_BODY, // *ret_used bytes belong to the body
    REQUEST_BAD,  // *ret_why says why
};

enum request_step request_next(struct request *r, const uint8_t *data, size_t length,
                               struct request_head *head, size_t *ret_used, const char **ret_why);

#endif
