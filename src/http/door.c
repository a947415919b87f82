// SPDX-License-Identifier: Apache-2.0
//
// door: see door.h.

#include "http/door.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "http/door_keys.h"
#include "http/jwt.h"
#include "http/origin.h"

// A token that was found good is remembered by its hash, since a signature takes longer to check
// than everything else about a request.
enum { KNOWN_TOKENS = 256 };
struct known_token {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    struct jwt_claims claims; // expires_s 0: a free row
};

struct door {
    const struct config *config;
    struct door_keys keys;
    struct jwt_keys *token_keys; // NULL: no OAuth
    char audience[CONFIG_TEXT_MAX + 8];
    char public_url[CONFIG_TEXT_MAX + 1]; // without a slash at its end; "" when not known
    struct origin public_origin;
    uid_t starters[2];
    bool loopback, wildcard; // where the server listens
    char scopes[1024];       // joined with blanks, as far as they fit
    struct known_token *known;
};

// What door_check_bind() read before the fork; the gate may not read these files.
static struct {
    const struct config *config; // the configuration it was read for; NULL: nothing was read
    struct door_keys keys;       // of the configuration and of the file
    char *oauth_keys;
    size_t oauth_keys_length;
    uid_t starters[2]; // the user that started the program, and the one that called sudo
} inherited;

// ---- files --------------------------------------------------------------------------------------

// Reads a whole file from its beginning.
static int read_all(int fd, const char *path, char *buf, size_t cap, size_t *ret, struct err *e)
{
    size_t n = 0;
    for (;;) {
        ssize_t r = pread(fd, buf + n, cap - n, (off_t)n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return err_set(e, ERR_BAD_CONFIG_FILE, errno, NULL, "read '%s'", path);
        n += (size_t)r;
        if (n == cap)
            return err_set(e, ERR_BAD_CONFIG_FILE, 0, NULL, "'%s' has more than %zu bytes", path,
                           cap - 1);
        if (r == 0)
            break;
    }
    buf[n] = '\0';
    *ret = n;
    return 0;
}

// A whole file, new; NULL and `e` on failure.
static char *read_fd(int fd, const char *path, size_t max, size_t *ret, struct err *e)
{
    char *text = malloc(max + 1);
    if (!text)
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read '%s'", path);
    else if (read_all(fd, path, text, max + 1, ret, e) == 0)
        return text;
    free(text);
    return NULL;
}

static char *read_path(const char *path, bool secret, size_t max, size_t *ret, struct err *e)
{
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        (void)err_set(e, ERR_BAD_CONFIG_FILE, errno, "check the path and the file's permissions",
                      "open '%s'", path);
        return NULL;
    }
    if (fstat(fd, &st) == 0 && secret && st.st_mode & (S_IROTH | S_IWOTH))
        log_line(LOG_WARN, "every user can read the key file '%s': run chmod o= on it", path);
    return read_fd(fd, path, max, ret, e);
}

// The keys of the configuration and of the file, whose text is wiped.
static int keys_take(struct door_keys *k, const struct config *c, char *text, size_t length,
                     struct err *e)
{
    int r = door_keys_read(k, c, text ? text : "", length, e);
    if (text)
        OPENSSL_cleanse(text, length);
    free(text);
    return r;
}

static void find_starters(void)
{
    const char *sudo = getuid() == 0 ? getenv("SUDO_UID") : NULL;
    uint64_t uid;
    inherited.starters[0] = inherited.starters[1] = getuid();
    if (sudo && text_parse_u64(sudo, 0, UINT32_MAX - 1, &uid) == 0)
        inherited.starters[1] = (uid_t)uid;
}

static int inherit(const struct config *c, struct err *e)
{
    size_t length = 0;
    char *text = NULL;
    if (inherited.config == c)
        return 0;
    free(inherited.oauth_keys);
    inherited.oauth_keys = NULL;
    if (c->api_key_file[0] && !(text = read_path(c->api_key_file, true, DOOR_FILE_MAX, &length, e)))
        return -1;
    if (keys_take(&inherited.keys, c, text, length, e) < 0)
        return -1;
    if (c->oauth_keys[0] &&
        !(inherited.oauth_keys =
              read_path(c->oauth_keys, false, JWT_KEYS_FILE_MAX, &inherited.oauth_keys_length, e)))
        return -1;
    find_starters();
    inherited.config = c;
    return 0;
}

