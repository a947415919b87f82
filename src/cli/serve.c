// SPDX-License-Identifier: Apache-2.0
//
// serve: `constrictor serve`.  The first process opens the listening socket and becomes the keeper;
// serve_gate() is the gate's side.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/timer.h"
#include "cli/cli.h"
#include "cli/client_config.h"
#include "cli/network.h"
#include "cli/page.h"
#include "cli/server.h"
#include "compat/kernels.h"
#include "env/envs.h"
#include "http/door.h"
#include "http/peer.h"
#include "keeper/keeper.h"
#include "mcp/protocol/client.h"
#include "mcp/protocol/subscriptions.h"
#include "mcp/transport/http.h"
#include "mcp/transport/sse.h"
#include "net/policy.h"
#include "porter/porter.h"
#include "rest/files.h"
#include "rest/rest.h"
#include "run/network.h"
#include "session/session.h"

struct http_server {
    struct server server;
    struct http *http;
    struct page page;
    struct timer drain; // looks whether all runs and exchanges are done
    int64_t drain_until_ms;
    bool files_came, has_files;
    unsigned network_generation;
};

// ---- the listening socket -----------------------------------------------------------------------

enum { BACKLOG = 1024, BASE_URL_MAX = 1100 };

struct listener {
    const struct config *config;
    int fd;
    char url[BASE_URL_MAX]; // how clients reach it, without a slash at the end
    bool with_key;
    bool activated; // the socket is the service manager's
};

static int bind_failed(const struct config *c, int errnum, struct err *e)
{
    char hint[ERR_HINT_MAX] = "";
    if (errnum == EADDRINUSE)
        snprintf(hint, sizeof hint,
                 "another server uses this port: end it, or choose another one with --port "
                 "(0: any free port)");
    else if (errnum == EACCES)
        snprintf(hint, sizeof hint,
                 "only root can use ports below 1024: choose another one with --port");
    else if (errnum == EADDRNOTAVAIL)
        snprintf(hint, sizeof hint, "this machine does not have that address; see 'ip address'");
    return err_set(e, errnum == EADDRINUSE ? ERR_BUSY : ERR_SYSTEM, errnum, hint,
                   "listen on %s port %u", c->host, c->port);
}

// Returns the socket or a negative errno.
static int bind_one(const struct addrinfo *a)
{
    int on = 1, off = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) // "::" also takes IPv4
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int r = -errno;
    (void)close(fd);
    return r;
}

// Removes the brackets of "[::1]", the form of an address in a URL.
static void plain_host(const char *host, char *ret, size_t cap)
{
    size_t n = strlen(host);
    bool bracketed = n > 2 && host[0] == '[' && host[n - 1] == ']';
    snprintf(ret, cap, "%.*s", (int)(bracketed ? n - 2 : n), bracketed ? host + 1 : host);
}

static int open_socket(struct listener *l, struct err *e)
{
    const struct config *c = l->config;
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found = NULL;
    char host[256], port[16];
    plain_host(c->host, host, sizeof host);
    snprintf(port, sizeof port, "%u", c->port);
    int r = getaddrinfo(host, port, &want, &found);
    if (r != 0)
        return err_set(e, ERR_BAD_VALUE, 0, "give an address of this machine, such as 127.0.0.1",
                       "host '%s' is neither an address nor a known name: %s", c->host,
                       gai_strerror(r));
    l->fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = found; a && l->fd < 0; a = a->ai_next)
        l->fd = bind_one(a);
    freeaddrinfo(found);
    return l->fd < 0 ? bind_failed(c, -l->fd, e) : 0;
}

// A listening socket that the service manager opened for this process (sd_listen_fds(3)).
static bool is_activated(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    return pid && count && strtoll(pid, NULL, 10) == getpid();
}

