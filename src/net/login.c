// SPDX-License-Identifier: Apache-2.0
//
// login: see login.h.

#include "net/login.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "net/address.h"

enum { FILE_MAX = 64 * 1024 };

static int store = -1;           // the memory file
static struct net_logins public; // hosts and ports alone

// ---- an address ---------------------------------------------------------------------------------

static int bad(struct err *e, const char *why)
{
    return err_set(e, ERR_BAD_VALUE, 0,
                   "write it as https://user:password@index.example.org/simple, with %40 for '@' "
                   "and %3A for ':' in user and password",
                   "%s", why);
}

// Host and port of "https://host:port/path", which has no login.
static int read_server(const char *url, struct net_login *ret, struct err *e)
{
    char rest[NET_HOST_MAX + 32];
    struct net_proxy server;
    struct net_address address;
    const char *host = url + 8; // behind https://
    size_t n = strcspn(host, "/?#");
    int length = snprintf(rest, sizeof rest, "http://%.*s", (int)n, host);
    if (length < 0 || (size_t)length >= sizeof rest || memchr(host, '@', n) ||
        net_proxy_parse(rest, &server, e) < 0)
        return bad(e, "there is no host in it, or no port that is a number");
    bool has_port =
        host[n - 1] != ']' && memchr(host, ':', n) && (host[0] != '[' || strstr(rest, "]:"));
    ret->port = has_port ? server.port : 443;
    if (net_address_parse(server.host, &address) == 0)
        net_address_text(&address, ret->host);
    else if (net_host_normalise(server.host, strlen(server.host), ret->host, e) < 0)
        return -1;
    return 0;
}

static int set_value(struct net_login *l, const char *plain, size_t n, struct err *e)
{
    if (n > NET_PLAIN_MAX)
        return bad(e, "user and password are too long");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)plain[i] < ' ' || plain[i] == 127)
            return bad(e, "user or password have a control character");
    int at = snprintf(l->value, sizeof l->value, "Basic ");
    (void)EVP_EncodeBlock((unsigned char *)l->value + at, (const unsigned char *)plain, (int)n);
    return 0;
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