// ---- opening ------------------------------------------------------------------------------------

static int check_oauth(const struct config *c, struct err *e)
{
    bool keys = c->oauth_keys[0], issuer = c->oauth_issuer[0];
    if (!keys && !issuer)
        return 0;
    if (keys != issuer)
        return err_set(e, ERR_USAGE, 0, "tokens need both: the issuer, and the keys to check them",
                       "'%s' is set and '%s' is not", issuer ? "oauth-issuer" : "oauth-keys",
                       issuer ? "oauth-keys" : "oauth-issuer");
    if (!c->oauth_audience[0] && !c->public_url[0])
        return err_set(e, ERR_USAGE, 0,
                       "set public-url to the URL that clients use for this server, such as "
                       "https://mcp.example.org; it is the audience of tokens",
                       "'oauth-issuer' needs 'public-url' or 'oauth-audience'");
    return 0;
}

static int check_names(const struct config *c, struct err *e)
{
    struct origin ignored;
    for (size_t i = 0; i < c->allowed_hosts.count; i++)
        if (strcmp(c->allowed_hosts.items[i], "*") == 0)
            return err_set(
                e, ERR_BAD_VALUE, 0,
                "leave it out when clients use an address or a name of this machine; else "
                "give the names that they use, such as mcp.example.org",
                "allowed-hosts: '*' is not allowed: any web page could use this server by "
                "way of a name of its own (DNS rebinding)");
        else if (origin_parse_configured(c->allowed_hosts.items[i], &ignored) < 0)
            return err_set(e, ERR_BAD_VALUE, 0, "give names such as mcp.example.org or box:8000",
                           "allowed-hosts: '%s' is not a host name", c->allowed_hosts.items[i]);
    for (size_t i = 0; i < c->allowed_origins.count; i++) {
        const char *text = c->allowed_origins.items[i];
        size_t n = strlen(text);
        if (origin_parse((struct slice){text, n && text[n - 1] == '/' ? n - 1 : n}, &ignored) < 0)
            return err_set(
                e, ERR_BAD_VALUE, 0,
                "give origins such as https://app.example.org, one by one: '*' would let "
                "every web page run code here",
                "allowed-origins: '%s' is not an origin", text);
    }
    return 0;
}

static bool url_is_clean(const char *url)
{
    for (; *url; url++)
        if (*url <= ' ' || *url > '~' || *url == '"' || *url == '\\')
            return false;
    return true;
}

static int settle(struct door *d, const struct config *c, struct err *e)
{
    d->config = c;
    d->loopback = origin_host_is_loopback(c->host);
    d->wildcard = origin_host_is_wildcard(c->host);
    snprintf(d->public_url, sizeof d->public_url, "%s", c->public_url);
    for (size_t n = strlen(d->public_url); n && d->public_url[n - 1] == '/';)
        d->public_url[--n] = '\0';
    if (d->public_url[0] &&
        (!url_is_clean(d->public_url) || origin_parse_url(d->public_url, &d->public_origin) < 0))
        return err_set(e, ERR_BAD_VALUE, 0, "give a URL such as https://mcp.example.org",
                       "public-url: '%s' is not an http or https URL", c->public_url);
    if (c->oauth_audience[0])
        snprintf(d->audience, sizeof d->audience, "%s", c->oauth_audience);
    else
        snprintf(d->audience, sizeof d->audience, "%s/mcp", d->public_url);
    for (size_t i = 0, at = 0; i < c->oauth_scopes.count; i++) {
        const char *scope = c->oauth_scopes.items[i];
        if (!url_is_clean(scope))
            return err_set(e, ERR_BAD_VALUE, 0, NULL, "oauth-scopes: '%s' is not a scope", scope);
        at += (size_t)snprintf(d->scopes + at, sizeof d->scopes - at, "%s%s", at ? " " : "", scope);
        if (at >= sizeof d->scopes)
            return err_set(e, ERR_BAD_VALUE, 0, NULL, "oauth-scopes: more than %zu characters",
                           sizeof d->scopes - 1);
    }
    return 0;
}

