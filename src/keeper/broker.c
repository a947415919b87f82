// SPDX-License-Identifier: Apache-2.0
//
// keeper_broker: see broker.h.

#include "keeper/broker.h"

#include "config/code_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/policy.h"

enum { NETWORK_ON = 1 }; // among the choices of --network

static int open_network_file(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? err_set(e, ERR_BAD_VALUE, errno, "see --network-file", "open '%s'", path) : fd;
}

// SECURITY: a link in a folder that others write to would append to a file of their choice.
static int open_audit_file(const char *path, struct err *e)
{
    struct stat st;
    int fd = open(
        path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return err_set(e, ERR_BAD_VALUE, errno, "choose another --audit-file", "open '%s'", path);
    if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)) {
        (void)close(fd);
        return err_set(e, ERR_BAD_VALUE, 0, "choose another --audit-file",
                       "'%s' is not a file that lines can be appended to", path);
    }
    (void)fd_set_nonblock(fd, false);
    return fd;
}

int keeper_broker_open(struct keeper_broker *b, const struct keeper_plan *plan, struct stock *stock,
                       int epoll, struct err *e)
{
    const struct config *c = plan->config;
    *b = (struct keeper_broker){.helper = {.name = "broker",
                                           .process = "constrictor-net",
                                           .main = plan->broker,
                                           .stock = stock,
                                           .queue = &stock->broker,
                                           .link = WIRE_NET_LINK,
                                           .epoll = epoll},
                                .network_file = -1,
                                .audit_file = -1};
    helper_init(&b->helper);
    b->helper.asleep =
        !net_is_on(c); // there for installing only: the first box that needs it wakes it
    if (!plan->broker)
        return 0;
    if (c->network_file[0] && (b->network_file = open_network_file(c->network_file, e)) < 0)
        return b->network_file;
    if (c->audit_file[0] && (b->audit_file = open_audit_file(c->audit_file, e)) < 0)
        return b->audit_file;
    return 0;
}

// ---- the process --------------------------------------------------------------------------------

int keeper_broker_start(struct keeper_broker *b, const struct keeper_facts *facts, struct err *e)
{
    struct keeper_facts own = *facts;
    own.network_file = b->network_file;
    own.audit_file = b->audit_file;
    own.keep_count = 0;
    own.state_folder = -1;
    own.environments = NULL;
    own.ledger = NULL;
    own.pulse = NULL;
    int r = helper_start(&b->helper, &own, e);
    if (r == 0)
        stock_broker_add_all(b->helper.stock);
    return r;
}

enum box_kind keeper_broker_first_kind(const struct keeper_plan *plan)
{
    const struct config *c = plan->config;
    if (c->isolation == ISOLATION_GVISOR)
        return (enum box_kind)(KIND_GVISOR |
                               (code_policy_freezes(c, NULL) ? KIND_READONLY : KIND_PLAIN));
    bool by_default = c->allow_hosts.count || c->network == NETWORK_ON;
    return (enum box_kind)(
        (plan->broker && net_is_on(c) && by_default ? KIND_NETWORK : KIND_PLAIN) |
        (code_policy_freezes(c, NULL) ? KIND_READONLY : KIND_PLAIN));
}

bool keeper_broker_serves(struct keeper_broker *b, struct err *e)
{
    b->helper.asleep = false;
    if (!b->helper.failed)
        return true;
    if (b->helper.main)
        err_set(e, ERR_NETWORK, 0, "see the log, and start the server again",
                "no box gets network: the broker ended %d times in a row at its start",
                HELPER_SHORT_LIVES_MAX);
    else
        err_set(e, ERR_NETWORK, 0,
                "run it without network, or start the server with --allow-host or --network-file",
                "boxes have no network here: no host is allowed");
    return false;
}

// ---- what it is told ----------------------------------------------------------------------------

void keeper_broker_file(struct keeper_broker *b, int fd)
{
    union wire_message m;
    if (!b->helper.main || fd < 0)
        return;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return; // the one that it has stays in force
    fd_close(&b->network_file);
    b->network_file = copy;
    m.files = (struct wire_files){.present = 1U << (WIRE_FILES_MAX - 1)};
    (void)send_queue_add(b->helper.queue, WIRE_FILES, &m, &copy, 1);
}

void keeper_broker_close(struct keeper_broker *b)
{
    if (!b->helper.queue)
        return; // it was never opened
    helper_close(&b->helper);
    fd_close(&b->network_file);
    fd_close(&b->audit_file);
}
