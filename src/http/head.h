// SPDX-License-Identifier: Apache-2.0
//
// head: a strict reader of the head of an HTTP/1 request, and of the frame of a chunked body.
// Called by conn.c on untrusted bytes before libevent's own reader sees them; touches nothing but
// its arguments.
//
// libevent is lenient where leniency lets two readers see two different requests (a NUL byte in a
// line, a folded line, a bare line feed, two lengths, "+5" as the size of a chunk).  What passes
// here, both readers and any proxy in front read alike.

#ifndef CONSTRICTOR_HTTP_HEAD_H
#define CONSTRICTOR_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    HEAD_MAX = 32 * 1024,  // bytes, request line and all
    HEAD_FIELDS_MAX = 100, // headers; real clients send about 15
};

struct slice {
    const char *p; // NULL: absent; not NUL-terminated
    size_t n;
};

bool slice_is(struct slice s, const char *text);    // the same bytes
bool slice_is_nc(struct slice s, const char *text); // but for the case of ASCII letters
// Takes the next item of a comma-separated list off `list`; false at its end.  Empty items are
// skipped.
bool slice_next(struct slice *list, struct slice *ret_item);

// Headers that may come once only.  Those of MCP are not in the list: none of them may come twice.
enum head_field {
    HEAD_HOST,
    HEAD_CONTENT_LENGTH,
    HEAD_TRANSFER_ENCODING,
    HEAD_CONTENT_TYPE,
    HEAD_AUTHORIZATION,
    HEAD_API_KEY,
    HEAD_ORIGIN,
    HEAD_EXPECT,
    HEAD_LAST_EVENT_ID,
    HEAD_WANT_METHOD,  // Access-Control-Request-Method
    HEAD_WANT_HEADERS, // Access-Control-Request-Headers
    HEAD_FIELD_MAX
};

struct head {
    struct slice method, target;
    struct slice field[HEAD_FIELD_MAX]; // values, without blanks at their ends
    bool old;                           // HTTP/1.0
    bool close;                         // Connection: close
    bool chunked;                       // the body comes in chunks,
    uint64_t length;                    // else it has this many bytes
    bool wait;                          // Expect: 100-continue
    bool events;                        // Accept names text/event-stream
};

struct head_fault {
    int status;          // of the answer
    const char *code;    // stable
    const char *message; // what is wrong
};

// How far a head that arrives in pieces was read; all zero at its beginning.
struct head_scan {
    size_t seen, line; // bytes read; where the current line begins
};

// Looks for the end of the head in the `n` bytes at `data`, of which all before s->seen are
// unchanged since the last call.  Returns its length, 0: not yet here, or -1: it will never be a
// head.
ssize_t head_find_end(struct head_scan *s, const char *data, size_t n, struct head_fault *fault);

// Reads a whole head.  The slices point into `data`.  0, or -1 and the fault.
int head_parse(const char *data, size_t n, struct head *ret, struct head_fault *fault);

// HTTP/1.0 has no Host, and balancers ask for the health that way.  A browser always sends one.
bool head_may_lack_host(const struct head *h);

// ---- bodies in chunks --------------------------------------------------------------------------

struct chunks {
    int state;
    unsigned digits;   // of the size of this chunk
    uint64_t left;     // of this chunk
    uint64_t body;     // bytes of the body so far
    uint64_t overhead; // bytes of the frame so far
    uint64_t max;      // for each of the two
};

// How many bytes of data come next; 0: bytes of the frame do.
uint64_t chunks_data(const struct chunks *c);
// Follows the frame over the next `n` bytes.  Returns 0: more comes, 1: the body ended after
// *ret_used of them, -1 and the fault.  Extensions and trailers are refused: no client sends them,
// and a trailer would add fields after the door has let the request in.  Bytes of data are not
// looked at.
int chunks_feed(struct chunks *c, const char *data, size_t n, size_t *ret_used,
                struct head_fault *fault);

#endif