struct door *door_open(const struct config *c, struct err *e)
{
    struct door *d = calloc(1, sizeof *d);
    int r = d ? 0 : err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the door");
    if (r == 0)
        r = check_oauth(c, e);
    if (r == 0)
        r = check_names(c, e);
    if (r == 0)
        r = settle(d, c, e);
    if (r == 0)
        r = inherit(c, e);
    if (r == 0)
        d->keys = inherited.keys;
    if (r == 0)
        memcpy(d->starters, inherited.starters, sizeof d->starters);
    if (r == 0 && c->oauth_keys[0]) {
        d->known = calloc(KNOWN_TOKENS, sizeof *d->known);
        d->token_keys = jwt_keys_parse(inherited.oauth_keys, inherited.oauth_keys_length, e);
        if (!d->token_keys)
            r = err_wrap(e, "oauth-keys '%s'", c->oauth_keys);
        else if (!d->known)
            r = err_set(e, ERR_SYSTEM, ENOMEM, NULL, "open the door");
    }
    if (r == 0)
        return d;
    door_close(d);
    return NULL;
}

void door_close(struct door *d)
{
    if (!d)
        return;
    free(d->known);
    jwt_keys_free(d->token_keys);
    free(d);
}

int door_check_bind(const struct config *c, struct err *e)
{
    inherited.config = NULL;
    struct door *d = door_open(c, e);
    if (!d)
        return -1;
    const char *address = c->published_on[0] ? c->published_on : c->host;
    bool guarded =
        origin_host_is_loopback(address) || d->keys.count || d->token_keys || c->allow_public;
    door_close(d);
    if (guarded)
        return 0;
    return err_set(
        e, ERR_USAGE, 0,
        "set CONSTRICTOR_API_KEY (make one with 'openssl rand -hex 32') or --api-key-file; or "
        "--oauth-issuer; or listen on 127.0.0.1, or in a container publish the port there and say "
        "so with CONSTRICTOR_PUBLISHED_ON=127.0.0.1; --allow-public does without, and then every "
        "client that reaches the address may run code",
        "'%s' can be reached from other machines, and no key is set", address);
}

// The new keys; NULL and `e` on failure.
static struct door_keys *reload_keys(const struct config *c, int fd, struct err *e)
{
    size_t length = 0;
    _cleanup_free_ char *text = read_fd(fd, c->api_key_file, DOOR_FILE_MAX, &length, e);
    struct door_keys *k = text ? malloc(sizeof *k) : NULL;
    if (k && keys_take(k, c, TAKE_PTR(text), length, e) == 0)
        return k;
    if (text && !k)
        (void)err_set(e, ERR_SYSTEM, ENOMEM, NULL, "read the keys again");
    free(k);
    return NULL;
}

static struct jwt_keys *reload_token_keys(const struct config *c, int fd, struct err *e)
{
    size_t length = 0;
    _cleanup_free_ char *text = read_fd(fd, c->oauth_keys, JWT_KEYS_FILE_MAX, &length, e);
    struct jwt_keys *keys = text ? jwt_keys_parse(text, length, e) : NULL;
    if (text && !keys)
        (void)err_wrap(e, "oauth-keys '%s'", c->oauth_keys);
    return keys;
}

int door_reload(struct door *d, int key_file, int oauth_keys, struct err *e)
{
    _cleanup_free_ struct door_keys *keys = NULL;
    if (key_file >= 0 && !(keys = reload_keys(d->config, key_file, e)))
        return -1;
    if (oauth_keys >= 0 && d->token_keys) {
        struct jwt_keys *token_keys = reload_token_keys(d->config, oauth_keys, e);
        if (!token_keys)
            return -1;
        jwt_keys_free(d->token_keys);
        d->token_keys = token_keys;
        memset(d->known, 0, KNOWN_TOKENS * sizeof *d->known); // their key may be gone
    }
    if (keys)
        d->keys = *keys;
    return 0;
}

bool door_knows(const struct door *d, const char *owner)
{
    if (!owner[0])
        return d->keys.count == 0 && !d->token_keys;
    if (strchr(owner, ':')) // jwt.c; the name of a key has none
        return d->token_keys != NULL;
    for (size_t i = 0; i < d->keys.count; i++)
        if (strcmp(d->keys.items[i].name, owner) == 0)
            return true;
    return false;
}

