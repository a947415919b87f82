// SPDX-License-Identifier: Apache-2.0
//
// login: see login.h.  libssl works on memory here; bytes are carried by two bufferevents, each of
// which stops reading while LOGIN_HELD_MAX bytes wait in the other.

#include "broker/login.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "net/address.h"

enum { PIECE = 16 * 1024, ADDED_MAX = NET_VALUE_MAX + NET_HOST_MAX + 128 };

struct login {
    struct bufferevent *far, *near; // to the index; to relay.c
    int pair;                       // relay.c's end, until it has it
    SSL *ssl;
    BIO *in, *out; // of ssl
    const struct net_login *who;
    struct request request;
    bool is_open;           // the handshake is done
    bool is_over, is_quiet; // the index sends no more; nor does the box
    void (*done)(int fd, int errnum, const char *why, void *argument);
    void *argument;
};

// ---- a head -------------------------------------------------------------------------------------

// SECURITY: all others are dropped, because some server may treat them in an unexpected way.
static const char *const harmless[] = {"accept",        "accept-encoding", "user-agent",
                                       "range",         "if-range",        "if-none-match",
                                       "cache-control", "pragma",          "if-modified-since"};

static bool is_name(const char *line, size_t length, const char *name)
{
    size_t n = strlen(name);
    return length > n && line[n] == ':' && strncasecmp(line, name, n) == 0;
}

static bool is_harmless(const char *line, size_t length)
{
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        if (is_name(line, length, harmless[i]))
            return true;
    return false;
}

