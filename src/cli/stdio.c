// SPDX-License-Identifier: Apache-2.0
//
// stdio: `constrictor stdio`: MCP on stdin and stdout.

#include "mcp/transport/stdio.h"
#include "cli/cli.h"
#include "cli/network.h"
#include "cli/server.h"
#include "keeper/keeper.h"
#include "porter/porter.h"

struct stdio_server {
    struct server server;
    struct mcp_stdio *io;
};

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
    const struct gate *gate = &s.server.gate;
    struct err e;
    if (server_enter(&s.server, argument, sock, facts, &e) < 0)
        return cli_fail(&e, false);
    s.io =
        mcp_stdio_open(&s.server.mcp, gate->facts->keep[0], gate->facts->keep[1], on_end, &s, &e);
    if (!s.io || cli_catch_signals(gate->base, on_signal, &s, &e) < 0)
        return cli_fail(&e, false);
    gate_dispatch(&s.server.gate);
    mcp_stdio_close(s.io);
    server_leave(&s.server);
    return 0; // the process ends here; the keeper ends the boxes
}

static int cmd_stdio(const struct config *c, int argc, char **argv)
{
    struct err e;
    int before;
    struct keeper_plan plan = {
        .config = c,
        .start = KEEPER_GATE_FIRST,
        .watch_parent = true,
        .state = true,
        .porter = porter_main,
        .keep_count = 2,
        .gate = stdio_gate,
        .argument = (void *)c,
    };
    (void)argc;
    (void)argv;
    network_add_to_plan(&plan);
    if (network_check_config(c, false, &e) < 0 || server_open_logs(&plan, &before, &e) < 0 ||
        mcp_stdio_take(&plan.keep[0], &plan.keep[1], &e) < 0)
        return cli_fail(&e, false);
    int status = cli_run_keeper(&plan);
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