// A token's owner has a ':' in its name, so none is called like these keys.
bool door_may_operate(const struct door *d, const char *owner)
{
    size_t own = 0; // a caller may have several keys, an old one and a new one
    for (size_t i = 0; i < d->keys.count; i++)
        own += strcmp(d->keys.items[i].name, owner) == 0;
    return (!d->token_keys && own == d->keys.count) || strcmp(owner, "operator") == 0;
}

bool door_shows_all(const struct door *d, const char *owner)
{
    return door_may_operate(d, owner) || strcmp(owner, "metrics") == 0;
}

json_t *door_names(const struct door *d)
{
    json_t *names = json_object(), *list = json_array(), *ignored;
    const char *name;
    for (size_t i = 0; i < d->keys.count; i++)
        (void)json_object_set_new(names, d->keys.items[i].name, json_true());
    json_object_foreach (names, name, ignored)
        (void)json_array_append_new(list, json_string(name));
    json_decref(names);
    return list;
}

unsigned door_owners(const struct door *d)
{
    return d->token_keys ? DOOR_OWNERS_UNKNOWN : door_keys_owners(&d->keys);
}

// ---- Host and Origin ----------------------------------------------------------------------------

static int refuse(struct door_refusal *ret, int status, const char *code, const char *hint,
                  const char *message)
{
    *ret = (struct door_refusal){.status = status};
    snprintf(ret->code, sizeof ret->code, "%s", code);
    snprintf(ret->message, sizeof ret->message, "%s", message);
    snprintf(ret->hint, sizeof ret->hint, "%s", hint);
    return -1;
}

// A server that listens on every address cannot know which ones clients use, or through which port
// forwarding.  An address in Host is safe there: rebinding needs a name that the attacker owns.
static bool host_is_ours(const struct door *d, const struct origin *host)
{
    const struct config *c = d->config;
    struct origin other;
    if ((d->loopback || d->wildcard) && origin_is_loopback(host))
        return true;
    if (d->wildcard && host->is_address)
        return true;
    if (origin_parse_configured(c->host, &other) == 0 && origin_same_host(host, &other))
        return true;
    if (d->public_url[0] && origin_same_host(host, &d->public_origin))
        return true;
    for (size_t i = 0; i < c->allowed_hosts.count; i++)
        if (origin_parse_configured(c->allowed_hosts.items[i], &other) == 0 &&
            origin_same_host(host, &other) && (other.port < 0 || other.port == host->port))
            return true;
    return false;
}

static int real_port(const struct origin *p, const char *scheme)
{
    if (p->port >= 0)
        return p->port;
    return strcmp(scheme, "https") == 0 ? 443 : 80;
}

static bool origin_is_ours(const struct door *d, const struct origin *origin,
                           const struct origin *host)
{
    const struct config *c = d->config;
    struct origin other;
    if (origin_same_host(origin, host) &&
        real_port(origin, origin->scheme) == real_port(host, origin->scheme))
        return true;
    if (d->loopback && origin_is_loopback(origin))
        return true;
    for (size_t i = 0; i < c->allowed_origins.count; i++) {
        const char *text = c->allowed_origins.items[i];
        size_t n = strlen(text);
        struct slice s = {text, n && text[n - 1] == '/' ? n - 1 : n};
        if (origin_parse(s, &other) == 0 && origin_same_host(origin, &other) &&
            strcmp(origin->scheme, other.scheme) == 0 &&
            real_port(origin, origin->scheme) == real_port(&other, other.scheme))
            return true;
    }
    return false;
}

int door_check_origin(const struct door *d, const struct head *h, struct door_refusal *ret)
{
    struct origin host, origin;
    struct slice from = h->field[HEAD_ORIGIN];
    if (!h->field[HEAD_HOST].p && head_may_lack_host(h))
        return 0;
    if (origin_parse_host(h->field[HEAD_HOST], &host) < 0 || !host_is_ours(d, &host))
        return refuse(
            ret, 403, "host_not_allowed",
            "use the address that the server printed, or start it with --allowed-hosts NAME",
            "the Host header names another server");
    if (!from.p)
        return 0;
    if (from.n >= DOOR_ORIGIN_MAX || origin_parse(from, &origin) < 0 ||
        !origin_is_ours(d, &origin, &host))
        return refuse(
            ret, 403, "origin_not_allowed",
            "start the server with --allowed-origins ORIGIN if that page may run code here",
            "the web page that sent the request may not use this server");
    return 0;
}

