// SPDX-License-Identifier: Apache-2.0
//
// ndjson: the answer to an execution as lines of JSON (or events: lines.h), each sent at once:
//
//   {"text": "...", "stream": "stdout"}      output as it comes; at the end the value of the last
//                                            expression ("result")
//   {"image": "...", "format": "png", ...}   a picture that was shown, in base64
//   {"display": {"text/html": "..."}}        anything else that was shown, with its "text" if any
//   {"error": "NameError: ...", "traceback": ["...", ...]}
//   {"file": {"path", "size", ...}}          a file that is new or changed
//   {"verdict": "ok", "success": true, "execution_id": ..., "execution": {...}}   the last line,
//   with
//                                            the whole object
//
//   1. Output goes through here and is stored, because the last line has all of it.  Both are
//   bounded
//      by the output limit of the run.
//   2. At most NDJSON_BACKLOG and one line wait in the connection for a slow client.
//   3. No half character is sent: its bytes wait for the rest.

#ifndef CONSTRICTOR_REST_NDJSON_H
#define CONSTRICTOR_REST_NDJSON_H

#include <event2/buffer.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "run/run.h"

struct rest_call;
struct ndjson;

enum {
    NDJSON_BACKLOG = 256 * 1024, // above it the client is slow, and output waits
    NDJSON_PIECE = 64 * 1024,    // bytes of output in one line
    NDJSON_LENT = 16 * 1024,     // longer output is written into the last line piece by piece
};

struct ndjson *ndjson_new(struct rest_call *c); // NULL: memory is out
void ndjson_free(struct ndjson *n);

// Whether anything was sent: from then on the status of the answer is 200.
bool ndjson_begun(const struct ndjson *n);

// Takes output.  0, or -1: memory is out.
int ndjson_output(struct ndjson *n, enum run_stream stream, struct evbuffer *data);

// The code waits for a person: a line with the prompt, behind the output.
void ndjson_ask(struct ndjson *n, const char *prompt, size_t length);

// The run has ended: gives it all output back, for its object.
int ndjson_give_back(struct ndjson *n, struct run *r);

// Sends what is left and then these messages; ends the exchange and frees the call.  Takes the
// array; NULL: memory is out, and the stream is cut off.
void ndjson_finish(struct ndjson *n, json_t *messages);

// All messages but the output, for the object of an execution; new.  NULL: memory is out.
json_t *ndjson_messages(json_t *object);
// The message for what went wrong: the error in one line, the lines of the traceback, and more.
json_t *ndjson_error(json_t *object);
// The same for an execution without a run.
json_t *ndjson_refusal(const char *execution_id, const struct err *e);

// How many of the bytes are whole characters.
size_t ndjson_whole(const char *data, size_t length);

#endif
