// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target of wire/wire: any bytes as a message of the keeper, the gate or a zygote.  What is
// accepted must be safe to use as the struct that its type says.  Built and run by `make fuzz`.

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    // As wire_recv has it: the union is there as a whole, of which `size` bytes were received; what
    // lies behind them is from earlier messages.
    union wire_message *m = malloc(sizeof *m);
    if (!m)
        return 0;
    memset(m, 0xff, sizeof *m);
    memcpy(m, data, size < sizeof *m ? size : sizeof *m);
    int r = wire_check(m, size);
    assert(r == 0 || r == -EBADMSG);
    if (r == 0) {
        assert(size >= sizeof m->h && size <= sizeof *m);
        assert(m->h.version == WIRE_VERSION && m->h.length == size);
        assert(m->h.type > 0 && m->h.type < WIRE_TYPE_MAX);
        switch ((enum wire_type)m->h.type) {
        case WIRE_BOX:
            assert(strlen(m->box.error) < WIRE_TEXT_MAX && strlen(m->box.hint) < WIRE_TEXT_MAX);
            break;
        case WIRE_RELEASE: assert(m->release.end < END_MAX); break;
        case WIRE_ENDED: assert(m->ended.end < END_MAX); break;
        case WIRE_ZYGOTE_READY: {
            // What the keeper does with it.
            char *report = malloc(WIRE_REPORT_MAX + 1);
            assert(m->ready.report_length <= WIRE_REPORT_MAX);
            if (report) {
                memcpy(report, m->ready.report, m->ready.report_length);
                report[m->ready.report_length] = '\0';
            }
            free(report);
            break;
        }
        case WIRE_FAILED:
            assert(strlen(m->failed.error) < WIRE_TEXT_MAX);
            assert(strlen(m->failed.hint) < WIRE_TEXT_MAX && m->failed.error_code < ERR_CODE_MAX);
            break;
        case WIRE_INTERPRETER:
            assert(strlen(m->interpreter.executable) < WIRE_PATH_MAX);
            assert(strlen(m->interpreter.version) < WIRE_VERSION_MAX);
            break;
        case WIRE_FILES: assert(m->files.present < 1U << WIRE_FILES_MAX); break;
        case WIRE_ACQUIRE: assert(m->acquire.ticket != 0); break;
        case WIRE_CANCEL:
        case WIRE_INTERRUPT:
        case WIRE_STATUS:
        case WIRE_STATUS_REPLY:
        case WIRE_SPAWN:
        case WIRE_SPAWNED:
        case WIRE_EXITED:
        case WIRE_TYPE_MAX: break;
        }
        assert(wire_check(m, size) == 0); // checking changes nothing that matters
    }
    free(m);
    return 0;
}
