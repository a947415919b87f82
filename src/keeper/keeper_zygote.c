// SPDX-License-Identifier: Apache-2.0
//
// keeper_zygote: how the keeper supervises the zygote.  It starts one, waits until it is warm,
// replaces one that ended, and after a failure tries again with growing pauses.  Meanwhile the gate
// gets the reason in place of boxes.

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/announce.h"
#include "keeper/keeper_internal.h"
#include "keeper/poller.h"

enum { RETRY_FIRST_MS = 1000, RETRY_LAST_MS = 30000 }; // the pause after a failure; it doubles

static void zygote_close(struct keeper *k)
{
    if (k->zygote.sock >= 0)
        (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.sock, NULL);
    if (k->zygote.log >= 0)
        (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.log, NULL);
    zygote_stop(&k->zygote);
}

static int watch_zygote(struct keeper *k, struct err *e)
{
    if (keeper_watch_fd(k, k->zygote.sock, TAG_ZYGOTE) < 0 ||
        keeper_watch_fd(k, k->zygote.log, TAG_LOG) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "epoll_ctl");
    return 0;
}

static int find_interp(struct keeper *k, struct err *e)
{
    // A script may take its time to start the interpreter; a signal does not wait for it.
    int r =
        k->has_interp ? 0 : interp_ask_until(k->plan->config->python, &k->interp, k->signals, e);
    k->has_interp = r == 0;
    return r;
}

// Starts a zygote without waiting until it is warm.
static int begin_zygote(struct keeper *k, struct err *e)
{
    k->state = KEEPER_WARMING;
    int r = zygote_begin(&k->zygote, k->plan->config, &k->caps, &k->interp,
                         keeper_porter_environments(&k->porter), k->plan->shares, k->plan->cold, e);
    if (r == 0)
        r = watch_zygote(k, e);
    return r;
}

static void zygote_warm(struct keeper *k)
{
    k->state = KEEPER_READY;
    k->retry_ms = 0;
    k->stock.zygote_sock = k->zygote.sock;
    announce_ready(&k->stock, &k->zygote);
    notify_say(&k->notify, "READY=1\nSTATUS=boxes are ready");
    keeper_serve_pending(k);
    stock_refill(&k->stock);
}

int keeper_zygote_start(struct keeper *k, struct err *e)
{
    int r = find_interp(k, e);
    if (r == 0)
        zygote_fit_uids(k->plan->config, &k->caps, &k->interp); // the gate needs the result
    if (r < 0 || k->plan->start == KEEPER_JAIL_FIRST)
        return r < 0 ? r : begin_zygote(k, e);
    r = zygote_start(&k->zygote, k->plan->config, &k->caps, &k->interp,
                     keeper_porter_environments(&k->porter), k->plan->shares, k->plan->cold, e);
    if (r == 0)
        r = watch_zygote(k, e);
    if (r == 0)
        zygote_warm(k); // makes boxes while the gate starts
    if (k->plan->cold)
        stock_no_more(&k->stock); // there will be no second run
    return r;
}

// Waiting and later requests get the reason; the keeper tries again after a while.
static void zygote_failed(struct keeper *k, struct err *e)
{
    zygote_close(k);
    caps_explain(k->plan->config, e);
    if (strcmp(e->message, k->error.message) != 0)
        log_err(LOG_ERROR, e);
    k->error = *e;
    k->state = KEEPER_FAILED;
    k->retry_ms = k->retry_ms == 0                  ? RETRY_FIRST_MS
                  : k->retry_ms < RETRY_LAST_MS / 2 ? k->retry_ms * 2
                                                    : RETRY_LAST_MS;
    k->retry_at_ms = clock_ms() + k->retry_ms;
    announce_failed(&k->stock, &k->error);
    keeper_serve_pending(k);
}

void keeper_zygote_try(struct keeper *k)
{
    struct err e;
    bool known = k->has_interp;
    int r = find_interp(k, &e);
    if (r == 0 && !known)
        announce_interpreter(&k->stock, &k->interp);
    if (r == 0)
        r = begin_zygote(k, &e);
    if (r == -ECANCELED)
        k->state = KEEPER_WARMING; // a signal is more urgent; the timer tries again
    else if (r < 0)
        zygote_failed(k, &e);
}

static void look_at_zygote(struct keeper *k)
{
    struct err e;
    if (k->zygote.sock < 0) {
        keeper_zygote_try(k);
        return;
    }
    int r = zygote_look(&k->zygote, &e);
    if (r > 0)
        zygote_warm(k);
    else if (r < 0)
        zygote_failed(k, &e);
}

void keeper_zygote_tick(struct keeper *k)
{
    if (k->state == KEEPER_WARMING)
        look_at_zygote(k); // it may have taken too long
    else if (k->state == KEEPER_FAILED && clock_ms() >= k->retry_at_ms)
        keeper_zygote_try(k);
}

static void zygote_lost(struct keeper *k)
{
    log_line(LOG_ERROR, "the zygote ended and its boxes with it; starting a new one");
    zygote_close(k);
    stock_zygote_lost(&k->stock);
    keeper_zygote_try(k);
}

void keeper_zygote_hear(struct keeper *k)
{
    if (k->state == KEEPER_WARMING && k->zygote.sock >= 0) {
        look_at_zygote(k);
        return;
    }
    // A bound, as for the gate.
    for (int i = 0; i < 64 && k->state == KEEPER_READY; i++) {
        int r = stock_hear(&k->stock, STOCK_NO_SLOT);
        if (r < 0)
            zygote_lost(k);
        if (r <= 0)
            return;
    }
}

void keeper_zygote_log(struct keeper *k)
{
    char text[1024];
    if (k->state == KEEPER_WARMING) {
        if (!zygote_hear(&k->zygote))
            (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.log, NULL);
        return;
    }
    ssize_t n = read(k->zygote.log, text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        log_line(LOG_INFO, "zygote: %s", text);
    } else if (n == 0) {
        (void)poller_ctl(k->epoll, EPOLL_CTL_DEL, k->zygote.log, NULL);
    }
}
