// SPDX-License-Identifier: Apache-2.0
//
// porter: see porter.h.  The process: one thread, one job after the other, and between the pieces
// of a job an ear for whoever cancels it.

#include "porter/porter.h"

#include "base/fd.h"
#include "base/log.h"
#include "porter/desk.h"
#include "porter/jobs.h"
#include "porter/seal.h"

static void serve(struct porter *p)
{
    while (!p->stop) {
        desk_hear(p);
        if (p->stop)
            return;
        if (TAILQ_EMPTY(&p->queue))
            desk_wait(p);
        else
            jobs_do_next(p);
    }
}

int porter_main(int sock, const struct keeper_facts *facts)
{
    static struct porter porter; // large
    struct porter *p = &porter;
    struct err e;
    int folder = facts->environments->folder, shelves = facts->environments->layers;
    *p = (struct porter){.keeper = sock, .gate = -1, .shelf = {.folder = -1, .layers = -1}};
    TAILQ_INIT(&p->queue);
    log_init((enum log_level)facts->config->log_level, "constrictor porter");
    int r = seal_porter(facts, &p->keeper, &folder, &shelves, &e);
    if (r == 0)
        r = shelf_open(&p->shelf, folder, shelves, &e);
    if (r == 0)
        r = seal_porter_rest(facts, p->shelf.layers, &e);
    if (r < 0) {
        log_err(LOG_ERROR, &e);
        return err_exit_status(e.code);
    }
    if (shelf_sweep(&p->shelf, &e) < 0)
        log_err(LOG_WARN, &e); // it is in nobody's way
    serve(p);
    desk_close(p);
    shelf_close(&p->shelf);
    return 0;
}