// SECURITY: its address takes the place of --host, so that a public one needs a key as well.
static int take_socket(struct listener *l, struct config *c, struct err *e)
{
    enum { FIRST = 3 };
    static const char hint[] = "give the socket unit one line: ListenStream=127.0.0.1:8000";
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address, size = sizeof(int);
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int listens = 0;
    if (strcmp(getenv("LISTEN_FDS"), "1") != 0)
        return err_set(e, ERR_USAGE, 0, hint, "the service manager passed %s sockets",
                       getenv("LISTEN_FDS"));
    if (getsockname(FIRST, (struct sockaddr *)&address, &length) < 0 ||
        getsockopt(FIRST, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens ||
        (address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return err_set(e, ERR_USAGE, 0, hint,
                       "the socket of the service manager does not listen for TCP");
    snprintf(c->host, sizeof c->host, strchr(host, ':') ? "[%s]" : "%s", host);
    c->port = (typeof(c->port))strtoul(port, NULL, 10);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    if (fcntl(FIRST, F_SETFD, FD_CLOEXEC) < 0 || fd_set_nonblock(FIRST, true) < 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "take the socket of the service manager");
    l->fd = FIRST;
    l->activated = true;
    return 0;
}

// Finds the address to tell clients.
static int find_url(struct listener *l, struct err *e)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (l->config->public_url[0]) {
        snprintf(l->url, sizeof l->url, "%s", l->config->public_url);
        for (size_t n = strlen(l->url); n && l->url[n - 1] == '/';)
            l->url[--n] = '\0';
        return 0;
    }
    if (getsockname(l->fd, (struct sockaddr *)&address, &length) < 0 ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return err_set(e, ERR_SYSTEM, errno, NULL, "find the address of the listening socket");
    bool v6 = address.ss_family == AF_INET6;
    const char *shown =
        strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ? "127.0.0.1" : host;
    v6 = v6 && shown == host;
    snprintf(l->url, sizeof l->url, "http://%s%s%s:%s", v6 ? "[" : "", shown, v6 ? "]" : "", port);
    return 0;
}

// ---- serve --------------------------------------------------------------------------------------

// How long running code may take to end, and then answers to be sent.
enum { DRAIN_MS = 5000, LEAVE_MS = 200, DRAIN_LOOK_MS = 20, FILES_MS = 5000 };

static void on_drain(void *argument);

static void look_again(struct http_server *s)
{
    if (!timer_set(&s->drain, s->server.gate.base, DRAIN_LOOK_MS, on_drain, s))
        event_base_loopbreak(s->server.gate.base);
}

static void on_drain(void *argument)
{
    struct http_server *s = argument;
    int64_t now_ms = clock_ms();
    if (s->server.gate.running == 0 && s->drain_until_ms > now_ms + LEAVE_MS)
        s->drain_until_ms = now_ms + LEAVE_MS;
    if (now_ms >= s->drain_until_ms ||
        (s->server.gate.running == 0 && http_exchanges(s->http) == 0))
        event_base_loopbreak(s->server.gate.base);
    else
        look_again(s);
}

static void on_signal(evutil_socket_t sig, short what, void *argument)
{
    struct http_server *s = argument;
    (void)sig;
    (void)what;
    if (s->server.stopping) {
        event_base_loopbreak(s->server.gate.base);
        return;
    }
    s->server.stopping = true;
    s->drain_until_ms = clock_ms() + DRAIN_MS;
    http_stop(s->http);
    mcp_http_stop();
    look_again(s);
}

static void on_state(struct gate *g, void *argument)
{
    (void)argument;
    if (g->facts->state == KEEPER_READY)
        log_line(LOG_INFO, "boxes are ready");
}

static bool knows(const char *owner, void *http)
{
    return http_knows(http, owner);
}

static void on_files(struct gate *g, const int fds[WIRE_FILES_MAX], void *argument)
{
    struct http_server *s = argument;
    struct err e;
    bool missing = (s->server.config->api_key_file[0] && fds[0] < 0) ||
                   (s->server.config->oauth_keys[0] && fds[1] < 0);
    s->files_came = true;
    if (http_reload(s->http, fds[0], fds[1], &e) < 0) {
        log_err(LOG_ERROR, &e); // the old keys stay in force
        return;
    }
    s->has_files = !missing;
    g->owners = http_owners(s->http);
    if (network_generation(g) != s->network_generation)
        mcp_list_changed(&s->server.mcp, MCP_LIST_TOOLS, NULL); // their descriptions name hosts
    s->network_generation = network_generation(g);
    mcp_clients_dismiss(&s->server.mcp, knows, s->http);
    sessions_dismiss(g, knows, s->http);
    log_line(LOG_WARN, "keys were read again");
}

// Prints which hosts code can reach, unless its key has its own rules.
static void print_network(const struct http_server *s)
{
    char allowed[NETWORK_TEXT_MAX];
    network_describe(&s->server.gate, "", NULL, allowed);
    if (!net_is_on(s->server.config))
        printf("  code has no network; allow hosts with --allow-host\n");
    else
        printf("  code may reach %s%s\n", allowed[0] ? allowed : "nothing",
               s->server.config->network_file[0] ? ", or what its key has in --network-file" : "");
}

static void print_ready(const struct http_server *s)
{
    const char *url = s->page.base_url;
    char mcp[BASE_URL_MAX + 8];
    snprintf(mcp, sizeof mcp, "%s/mcp", url);
    json_auto_t *snippet = client_snippet(&clients[0], NULL, mcp, s->page.with_key);
    char *text = json_dumps(snippet, 0);
    printf("constrictor " CONSTRICTOR_VERSION " is ready\n  page  %s/\n  MCP   %s\n", url, mcp);
    if (s->server.config->legacy_sse)
        printf("  SSE   %s/sse\n", url);
    print_network(s);
    printf("  settings for a client: %s\n"
           "  for other clients: the page, or 'constrictor client-config --url %s NAME'\n"
           "  Ctrl-C ends the server\n",
           text ? text : "", mcp);
    (void)fflush(stdout); // stdout may be closed
    free(text);
}

static void file_url(const struct gate *g, const struct artifact *a, char *buf, size_t cap)
{
    rest_file_url(g->base_url, a, buf, cap);
}

static int open_server(struct http_server *s, const struct listener *l, struct err *e)
{
    const struct keeper_facts *f = s->server.gate.facts;
    s->server.gate.base_url = l->url;
    if (f->environments &&
        f->environments_note >= 0) // where others who want packages find this server
        (void)environments_write_note(f->environments_note, f->keeper, l->url);
    s->server.gate.argument = s;
    s->server.gate.on_state = on_state;
    s->server.gate.on_files = on_files;
    s->page = (struct page){.config = s->server.config,
                            .gate = &s->server.gate,
                            .mcp = &s->server.mcp,
                            .base_url = l->url,
                            .with_key = l->with_key};
    page_init(&s->page);
    s->http = http_open(s->server.gate.base, s->server.config, s->server.gate.facts->keep[0],
                        page_routes(&s->page), e);
    if (!s->http)
        return -1;
    if (l->activated)
        http_lend(s->http);
    http_set_peers(s->http, f->keep + 1, f->keep_count - 1 - (f->run_audit > 0));
    s->server.gate.owners = http_owners(s->http);
    mcp_http_open(&s->server.mcp, s->http);
    int r = 0;
    if (s->server.config->legacy_sse)
        r = mcp_sse_open(&s->server.mcp, s->http, e);
    if (r == 0)
        r = rest_open(&s->server.gate, s->http, s->server.config, kernels_tables(s->server.config),
                      e);
    if (r == 0) {
        s->server.gate.file_url = file_url;
        rest_files_open(s->http, s->server.gate.store);
    }
    if (r == 0)
        r = cli_catch_signals(s->server.gate.base, on_signal, s, e);
    return r;
}

// SECURITY: a gate that replaces a crashed one still has the keys of the program's start in memory.
// It must not serve before the keeper has sent the keys in force now.
static int await_files(struct http_server *s, struct err *e)
{
    int64_t until_ms = clock_ms() + FILES_MS;
    while (!s->files_came && clock_ms() < until_ms && !s->server.gate.link.lost) {
        struct pollfd p = {.fd = s->server.gate.link.sock, .events = POLLIN};
        (void)poll(&p, 1, DRAIN_LOOK_MS);
        link_read(&s->server.gate.link);
    }
    return s->has_files ? 0
                        : err_set(e, ERR_BAD_CONFIG_FILE, 0, "fix the file and start again",
                                  "cannot read the keys again after a crash");
}

static int serve_gate(int sock, const struct keeper_facts *facts, void *argument)
{
    static struct http_server s;
    struct listener *l = argument;
    struct err e;
    if (server_enter(&s.server, l->config, sock, facts, &e) < 0 || open_server(&s, l, &e) < 0)
        return cli_fail(&e, false);
    if (facts->restarts == 0)
        print_ready(&s);
    else if (await_files(&s, &e) < 0 || sessions_adopt(&s.server.gate, &e) < 0)
        return cli_fail(&e, false);
    gate_dispatch(&s.server.gate);
    mcp_sse_close();
    mcp_http_close();
    rest_close();
    server_leave(&s.server);
    http_close(s.http);
    return 0; // the process ends here; the keeper ends the boxes
}

// Without a key the server serves only the user that started it; the gate needs files to tell who
// a client is.
static int add_peers(struct keeper_plan *plan, struct err *e)
{
    struct door *d = door_open(plan->config, e);
    int n = d && door_asks_user(d) ? peer_open(plan->keep + 1, e) : 0;
    door_close(d);
    if (!d || n < 0)
        return -1;
    plan->keep_count += (unsigned)n;
    return 0;
}

static int cmd_serve(const struct config *given, int argc, char **argv)
{
    static struct listener l;
    static struct config own;
    const struct config *c = &own;
    int before;
    struct err e;
    (void)argc;
    (void)argv;
    own = *given; // the lists stay those of `given`
    l = (struct listener){
        .config = c, .fd = -1, .with_key = c->api_keys.count || c->api_key_file[0]};
    if (network_check_config(c, false, &e) < 0 ||
        (is_activated() && take_socket(&l, &own, &e) < 0) || door_check_bind(c, &e) < 0 ||
        (l.fd < 0 && open_socket(&l, &e) < 0) || find_url(&l, &e) < 0)
        return cli_fail(&e, false);
    struct keeper_plan plan = {
        .config = c,
        .start = KEEPER_JAIL_FIRST,
        .own_uids = true,
        .restart = true,
        .state = true,
        .porter = porter_main,
        .reload = true,
        .files = {c->api_key_file, c->oauth_keys},
        .keep = {l.fd},
        .keep_count = 1,
        .gate = serve_gate,
        .argument = &l,
    };
    network_add_to_plan(&plan);
    if (add_peers(&plan, &e) < 0 || server_open_logs(&plan, &before, &e) < 0)
        return cli_fail(&e, false);
    int status = cli_run_keeper(&plan);
    if (status && before >= 0)
        dprintf(before, "constrictor: the server ended with status %d; the log is in %s\n", status,
                c->log_dir);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .section = SECTION_SERVE,
    .summary = "Serve MCP and REST over HTTP, with a page for people",
    .usage = "serve [options]",
    .notes = "Clients send a key when CONSTRICTOR_API_KEY or --api-key-file sets one.\n"
             "SIGTERM and Ctrl-C end the server: running code gets 5 seconds; a second signal\n"
             "ends it at once.  SIGHUP reloads the files of keys and network rules.",
    .bit = CONFIG_SERVE,
    .function = cmd_serve,
};
