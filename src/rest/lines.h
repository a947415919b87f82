// SPDX-License-Identifier: Apache-2.0
//
// lines: the messages of a streamed answer, each sent as soon as there is one.  Two forms of the
// same messages:
//
//   application/x-ndjson   a line of JSON each; an empty line keeps an idle connection alive
//   text/event-stream      an event each, with its name, a number that counts up from 1, and the
//   JSON in one line
//                          of `data:`; a comment keeps it alive.  For who says so in the header
//                          Accept.
//
// And one object that is written piece by piece, for a batch that is no stream:
//
//   application/json       {"results": [a message, ...], and the members of the last message}
//
//   1. JSON has no line feed and no carriage return outside of its escapes, so no message breaks
//   its frame.
//   2. What was sent is also noted for the key of the call, if it has one (rest/keys.h), whoever
//   still listens.

#ifndef CONSTRICTOR_REST_LINES_H
#define CONSTRICTOR_REST_LINES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct rest_call;
struct http_exchange;

enum lines_form { LINES_NDJSON, LINES_EVENTS, LINES_OBJECT };

struct lines {
    enum lines_form form;
    bool begun; // the status of the answer is 200 from then on
    bool wrote; // something, since lines_alive()
    unsigned count;
};

enum { LINES_ALIVE_S = 15 }; // proxies cut idle connections, some after 30 s

// What the client wants of the two: events only where it names them, and not JSON lines rather.
void lines_init(struct lines *l, const struct http_exchange *x);
void lines_begin(struct lines *l, struct rest_call *c); // the headers, unless they are sent already
void lines_write(struct lines *l, struct rest_call *c, const char *event,
                 json_t *message); // borrowed
// The same for a message that is text already, which is taken.
void lines_write_text(struct lines *l, struct rest_call *c, const char *event, char *text,
                      size_t length);
// The same in parts, of which the first and the last are said to be it.  The text is taken.
enum { LINES_FIRST = 1, LINES_LAST = 2 };
void lines_write_part(struct lines *l, struct rest_call *c, const char *event, unsigned which,
                      char *text, size_t length);
// The last one.
void lines_write_last(struct lines *l, struct rest_call *c, const char *event, json_t *message);
// Memory is out for a message: the answer ends where the client notices.
void lines_cut(struct rest_call *c);
void lines_alive(struct lines *l, struct rest_call *c);
// Ends the answer and frees the call.
void lines_end(struct lines *l, struct rest_call *c);

// The name of the event for a message of an execution (rest/ndjson.h).
const char *lines_event(const json_t *message);

// Does this header Accept ask for events rather than lines?  Pure.
bool lines_wants_events(const char *accept);

#endif
