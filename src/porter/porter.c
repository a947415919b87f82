// SPDX-License-Identifier: Apache-2.0
//
// porter: see porter.h.  The process: one thread, one job after the other, and between the pieces
// of a job an ear for whoever cancels it.

#include "porter/porter.h"

#include <signal.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/log.h"
#include "box/seal.h"
#include "porter/gate_link.h"
#include "porter/requests.h"

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

static struct seal_plan make_seal_plan(const struct keeper_facts *facts, int *sock, int *folder,
                                       int *shelves)
{
    struct seal_plan p = facts_seal_plan(facts, "porter", SLOT_PORTER);
    p.keep[p.keep_count++] = sock;
    p.keep[p.keep_count++] = folder;
    p.keep[p.keep_count++] = shelves;
    p.ignored_signals[0] = SIGPIPE; // an export into a pipe
    p.ignored_signals[1] = SIGXFSZ; // a file beyond a limit of its size: EFBIG
    p.files = SEAL_FILES_OF_TREE;
    p.filter = FILTER_PORTER;
    return p;
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
    (void)umask(0022); // boxes have other uids, and read what the porter writes
    struct seal_plan plan = make_seal_plan(facts, &p->keeper, &folder, &shelves);
    int r = seal_identity(&plan, &e);
    if (r == 0)
        r = shelf_open(&p->shelf, folder, shelves, &e);
    // SECURITY: only the wheels: the rest of the folder, with the gate's database, is out of reach.
    plan.folder = p->shelf.layers;
    if (r == 0)
        r = seal_reach(&plan, &e);
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
