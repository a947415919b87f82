// SPDX-License-Identifier: Apache-2.0
//
// editor: see editor.h.

#include "cli/editor.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "keeper/interp.h"
#include "keeper/zygote.h"

enum { SOCK_FD = 3 };

static _Noreturn void become_editor(int sock, const struct interp *interp, const char *script)
{
    // Without `site` no .pth file of an installed package runs here; -I ignores PYTHON* and the
    // current folder.
    const char *const argv[] = {interp->executable, "-I", "-S", script, NULL};
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (dup3(sock, SOCK_FD, 0) >= 0) // sock is the second of a pair, so above SOCK_FD
        (void)execv(argv[0], (char *const *)argv);
    _exit(127);
}

int editor_start(struct editor *k, const struct config *c, struct err *e)
{
    static struct interp interp; // large
    char side[PATH_MAX], script[PATH_MAX + 32];
    int pair[2];
    *k = (struct editor){.sock = -1};
    if (interp_ask(c->python, &interp, e) < 0 || zygote_find_python_side(side, sizeof side, e) < 0)
        return -1;
    snprintf(script, sizeof script, "%s/line_editor.py", side);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "socketpair");
    k->is_terminal = tcgetattr(STDIN_FILENO, &k->modes) == 0;
    (void)fflush(NULL);
    k->pid = fork();
    if (k->pid == 0) {
        (void)close(pair[0]); // may be SOCK_FD
        become_editor(pair[1], &interp, script);
    }
    (void)close(pair[1]);
    k->sock = pair[0];
    if (k->pid > 0)
        return 0;
    k->pid = 0;
    return err_set(e, ERR_SYSTEM, errno, NULL, "start the line editor");
}

void editor_end(struct editor *k)
{
    if (k->pid <= 0)
        return;
    fd_close(&k->sock);
    // It has read the end, and saves the history; if it waits for a line instead, the gate died.
    for (int i = 0; i < 100 && waitpid(k->pid, NULL, WNOHANG) == 0; i++)
        (void)usleep(10 * 1000);
    (void)kill(k->pid, SIGKILL);
    while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    k->pid = 0;
    (void)signal(SIGTTOU, SIG_IGN); // the terminal may have another process in front by now
    if (k->is_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &k->modes);
}

// ---- in the gate --------------------------------------------------------------------------------

struct asking {
    struct event_base *base;
    uint32_t head[2]; // kind and length
    size_t have;      // bytes of head and text together
    struct editor_text *text;
    bool is_done;
};

// Reads what there is.  False: wait for more.
static bool take(struct asking *a, int sock)
{
    bool in_head = a->have < sizeof a->head;
    char *at = in_head ? (char *)a->head + a->have : a->text->text + (a->have - sizeof a->head);
    size_t want = in_head ? sizeof a->head - a->have : sizeof a->head + a->head[1] - a->have;
    ssize_t n = recv(sock, at, want, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n <= 0)
        return true; // it is gone: an end
    a->have += (size_t)n;
    if (in_head && a->have == sizeof a->head) {
        a->text->text = a->head[1] <= EDITOR_BYTES_MAX ? calloc(1, a->head[1] + 1) : NULL;
        if (!a->text->text)
            return true;
    }
    if (a->have < sizeof a->head + a->head[1])
        return false;
    a->text->kind = a->head[0];
    a->text->length = a->head[1];
    return true;
}

static void on_text(evutil_socket_t sock, short what, void *argument)
{
    struct asking *a = argument;
    (void)what;
    a->is_done = take(a, sock);
    if (a->is_done)
        (void)event_base_loopbreak(a->base);
}

void editor_ask(struct gate *g, int sock, struct editor_text *ret)
{
    struct asking a = {.base = g->base, .text = ret};
    *ret = (struct editor_text){.kind = EDITOR_END};
    struct event *ready = event_new(g->base, sock, EV_READ | EV_PERSIST, on_text, &a);
    if (ready && event_add(ready, NULL) == 0 && fd_write_all(sock, "?", 1) == 0) {
        (void)event_base_loop(g->base,
                              EVLOOP_NONBLOCK); // forgets that the last run broke the loop
        if (!a.is_done)
            gate_dispatch(g);
    }
    if (ready)
        event_free(ready);
}

void editor_free(struct editor_text *t)
{
    free(TAKE_PTR(t->text));
}
