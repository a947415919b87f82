// SPDX-License-Identifier: Apache-2.0
//
// run_stdin: see run_stdin.h.  Runs in the gate, but for run_stdin_look().  The box asks for each
// piece (run/feed.c), so an endless stdin is never more than a piece in memory.

#include "cli/run_stdin.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "run/gate.h"
#include "wire/frame.h"

enum { NULL_MAJOR = 1, NULL_MINOR = 3 };

enum run_stdin_kind run_stdin_look(bool is_code, bool is_notebook)
{
    struct stat st;
    if (is_code)
        return RUN_STDIN_CODE;
    if (isatty(STDIN_FILENO))
        return RUN_STDIN_TERMINAL;
    if (fstat(STDIN_FILENO, &st) < 0 ||
        (S_ISCHR(st.st_mode) && st.st_rdev == makedev(NULL_MAJOR, NULL_MINOR)))
        return RUN_STDIN_NONE;
    if (is_notebook)
        return RUN_STDIN_CELLS;
    return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ? RUN_STDIN_STREAM : RUN_STDIN_FILE;
}

// ---- in the gate --------------------------------------------------------------------------------

static struct exec *reader; // the run that waits for stdin; one at a time
static struct event *ready;

// An error is the end, too: in the background nothing can be read from a terminal (EIO).
static void feed(struct exec *x)
{
    char data[FRAME_DATA_MAX];
    ssize_t n;
    do
        n = read(STDIN_FILENO, data, sizeof data);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EIO)
        fprintf(stderr, "constrictor: warning: cannot read stdin: %s\n", strerror(errno));
    if (x->run)
        (void)run_feed(x->run, data, n > 0 ? (size_t)n : 0);
}

static void on_ready(evutil_socket_t fd, short what, void *argument)
{
    struct exec *x = reader;
    // Another reader of the same pipe may have been faster, and then read() would wait.
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)what;
    (void)argument;
    if (x && poll(&p, 1, 0) > 0)
        feed(x);
    else if (x)
        (void)event_add(ready, NULL);
}

static void await(struct exec *x)
{
    reader = x;
    if (!ready)
        ready = event_new(x->gate->base, STDIN_FILENO, EV_READ, on_ready, NULL);
    if (!ready || event_add(ready, NULL) < 0)
        feed(x);
}

void run_stdin_stop(void)
{
    reader = NULL;
    if (ready)
        (void)event_del(ready);
}

static void on_ask(struct exec *x, const char *prompt, size_t length)
{
    if (!x->request.on_output) // else it is in the output
        (void)fwrite(prompt, 1, length, stderr);
    await(x);
}

void run_stdin_add(enum run_stdin_kind kind, struct exec_request *q)
{
    q->has_stdin = q->stdin_open = kind >= RUN_STDIN_FILE;
    switch (kind) {
    case RUN_STDIN_NONE:
        q->no_stdin = "EOF when reading a line: this run has no stdin; redirect some: "
                      "constrictor run FILE < DATA";
        break;
    case RUN_STDIN_CODE:
        q->no_stdin = "EOF when reading a line: stdin had the code; put that into a file and "
                      "redirect stdin: constrictor run FILE < DATA";
        break;
    case RUN_STDIN_CELLS:
        q->no_stdin = "EOF when reading a line: cells read stdin only from a terminal; bring data "
                      "along as a file: --in FILE";
        break;
    case RUN_STDIN_FILE: q->on_hungry = feed; break;
    case RUN_STDIN_STREAM: q->on_hungry = await; break;
    case RUN_STDIN_TERMINAL:
        (void)signal(SIGTTIN, SIG_IGN); // in the background: no person, EIO
        q->on_ask = on_ask;
        break;
    }
}
