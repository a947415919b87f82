// SPDX-License-Identifier: Apache-2.0
//
// lines: the messages of a streamed answer, each sent at once, in one of two forms:
//
//   application/x-ndjson   a line of JSON for each; an empty line keeps an idle connection alive
//   text/event-stream      an event for each: its name, a number that counts up from 1, and in one
//                          line of `data:` the JSON; a comment keeps an idle connection alive.
//                          For clients whose header Accept asks for it
//
// And one object that is written piece by piece, for a batch without a stream:
//
//   application/json       {"results": [a message, ...], and the members of the last message}
//
//   1. A message cannot break its frame: JSON has line feeds and carriage returns only as escapes.
//   2. All messages are also stored for the key of the call, if it has one (rest/keys.h), even when
//      no client listens any more.

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
    bool begun; // the status 200 is sent
    bool wrote; // wrote something since lines_alive()
    unsigned count;
};

enum { LINES_ALIVE_S = 15 }; // proxies cut idle connections, some after 30 s

// Picks the form: events only if the client names them, and does not prefer JSON lines.
void lines_init(struct lines *l, const struct http_exchange *x);
void lines_begin(struct lines *l, struct rest_call *c); // sends the headers, once
void lines_write(struct lines *l, struct rest_call *c, const char *event,
                 json_t *message); // borrowed
// The same for a message that is already text, which is taken.
void lines_write_text(struct lines *l, struct rest_call *c, const char *event, char *text,
                      size_t length);
// The same in parts; the flags mark the first and the last one.  The text is taken.
enum { LINES_FIRST = 1, LINES_LAST = 2 };
void lines_write_part(struct lines *l, struct rest_call *c, const char *event, unsigned which,
                      char *text, size_t length);
// The last message.
void lines_write_last(struct lines *l, struct rest_call *c, const char *event, json_t *message);
// Memory is out for a message: ends the answer so that the client notices.
void lines_cut(struct rest_call *c);
void lines_alive(struct lines *l, struct rest_call *c);
// Ends the answer and frees the call.
void lines_end(struct lines *l, struct rest_call *c);

// The name of the event for a message of an execution (rest/ndjson.h).
const char *lines_event(const json_t *message);

// Does this header Accept ask for events rather than lines?  Pure.
bool lines_wants_events(const char *accept);

#endif