static bool says_close(const char *line, size_t length)
{
    static const char name[] = "connection", value[] = "close";
    if (!is_name(line, length, name))
        return false;
    size_t at = sizeof name; // behind the colon
    while (at < length && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return length - at == sizeof value - 1 && strncasecmp(line + at, value, length - at) == 0;
}

static const char *check_head(const struct request_head *h, const struct net_login *who)
{
    struct net_address address;
    bool named = net_address_parse(who->host, &address) < 0;
    if (strcmp(h->method, "GET") != 0 && strcmp(h->method, "HEAD") != 0)
        return "an index with a login takes GET and HEAD only";
    if (h->upgrade)
        return "an index with a login takes HTTP/1.1 only";
    if (named && strcmp(h->host, who->host) != 0)
        return "the request is for another host";
    return NULL;
}

ssize_t login_head(const char *data, size_t length, const struct request_head *h,
                   const struct net_login *who, char *ret, size_t cap, const char **ret_why)
{
    static const char version[] = " HTTP/1.1";
    const char *lf = memchr(data, '\n', length), *end = data + length;
    size_t first = lf ? (size_t)(lf - data) - 1 : 0, tail = sizeof version - 1;
    bool six = strchr(who->host, ':') != NULL;
    char port[8] = "";
    *ret_why = check_head(h, who);
    if (!*ret_why && (first < tail || memcmp(data + first - tail, version, tail) != 0))
        *ret_why = "an index with a login takes HTTP/1.1 only";
    if (!*ret_why && cap < length + ADDED_MAX)
        *ret_why = "the head is too long";
    if (*ret_why)
        return -1;
    if (who->port != 443)
        snprintf(port, sizeof port, ":%u", who->port);
    int n = snprintf(ret, cap, "%.*s\r\nHost: %s%s%s%s\r\nAuthorization: %s\r\n", (int)first, data,
                     six ? "[" : "", who->host, six ? "]" : "", port, who->value);
    size_t at = (size_t)n;
    for (const char *line = lf + 1; line < end; line = lf + 1) {
        if (!(lf = memchr(line, '\n', (size_t)(end - line))))
            break;
        size_t text = (size_t)(lf - line) - 1;
        if (!is_harmless(line, text) && !says_close(line, text))
            continue;
        memcpy(ret + at, line, text + 2);
        at += text + 2;
    }
    memcpy(ret + at, "\r\n", 2);
    return (ssize_t)at + 2;
}

// ---- what is carried ----------------------------------------------------------------------------

void login_free(struct login *l)
{
    if (!l)
        return;
    if (l->far)
        bufferevent_free(l->far);
    if (l->near)
        bufferevent_free(l->near);
    SSL_free(l->ssl);
    fd_close(&l->pair);
    free(l);
}

static int fail(struct login *l, int errnum, const char *why)
{
    void (*done)(int, int, const char *, void *) = l->done;
    void *argument = l->argument;
    login_free(l);
    done(-1, errnum, why, argument);
    return -1;
}

// Stops both directions; relay.c sees the end and closes the connection.
static int give_up(struct login *l, int errnum, const char *why)
{
    if (!l->is_open)
        return fail(l, errnum, why);
    l->is_over = l->is_quiet = true;
    (void)bufferevent_disable(l->far, EV_READ | EV_WRITE);
    (void)bufferevent_disable(l->near, EV_READ | EV_WRITE);
    (void)shutdown(bufferevent_getfd(l->near), SHUT_RDWR);
    return -1;
}

static int send_out(struct login *l)
{
    char *data;
    long n = BIO_get_mem_data(l->out, &data);
    if (n > 0 && bufferevent_write(l->far, data, (size_t)n) < 0)
        return give_up(l, ENOMEM, "the server is out of memory");
    (void)BIO_reset(l->out);
    return 0;
}

static void end_when_sent(struct login *l)
{
    if (l->is_over && evbuffer_get_length(bufferevent_get_output(l->near)) == 0)
        (void)shutdown(bufferevent_getfd(l->near), SHUT_WR);
}

static void balance(struct login *l)
{
    bool full = evbuffer_get_length(bufferevent_get_output(l->near)) > LOGIN_HELD_MAX;
    bool stuck = evbuffer_get_length(bufferevent_get_output(l->far)) > LOGIN_HELD_MAX;
    if (!l->is_over)
        (void)(full ? bufferevent_disable(l->far, EV_READ) : bufferevent_enable(l->far, EV_READ));
    if (!l->is_quiet)
        (void)(stuck ? bufferevent_disable(l->near, EV_READ)
                     : bufferevent_enable(l->near, EV_READ));
}

static int shake_hands(struct login *l)
{
    int r = SSL_do_handshake(l->ssl), why = SSL_get_error(l->ssl, r);
    long bad = SSL_get_verify_result(l->ssl);
    ERR_clear_error();
    if (send_out(l) < 0)
        return -1;
    if (r != 1 && why == SSL_ERROR_WANT_READ)
        return 0;
    if (r != 1 && bad != X509_V_OK)
        return fail(l, EPROTO, X509_verify_cert_error_string(bad));
    if (r != 1)
        return fail(l, EPROTO, "the TLS handshake failed");
    l->is_open = true;
    (void)bufferevent_set_timeouts(l->far, NULL, NULL);
    balance(l);
    int fd = TAKE_FD(l->pair);
    l->done(fd, 0, "", l->argument); // which may end it
    return -1;
}

// Reads from the index.  Negative: `l` may be gone.
static int take_answers(struct login *l)
{
    char piece[PIECE];
    int n = 0;
    if (!l->is_open && shake_hands(l) < 0)
        return -1;
    while (l->is_open && (n = SSL_read(l->ssl, piece, sizeof piece)) > 0)
        if (bufferevent_write(l->near, piece, (size_t)n) < 0)
            return give_up(l, ENOMEM, "the server is out of memory");
    if (!l->is_open)
        return 0;
    int why = SSL_get_error(l->ssl, n);
    ERR_clear_error();
    if (send_out(l) < 0)
        return -1;
    if (why == SSL_ERROR_ZERO_RETURN)
        l->is_over = true;
    else if (why != SSL_ERROR_WANT_READ)
        return give_up(l, EPROTO, "");
    end_when_sent(l);
    balance(l);
    return 0;
}

static void on_far_read(struct bufferevent *far, void *argument)
{
    struct login *l = argument;
    struct evbuffer *input = bufferevent_get_input(far);
    char piece[PIECE];
    for (int n; (n = evbuffer_remove(input, piece, sizeof piece)) > 0;)
        if (BIO_write(l->in, piece, n) != n) {
            (void)give_up(l, ENOMEM, "the server is out of memory");
            return;
        }
    (void)take_answers(l);
}

static void on_far_event(struct bufferevent *far, short what, void *argument)
{
    struct login *l = argument;
    (void)far;
    if (what & BEV_EVENT_TIMEOUT) {
        (void)give_up(l, ETIMEDOUT, "no TLS handshake within 15 seconds");
    } else if (what & BEV_EVENT_ERROR || !l->is_open) {
        (void)give_up(l, ECONNRESET, "the index hung up during the TLS handshake");
    } else { // no TLS close: a truncated answer must look truncated
        l->is_over = true;
        end_when_sent(l);
    }
}

static int send_head(struct login *l, const uint8_t *data, size_t length,
                     const struct request_head *h)
{
    static char head[REQUEST_HEAD_MAX + ADDED_MAX];
    const char *why;
    ssize_t n = l->request.state != REQUEST_IN_HEAD
                    ? -1 // a body
                    : login_head((const char *)data, length, h, l->who, head, sizeof head, &why);
    int sent = n < 0 ? -1 : SSL_write(l->ssl, head, (int)n);
    explicit_bzero(head, sizeof head);
    ERR_clear_error();
    return sent > 0 && (ssize_t)sent == n ? send_out(l) : give_up(l, EACCES, "");
}

static void on_near_read(struct bufferevent *near, void *argument)
{
    static struct request_head h; // large
    struct login *l = argument;
    struct evbuffer *input = bufferevent_get_input(near);
    size_t used, length;
    const char *why;
    while ((length = evbuffer_get_length(input)) > 0) {
        const uint8_t *data = evbuffer_pullup(input, -1);
        enum request_step s =
            data ? request_next(&l->request, data, length, &h, &used, &why) : REQUEST_BAD;
        if (s == REQUEST_MORE)
            break;
        if (s != REQUEST_HEAD) {
            (void)give_up(l, EACCES, "");
            return;
        }
        if (send_head(l, data, used, &h) < 0)
            return;
        (void)evbuffer_drain(input, used);
    }
    balance(l);
}

static void on_near_write(struct bufferevent *near, void *argument)
{
    (void)near;
    end_when_sent(argument);
    balance(argument);
}

static void on_far_write(struct bufferevent *far, void *argument)
{
    struct login *l = argument;
    (void)far;
    if (l->is_open)
        balance(l);
}

// The box sends no more or is gone: relay.c ends the connection.
static void on_near_event(struct bufferevent *near, short what, void *argument)
{
    struct login *l = argument;
    l->is_quiet = true;
    if (what & BEV_EVENT_ERROR)
        (void)bufferevent_disable(near, EV_READ | EV_WRITE);
}

// ---- begin --------------------------------------------------------------------------------------

SSL_CTX *login_open(struct err *e)
{
    static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
                                        "/etc/ssl/ca-bundle.pem"};
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (!tls || SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(tls);
        (void)err_set(e, ERR_SYSTEM, 0, NULL, "make TLS ready for indexes with a login");
        return NULL;
    }
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_default_verify_paths(tls); // SSL_CERT_FILE as well, as every program has it
    for (size_t i = 0; !getenv("SSL_CERT_FILE") && i < ARRAY_LEN(files); i++)
        if (access(files[i], R_OK) == 0 && SSL_CTX_load_verify_locations(tls, files[i], NULL) == 1)
            break;
    ERR_clear_error();
    return tls;
}