// "%40" is '@' in a user or a password; a token alone is a user with an empty one.
static int read_login(const char *text, size_t length, struct net_login *ret, struct err *e)
{
    char plain[NET_PLAIN_MAX + 2];
    size_t n = 0;
    if (length > NET_PLAIN_MAX)
        return bad(e, "user and password are too long");
    for (size_t i = 0; i < length; i++) {
        bool escaped =
            text[i] == '%' && i + 2 < length && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
        plain[n++] = escaped ? (char)(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
        i += escaped ? 2 : 0;
    }
    if (!memchr(text, ':', length))
        plain[n++] = ':';
    int r = set_value(ret, plain, n, e);
    explicit_bzero(plain, sizeof plain);
    return r;
}

int net_login_split(char *url, struct net_login *ret, struct err *e)
{
    char *begin = strstr(url, "://");
    *ret = (struct net_login){0};
    if (!begin)
        return 0;
    begin += 3;
    size_t at = strcspn(begin, "/?#");
    while (at && begin[at - 1] != '@')
        at--;
    if (!at)
        return 0;
    // SECURITY: never send a password over a connection that others can read.
    int r = strncmp(url, "https://", 8) == 0
                ? read_login(begin, at - 1, ret, e)
                : bad(e, "an address with a user and a password has to begin with https://");
    // The login is removed in every case.
    size_t left = strlen(begin + at);
    memmove(begin, begin + at, left + 1);
    explicit_bzero(begin + left, at);
    if (r == 0)
        r = read_server(url, ret, e);
    return r < 0 ? r : 1;
}

static bool is_same(const struct net_login *a, const struct net_login *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static const struct net_login *find(const struct net_logins *l, const struct net_login *server)
{
    for (size_t i = 0; i < l->count; i++)
        if (is_same(&l->items[i], server))
            return &l->items[i];
    return NULL;
}

static int add(struct net_logins *l, const struct net_login *one, struct err *e)
{
    const struct net_login *had = find(l, one);
    if (had && strcmp(had->value, one->value) != 0)
        return err_set(e, ERR_BAD_VALUE, 0, "name each host and port with one login",
                       "the index at %s port %u has two logins", one->host, one->port);
    if (had)
        return 0;
    if (l->count == NET_LOGINS_MAX)
        return err_set(e, ERR_BAD_VALUE, 0, "name fewer of them",
                       "more than %d indexes have logins, or are looked up in --index-credentials",
                       NET_LOGINS_MAX);
    l->items[l->count++] = *one;
    return 0;
}

// ---- the file -----------------------------------------------------------------------------------

static int bad_file(struct err *e, const char *why)
{
    return err_set(e, ERR_BAD_CONFIG_FILE, 0,
                   "each entry is 'machine HOST login USER password PASSWORD'; HOST may be "
                   "HOST:PORT",
                   "%s", why);
}

static int take_entry(const char *machine, const char *user, const char *password,
                      const struct net_logins *hosts, struct net_logins *all, struct err *e)
{
    char url[NET_HOST_MAX + 32], plain[NET_PLAIN_MAX + 1];
    struct net_login one = {0};
    if (!user || !password || strlen(machine) > NET_HOST_MAX + 8 || strpbrk(machine, "/?#@"))
        return bad_file(e, "an entry has no login or no password, or its machine is no host");
    snprintf(url, sizeof url, "https://%s/", machine);
    int r = read_server(url, &one, e), n = snprintf(plain, sizeof plain, "%s:%s", user, password);
    bool known =
        r == 0 && find(hosts, &one) && !find(all, &one); // entries for other hosts are ignored
    if (known && (n < 0 || (size_t)n >= sizeof plain))
        r = bad_file(e, "user and password are too long");
    else if (known && (r = set_value(&one, plain, (size_t)n, e)) == 0)
        r = add(all, &one, e);
    explicit_bzero(plain, sizeof plain);
    explicit_bzero(&one, sizeof one);
    return r < 0 ? r : 0;
}

static void drop_comments(char *text)
{
    bool begins = true, comment = false;
    for (; *text; text++) {
        comment = *text != '\n' && (comment || (begins && *text == '#'));
        begins = *text == ' ' || *text == '\t' || *text == '\r' || *text == '\n';
        if (comment)
            *text = ' ';
    }
}

static char *next_word(char **text)
{
    static const char blanks[] = " \t\r\n";
    char *word = *text + strspn(*text, blanks), *end = word + strcspn(word, blanks);
    *text = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

int net_login_file(char *text, const struct net_logins *hosts, struct net_logins *all,
                   struct err *e)
{
    static const char *const names[] = {"machine", "login", "password"};
    const char *values[3] = {0};
    drop_comments(text);
    for (;;) {
        const char *word = next_word(&text);
        bool begins = !word || strcmp(word, names[0]) == 0;
        if (begins && values[0] && take_entry(values[0], values[1], values[2], hosts, all, e) < 0)
            return -1;
        if (begins)
            memset(values, 0, sizeof values);
        if (!word)
            return 0;
        size_t i = 0;
        while (i < 3 && strcmp(word, names[i]) != 0)
            i++;
        const char *value = i < 3 ? next_word(&text) : NULL;
        if (!value || values[i] || (i && !values[0]))
            return bad_file(e, "it has unknown words"); // which may be secrets
        values[i] = value;
    }
}

// SECURITY: every user that can read the file has the passwords.
static int read_file(const char *path, char *text, struct err *e)
{
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(
            e, ERR_BAD_CONFIG_FILE, errno,
            "give a readable file like ~/.netrc: machine HOST login USER password SECRET",
            "cannot open the file");
    if (!S_ISREG(st.st_mode) || st.st_size >= FILE_MAX)
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "give a file of at most 64 KiB",
                       "it is not a regular file, or too large");
    if ((st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0))
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "own it and make it private: chmod 600",
                       "other users may read it, or another user owns it");
    ssize_t n = pread(fd, text, FILE_MAX - 1, 0);
    if (n < 0)
        return err_set(e, ERR_BAD_CONFIG_FILE, errno, "give a text file", "cannot read the file");
    if (memchr(text, '\0', (size_t)n))
        return err_set(e, ERR_BAD_CONFIG_FILE, 0, "give a text file", "the file has a NUL byte");
    text[n] = '\0';
    return 0;
}

static int take_file(const char *path, const struct net_logins *hosts, struct net_logins *all,
                     struct err *e)
{
    char *text = malloc(FILE_MAX);
    if (!text)
        return err_set(e, ERR_SYSTEM, ENOMEM, NULL, "cannot read the file of --index-credentials");
    int r = read_file(path, text, e);
    if (r == 0)
        r = net_login_file(text, hosts, all, e);
    explicit_bzero(text, FILE_MAX);
    free(text);
    return r < 0 ? err_wrap(e, "--index-credentials '%.300s'", path) : 0;
}

// ---- all of them --------------------------------------------------------------------------------

static void strip(char *text, const char *ends)
{
    for (char *p = text; (p = strstr(p, "://"));) {
        p += 3;
        size_t at = strcspn(p, ends);
        while (at && p[at - 1] != '@')
            at--;
        size_t left = strlen(p + at);
        memmove(p, p + at, left + 1);
        explicit_bzero(p + left, at);
    }
}

static void scrub_variable(const char *name, const char *ends)
{
    char *value = name ? getenv(name) : NULL;
    if (value)
        strip(value, ends);
}

// /proc/PID/environ shows what is there now; children have a copy of it.
static void scrub_environment(enum config_key key)
{
    const char *ends = config_options[key].type == CONFIG_LIST ? "/?#," : "/?#";
    for (unsigned i = 0; i < CONFIG_ENV_MAX; i++)
        scrub_variable(config_options[key].env[i].name, ends);
}

static int take_url(const struct config *c, enum config_key key, char *url,
                    struct net_logins *hosts, struct net_logins *all, struct err *e)
{
    struct net_login one;
    int r = net_login_split(url, &one, e);
    if (r > 0 && c->origins[key].source == CONFIG_FROM_FLAG)
        r = err_set(e, ERR_BAD_VALUE, 0,
                    "set the environment variable instead, put it into the configuration file, or "
                    "name a file with --index-credentials",
                    "a password on the command line is shown to every user of this machine");
    if (r > 0)
        r = add(all, &one, e);
    if (r == 0 && c->index_credentials[0] && strncmp(url, "https://", 8) == 0) {
        struct err ignored; // net_policy_load() reports what is wrong
        explicit_bzero(one.value, sizeof one.value);
        if (one.host[0] || read_server(url, &one, &ignored) == 0)
            r = add(hosts, &one, e);
    }
    explicit_bzero(&one, sizeof one);
    return r < 0 ? err_wrap(e, "--%s '%.200s'", config_options[key].key, url) : 0;
}

static int keep(const struct net_logins *all, struct err *e)
{
    size_t size = all->count * sizeof all->items[0];
    fd_close(&store);
    public.count = all->count;
    for (size_t i = 0; i < all->count; i++) {
        public.items[i] = all->items[i];
        explicit_bzero(public.items[i].value, sizeof public.items[i].value);
    }
    if (!all->count)
        return 0;
    store = memfd_create("logins", MFD_CLOEXEC);
    if (store < 0 || pwrite(store, all->items, size, 0) != (ssize_t)size)
        return err_set(e, ERR_SYSTEM, errno, NULL, "keep the logins of indexes");
    return 0;
}

int net_logins_take(struct config *c, struct err *e)
{
    static struct net_logins all, hosts; // large
    int r = take_url(c, CONFIG_KEY_index_url, c->index_url, &hosts, &all, e);
    for (size_t i = 0; r == 0 && i < c->extra_index_urls.count; i++)
        r = take_url(c, CONFIG_KEY_extra_index_urls, c->extra_index_urls.items[i], &hosts, &all, e);
    if (r == 0 && c->index_credentials[0] && !c->offline)
        r = take_file(c->index_credentials, &hosts, &all, e);
    if (r == 0)
        r = keep(&all, e);
    scrub_environment(CONFIG_KEY_index_url);
    scrub_environment(CONFIG_KEY_extra_index_urls);
    scrub_variable("PIP_INDEX_URL", "/?#"); // config_pip.c reads them
    scrub_variable("PIP_EXTRA_INDEX_URL", "/?# \t\n");
    explicit_bzero(&all, sizeof all);
    explicit_bzero(&hosts, sizeof hosts);
    return r;
}

int net_logins_read(struct net_logins *ret)
{
    ret->count = public.count;
    size_t size = ret->count * sizeof ret->items[0];
    if (!size)
        return 0;
    ssize_t n = pread(store, ret->items, size, 0);
    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

bool net_login_address(const char *url, char *ret, size_t cap)
{
    struct net_login server = {0};
    struct err ignored;
    if (strncmp(url, "https://", 8) != 0 || read_server(url, &server, &ignored) < 0 ||
        !find(&public, &server))
        return false;
    bool six = strchr(server.host, ':') != NULL;
    const char *path = url + 8 + strcspn(url + 8, "/?#");
    int n = snprintf(ret, cap, "http://%s%s%s:%u%s", six ? "[" : "", server.host, six ? "]" : "",
                     server.port, path);
    return n > 0 && (size_t)n < cap;
}