// ---- keys and tokens at the door ----------------------------------------------------------------

// WWW-Authenticate.  `error` is NULL when nothing was shown.
static void challenge(const struct door *d, const struct head *h, const char *error,
                      const char *description, struct door_refusal *ret)
{
    char *p = ret->challenge;
    size_t cap = sizeof ret->challenge, n;
    if (!d->token_keys)
        n = (size_t)snprintf(p, cap, "Bearer realm=\"constrictor\"");
    else if (d->public_url[0])
        n = (size_t)snprintf(
            p, cap, "Bearer resource_metadata=\"%s/.well-known/oauth-protected-resource/mcp\"",
            d->public_url);
    else // the Host was checked: it has no quotes
        n = (size_t)snprintf(
            p, cap,
            "Bearer resource_metadata=\"http://%.*s/.well-known/oauth-protected-resource/mcp\"",
            (int)h->field[HEAD_HOST].n, h->field[HEAD_HOST].p);
    if (n < cap && d->token_keys && d->scopes[0])
        n += (size_t)snprintf(p + n, cap - n, ", scope=\"%s\"", d->scopes);
    if (n < cap && error)
        n += (size_t)snprintf(p + n, cap - n, ", error=\"%s\", error_description=\"%s\"", error,
                              description);
    if (n >= cap)
        snprintf(p, cap, "Bearer realm=\"constrictor\"");
}

static int refuse_key(const struct door *d, const struct head *h, const char *code,
                      const char *message, struct door_refusal *ret)
{
    bool missing = strcmp(code, "key_required") == 0;
    (void)refuse(ret, 401, code,
                 d->token_keys
                     ? "send 'Authorization: Bearer TOKEN' with a token for this server"
                     : "send 'Authorization: Bearer KEY' or 'X-API-Key: KEY' with a key that "
                       "the server was started with",
                 message);
    challenge(d, h, missing ? NULL : "invalid_token", message, ret);
    return -1;
}

// The token after "Bearer"; absent for another scheme.
static struct slice bearer(struct slice authorization)
{
    static const char scheme[] = "Bearer ";
    size_t n = sizeof scheme - 1;
    if (!authorization.p || authorization.n <= n || strncasecmp(authorization.p, scheme, n) != 0)
        return (struct slice){0};
    while (n < authorization.n && authorization.p[n] == ' ')
        n++;
    return (struct slice){authorization.p + n, authorization.n - n};
}

static enum jwt_result check_token(struct door *d, struct slice shown, const unsigned char *hash,
                                   int64_t now_s, struct jwt_claims *ret)
{
    struct jwt_rules rules = {d->config->oauth_issuer, d->audience, &d->config->oauth_scopes};
    struct known_token *known = &d->known[hash[0]];
    if (known->claims.expires_s > now_s && memcmp(known->hash, hash, sizeof known->hash) == 0) {
        *ret = known->claims;
        return JWT_OK;
    }
    enum jwt_result r = jwt_check(d->token_keys, &rules, shown.p, shown.n, now_s, ret);
    if (r == JWT_OK) {
        memcpy(known->hash, hash, sizeof known->hash);
        known->claims = *ret;
    }
    return r;
}

static int enter_by_token(struct door *d, const struct head *h, struct slice shown,
                          const unsigned char *hash, int64_t now_s, char *ret_owner,
                          struct door_refusal *ret)
{
    struct jwt_claims claims;
    enum jwt_result r = check_token(d, shown, hash, now_s, &claims);
    if (r == JWT_OK) {
        snprintf(ret_owner, DOOR_OWNER_MAX + 1, "%s", claims.owner);
        return 0;
    }
    if (r != JWT_SCOPE)
        return refuse_key(d, h, "key_invalid", jwt_result_text(r), ret);
    (void)refuse(ret, 403, "insufficient_scope", "get a token with all scopes of the challenge",
                 jwt_result_text(r));
    challenge(d, h, "insufficient_scope", jwt_result_text(r), ret);
    return -1;
}

bool door_asks_user(const struct door *d)
{
    return d->loopback && d->keys.count == 0 && !d->token_keys && !d->config->allow_local_users;
}