static bool prepare(struct login *l, SSL_CTX *tls)
{
    static const unsigned char alpn[] = "\x08http/1.1";
    struct net_address address;
    if (!(l->ssl = SSL_new(tls)) || !(l->in = BIO_new(BIO_s_mem())))
        return false;
    if (!(l->out = BIO_new(BIO_s_mem()))) {
        BIO_free(l->in);
        return false;
    }
    SSL_set_bio(l->ssl, l->in, l->out);
    SSL_set_connect_state(l->ssl);
    (void)SSL_set_alpn_protos(l->ssl, alpn, sizeof alpn - 1);
    if (net_address_parse(l->who->host, &address) == 0)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(l->ssl), l->who->host) == 1;
    SSL_set_hostflags(l->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(l->ssl, l->who->host) == 1 &&
           SSL_set_tlsext_host_name(l->ssl, l->who->host) == 1;
}

static bool begin(struct login *l, struct event_base *base, int pair[2])
{
    struct timeval most = {.tv_sec = LOGIN_HELLO_MS / 1000};
    l->near = bufferevent_socket_new(base, pair[1], BEV_OPT_CLOSE_ON_FREE);
    if (!l->near)
        return false;
    pair[1] = -1;
    bufferevent_setcb(l->far, on_far_read, on_far_write, on_far_event, l);
    bufferevent_setcb(l->near, on_near_read, on_near_write, on_near_event, l);
    bufferevent_setwatermark(l->far, EV_READ, 0, LOGIN_HELD_MAX);
    bufferevent_setwatermark(l->near, EV_READ, 0, 2 * REQUEST_HEAD_MAX);
    (void)bufferevent_set_timeouts(l->far, &most, NULL);
    (void)SSL_do_handshake(l->ssl); // sends the ClientHello
    ERR_clear_error();
    char *data;
    long n = BIO_get_mem_data(l->out, &data);
    bool fine = n > 0 && bufferevent_write(l->far, data, (size_t)n) == 0;
    (void)BIO_reset(l->out);
    return fine && bufferevent_enable(l->far, EV_READ | EV_WRITE) == 0;
}

struct login *login_new(struct event_base *base, int fd, SSL_CTX *tls, const struct net_login *who,
                        void (*done)(int fd, int errnum, const char *why, void *argument),
                        void *argument)
{
    int pair[2] = {-1, -1};
    struct login *l = calloc(1, sizeof *l);
    if (l)
        *l = (struct login){.pair = -1, .who = who, .done = done, .argument = argument};
    if (l && (l->far = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE)))
        fd = -1;
    if (l && fd < 0 && prepare(l, tls) &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0) {
        l->pair = pair[0];
        if (begin(l, base, pair))
            return l;
    }
    fd_close(&fd);
    fd_close(&pair[1]);
    login_free(l);
    return NULL;
}
