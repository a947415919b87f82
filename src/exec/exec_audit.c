// SPDX-License-Identifier: Apache-2.0
//
// exec_audit: one line for each run: in the log at level info, and, with --run-audit-file, a JSON
// object with the SHA-256 of the code.  Called by exec.c in the gate.
// SECURITY: neither line contains code, its output or its files.
//
// The keeper opens the file for appending, and the gate has its descriptor as long as it lives.  A
// gate that is taken over could shorten the file: see docs/operations.md, "Logs".

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "exec/exec_internal.h"
#include "json/dump.h"

static int audit_fd(const struct exec *x)
{
    const struct keeper_facts *f = x->gate->facts;
    return f->run_audit ? f->keep[f->run_audit - 1] : -1;
}

void exec_audit_begin(struct exec *x)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (audit_fd(x) < 0 || x->request.install ||
        EVP_Digest(x->request.code ? x->request.code : "", x->request.code_length, digest, &n,
                   EVP_sha256(), NULL) != 1)
        return;
    for (unsigned i = 0; i < n && 2 * i + 2 < sizeof x->work->digest; i++)
        snprintf(x->work->digest + 2 * i, 3, "%02x", digest[i]);
}

static double wall_ms(const struct run *r)
{
    return r && r->t_end_us > r->t_begin_us ? (double)(r->t_end_us - r->t_begin_us) / 1000 : 0;
}

static void write_line(const struct exec *x, const char *verdict)
{
    static bool failing; // one log line for each series of failures
    char when[TEXT_TIME_MAX];
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    text_format_time((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, when);
    json_auto_t *o =
        json_pack("{s:s, s:s, s:s, s:s*, s:s, s:f, s:I, s:s}", "time", when, "run", x->id, "key",
                  x->owner, "session", x->session_id[0] ? x->session_id : NULL, "verdict", verdict,
                  "wall_ms", wall_ms(x->run), "code_bytes", (json_int_t)x->request.code_length,
                  "code_sha256", x->work->digest);
    size_t length = 0;
    _cleanup_free_ char *line = o ? dump_text_n(o, &length) : NULL;
    bool written = false;
    if (line) {
        line[length] = '\n'; // in place of the NUL: one write, so that lines do not mix
        written = write(audit_fd(x), line, length + 1) == (ssize_t)length + 1;
    }
    if (!written && !failing)
        log_line(LOG_ERROR, "--run-audit-file: a line could not be written: %s",
                 line ? strerror(errno) : "out of memory");
    failing = !written;
}

void exec_audit(const struct exec *x)
{
    const char *verdict =
        x->error.message[0] ? err_code_name(x->error.code) : result_verdict_name(x->result.verdict);
    log_line(LOG_INFO, "run %s: %s, %zu bytes of code, %.1f ms, key %s%s%s", x->id, verdict,
             x->request.code_length, wall_ms(x->run), x->owner[0] ? x->owner : "-",
             x->session_id[0] ? ", session " : "", x->session_id);
    if (x->run)
        log_line(LOG_DEBUG, "run %s: %.1f ms until it had a box, %llu + %llu bytes of output",
                 x->id,
                 x->run->t_box_us > x->run->t_begin_us
                     ? (double)(x->run->t_box_us - x->run->t_begin_us) / 1000
                     : 0,
                 (unsigned long long)x->run->output_total[RUN_STDOUT],
                 (unsigned long long)x->run->output_total[RUN_STDERR]);
    if (x->work->digest[0])
        write_line(x, verdict);
}
