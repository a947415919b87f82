// SPDX-License-Identifier: Apache-2.0
//
// porter: see porter.h.  The process: one thread, one request at a time; during long requests it
// checks for cancellation.

#include "porter/porter.h"

#include <signal.h>

#include "base/log.h"
#include "box/seal.h"
#include "porter/gate_link.h"
#include "porter/requests.h"

static void serve(struct porter *p)
{
    while (!p->stop) {
        gate_link_receive(p);
        if (p->stop)
            return;
        if (TAILQ_EMPTY(&p->queue))
            gate_link_wait(p);
        else
            requests_do_next(p);
    }
}

static struct seal_plan make_seal_plan(const struct keeper_facts *facts, int *sock, int *parent,
                                       int *folder)
{
    struct seal_plan p = facts_seal_plan(facts, "porter", SLOT_PORTER);
    p.keep[p.keep_count++] = sock;
    p.keep[p.keep_count++] = parent;
    p.keep[p.keep_count++] = folder;
    p.group = facts->environments->wheels_group;
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
    int parent = facts->environments->folder, folder = facts->environments->wheels;
    *p = (struct porter){
        .keeper = sock, .gate = -1, .wheels = {.parent = -1, .folder = -1, .lock = -1}};
    TAILQ_INIT(&p->queue);
    log_init((enum log_level)facts->config->log_level, "constrictor porter");
    struct seal_plan plan = make_seal_plan(facts, &p->keeper, &parent, &folder);
    int r = seal_identity(&plan, &e);
    if (r == 0)
        r = wheels_open(&p->wheels, parent, folder, facts->environments->number, &e);
    // SECURITY: only the wheels: the rest of the folder, with the gate's database, is out of reach.
    plan.folder = p->wheels.folder;
    if (r == 0)
        r = seal_reach(&plan, &e);
    if (r < 0) {
        log_err(LOG_ERROR, &e);
        return err_exit_status(e.code);
    }
    if (wheels_sweep(&p->wheels, &e) < 0)
        log_err(LOG_WARN, &e); // what is left is removed at the next start
    serve(p);
    gate_link_close(p);
    wheels_close(&p->wheels);
    return 0;
}