int door_check_user(const struct door *d, uid_t peer, struct door_refusal *ret)
{
    char message[sizeof ret->message], who[64];
    if (!door_asks_user(d) || peer == 0 ||
        (peer != (uid_t)-1 && (peer == d->starters[0] || peer == d->starters[1])))
        return 0;
    if (peer == (uid_t)-1)
        snprintf(who, sizeof who, "the user of this connection could not be found");
    else
        snprintf(who, sizeof who, "this connection is of user %u", peer);
    snprintf(message, sizeof message,
             "this server has no key and serves only the user that started it; %s", who);
    return refuse(
        ret, 403, "other_user",
        "use a server of your own; or have its operator set a key (CONSTRICTOR_API_KEY or "
        "--api-key-file) or start it with --allow-local-users",
        message);
}

int door_check_key(struct door *d, const struct head *h, int64_t now_s,
                   char ret_owner[DOOR_OWNER_MAX + 1], struct door_refusal *ret)
{
    struct slice authorization = h->field[HEAD_AUTHORIZATION], token = bearer(authorization),
                 plain = h->field[HEAD_API_KEY], shown = token.p ? token : plain;
    unsigned char hash[SHA256_DIGEST_LENGTH], other[SHA256_DIGEST_LENGTH];
    ret_owner[0] = '\0';
    if (d->keys.count == 0 && !d->token_keys)
        return 0; // door_check_bind() made sure that the operator wants this
    if (!shown.p || shown.n == 0)
        return refuse_key(d, h, "key_required",
                          authorization.p
                              ? "the Authorization header is not of the form 'Bearer KEY'"
                              : "API key required",
                          ret);
    SHA256((const unsigned char *)shown.p, shown.n, hash);
    if (authorization.p && plain.p) {
        SHA256((const unsigned char *)plain.p, plain.n, other);
        if (!token.p || CRYPTO_memcmp(hash, other, sizeof hash) != 0)
            return refuse_key(d, h, "key_invalid", "Authorization and X-API-Key do not agree", ret);
    }
    const char *name = door_keys_find(&d->keys, hash);
    if (name) {
        snprintf(ret_owner, DOOR_OWNER_MAX + 1, "%s", name);
        return 0;
    }
    if (d->token_keys && token.p)
        return enter_by_token(d, h, token, hash, now_s, ret_owner, ret);
    return refuse_key(d, h, "key_invalid", "Invalid API key", ret);
}

// ---- what others are told -----------------------------------------------------------------------

json_t *door_metadata(const struct door *d, const char *host)
{
    char resource[CONFIG_TEXT_MAX + 320];
    if (!d->token_keys)
        return NULL;
    if (d->public_url[0])
        snprintf(resource, sizeof resource, "%s/mcp", d->public_url);
    else
        snprintf(resource, sizeof resource, "http://%s/mcp", host);
    json_t *scopes = json_array();
    for (size_t i = 0; i < d->config->oauth_scopes.count; i++)
        // A refresh token is between client and authorization server; a resource never asks for
        // one.
        if (strcmp(d->config->oauth_scopes.items[i], "offline_access") != 0)
            (void)json_array_append_new(scopes, json_string(d->config->oauth_scopes.items[i]));
    return json_pack("{s:s, s:[s], s:o, s:[s], s:s}", "resource", resource, "authorization_servers",
                     d->config->oauth_issuer, "scopes_supported", scopes,
                     "bearer_methods_supported", "header", "resource_name", "Constrictor");
}

void door_allow_headers(struct slice wanted, char *buf, size_t cap)
{
    static const char prefix[] = "mcp-param-";
    struct slice item;
    size_t at = (size_t)snprintf(
        buf, cap,
        "Content-Type, Accept, Authorization, X-API-Key, Mcp-Session-Id, MCP-Protocol-Version, "
        "Mcp-Method, Mcp-Name, Last-Event-ID, Idempotency-Key");
    while (slice_next(&wanted, &item)) {
        bool clean =
            item.n > sizeof prefix - 1 && strncasecmp(item.p, prefix, sizeof prefix - 1) == 0;
        for (size_t i = 0; clean && i < item.n; i++)
            clean =
                item.p[i] > ' ' && item.p[i] <= '~' && !strchr("\"(),/:;<=>?@[\\]{}", item.p[i]);
        if (clean && at + item.n + 3 < cap)
            at += (size_t)snprintf(buf + at, cap - at, ", %.*s", (int)item.n, item.p);
    }
}
