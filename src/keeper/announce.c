// SPDX-License-Identifier: Apache-2.0
//
// announce: see announce.h.  Runs in the keeper.

#include "keeper/announce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"

void announce_interpreter(struct stock *s, const struct interp *interp)
{
    union wire_message m = {0};
    snprintf(m.interpreter.executable, WIRE_PATH_MAX, "%s", interp->executable);
    snprintf(m.interpreter.version, WIRE_VERSION_MAX, "%s", interp->version);
    stock_send(s, WIRE_INTERPRETER, &m, NULL, 0);
}

void announce_ready(struct stock *s, const struct zygote *zygote)
{
    union wire_message m = {.ready = {.report_length = zygote->report_length}};
    memcpy(m.ready.report, zygote->report, zygote->report_length);
    stock_send(s, WIRE_ZYGOTE_READY, &m, NULL, 0);
}

void announce_failed(struct stock *s, const struct err *e)
{
    union wire_message m = {.failed = {.error_code = e->code}};
    snprintf(m.failed.error, WIRE_TEXT_MAX, "%s", e->message);
    snprintf(m.failed.hint, WIRE_TEXT_MAX, "%s", e->hint);
    stock_send(s, WIRE_FAILED, &m, NULL, 0);
}

// Gate and broker cannot read root's files, so they get open descriptors.
void announce_files(struct stock *s, struct keeper_broker *broker, const struct keeper_plan *plan)
{
    union wire_message m = {0};
    int fds[WIRE_FILES_MAX];
    size_t count = 0;
    for (unsigned i = 0; i < WIRE_FILES_MAX; i++) {
        const char *path = plan->files[i];
        if (!path || !path[0])
            continue;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0) {
            log_line(LOG_ERROR, "open '%s': %s; what was read before stays in force", path,
                     strerror(errno));
            continue;
        }
        m.files.present |= 1U << i;
        fds[count++] = fd;
        if (i == WIRE_FILES_MAX - 1)
            keeper_broker_file(broker, fd);
    }
    stock_send(s, WIRE_FILES, &m, fds, count);
    for (size_t i = 0; i < count; i++)
        fd_close(&fds[i]);
}
