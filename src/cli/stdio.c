// SPDX-License-Identifier: Apache-2.0
//
// stdio: `constrictor stdio`: MCP on stdin and stdout.  It runs on the user's own machine, so it
// may share folders with boxes (--share) and save the files of runs in one (--out).

#include "mcp/transport/stdio.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/network.h"
#include "cli/saver.h"
#include "cli/server.h"
#include "files/store.h"
#include "keeper/keeper.h"
#include "porter/porter.h"

// Made in the first process.
struct stdio_command {
    const struct config *config;
    struct shares shares;
    struct saver saver;
    char out[PATH_MAX]; // the folder of --out, from the root on
};

struct stdio_server {
    struct server server;
    struct mcp_stdio *io;
};

// ---- --out --------------------------------------------------------------------------------------

// Where the files go, and the socket of the process that writes them.
static const char *out_folder;
static int saver_sock = -1;

static int send_file(struct gate *g, const struct artifact *a, struct saver_answer *ret)
{
    char bytes[65536];
    uint64_t at = 0;
    _cleanup_close_ int fd = store_read(g->store, a);
    if (fd < 0)
        return -1;
    saver_begin(saver_sock, a->path, a->size);
    while (at < a->size) {
        ssize_t n = pread(fd, bytes, sizeof bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            saver_drop(saver_sock);
            return -1;
        }
        saver_data(saver_sock, bytes, (size_t)n, at);
        at += (uint64_t)n;
    }
    saver_finish(saver_sock, a->size, ret);
    return 0;
}

// One file at a time, whole: the saver does not tell runs apart.  It waits for the user's disk.
static void save_file(struct gate *g, const struct artifact *a, json_t *entry)
{
    struct saver_answer answer = {.error = "its copy in the state folder cannot be read"};
    char path[SAVER_PATH_MAX];
    size_t n = 0;
    if (send_file(g, a, &answer) < 0 || !answer.ok) {
        (void)json_object_set_new(entry, "save_error", json_string(answer.error));
        return;
    }
    saver_path(out_folder, answer.saved, path);
    _cleanup_free_ char *clean = utf8_clean(path, strlen(path), &n);
    (void)json_object_set_new(entry, "saved", json_stringn_nocheck(clean ? clean : "", n));
}

// ---- the server ---------------------------------------------------------------------------------

static void on_end(void *argument)
{
    struct stdio_server *s = argument;
    event_base_loopbreak(s->server.gate.base);
}

static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct stdio_server *s = argument;
    (void)sig;
    (void)what;
    if (s->server.stopping)
        event_base_loopbreak(s->server.gate.base);
    s->server.stopping = true;
    mcp_stdio_stop(s->io);
}

static int stdio_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    static struct stdio_server s;
    struct stdio_command *cmd = argument;
    struct gate *gate = &s.server.gate;
    struct err e;
    if (server_enter(&s.server, cmd->config, sock, facts, &e) < 0)
        return cli_fail(&e, false);
    s.server.mcp.is_local = true;
    if (cmd->config->out[0]) {
        saver_sock = gate->own.keep[gate->own.keep_count - 1];
        out_folder = cmd->out;
        gate->save_file = save_file;
    }
    s.io =
        mcp_stdio_open(&s.server.mcp, gate->facts->keep[0], gate->facts->keep[1], on_end, &s, &e);
    if (!s.io || cli_catch_signals(gate->base, on_signal, &s, &e) < 0)
        return cli_fail(&e, false);
    gate_dispatch(&s.server.gate);
    mcp_stdio_close(s.io);
    server_leave(&s.server);
    return 0; // the process ends here; the keeper ends the boxes
}

// The folder of --out exists now.
static int open_out(struct stdio_command *cmd, struct err *e)
{
    const struct config *c = cmd->config;
    if (!c->out[0])
        return 0;
    if (saver_start_server(&cmd->saver, c, e) < 0)
        return -1;
    if (!realpath(c->out, cmd->out))
        return err_set(e, ERR_OUT_FOLDER, errno, "give a folder that you can write to",
                       "find the path of the folder '%s' of --out", c->out);
    return shares_check_out(c, cmd->out, e);
}

static int cmd_stdio(const struct config *c, int argc, char **argv)
{
    static struct stdio_command cmd;
    struct err e;
    int before;
    struct keeper_plan plan = {
        .config = c,
        .start = KEEPER_GATE_FIRST,
        .watch_parent = true,
        .state = true,
        .porter = porter_main,
        .shares = &cmd.shares,
        .keep_count = 2,
        .gate = stdio_gate,
        .argument = &cmd,
    };
    (void)argc;
    (void)argv;
    cmd.config = c;
    network_add_to_plan(&plan);
    if (network_check_config(c, false, &e) < 0 || shares_open(c, &cmd.shares, &e) < 0 ||
        server_open_logs(&plan, &before, &e) < 0 ||
        mcp_stdio_take(&plan.keep[0], &plan.keep[1], &e) < 0 || open_out(&cmd, &e) < 0)
        return cli_fail(&e, false);
    if (cmd.saver.pid)
        plan.keep[plan.keep_count++] = cmd.saver.sock;
    int status = cli_run_keeper(&plan);
    saver_end(&cmd.saver, false);
    if (status && before >= 0)
        dprintf(before, "constrictor: the server ended with status %d; the log is in %s\n", status,
                c->log_dir);
    return status;
}

const struct command command_stdio = {
    .name = "stdio",
    .section = SECTION_SERVE,
    .summary = "Serve MCP on stdin and stdout, for clients that start it",
    .usage = "stdio [options]",
    .notes = "It ends when stdin is closed, on SIGTERM, or when its parent process ends.",
    .bit = CONFIG_STDIO,
    .function = cmd_stdio,
};
