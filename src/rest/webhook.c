// SPDX-License-Identifier: Apache-2.0
//
// webhook: calls the address that a background execution names, when it has ended; see
// executions.h.  A box of its own makes the connection (python/runner/webhook.py): so the broker
// judges it by the rules of the execution's key, names that lead to private addresses are refused,
// certificates are checked, and the gate talks to no foreign server.  It follows no redirect, and
// time, tries and the bytes that it reads are bounded.  Runs in the gate.

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/cleanup.h"
#include "net/policy.h"
#include "rest/executions.h"
#include "run/network.h"
#include "json/dump.h"
#include "json/encode.h"

enum {
    BODY_MAX = 1 << 20, // longer ones go without the result, which the receiver can fetch
    WALL_MS = 75 * 1000,
    MEMORY = 128,
    OUTPUT_MAX = 16 * 1024,
    BUSY_MAX = 5,
    AGAIN_MS = 2000,
    ERROR_MAX = 300,
    SIGNATURE_MAX = 128,
};

static const char code[] = "__import__('runpy').run_path('/opt/constrictor/webhook.py')['main']("
                           "*__import__('sys').argv[1:])";

// ---- the fields ---------------------------------------------------------------------------------

static int check_text(const char *text, size_t length, struct err *e)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f)
            return err_set(e, ERR_BAD_VALUE, 0, "encode it with %XX",
                           "there is a blank or another character in it that no address has");
    return 0;
}

static int read_url(struct webhook *w, json_t *value, struct err *e)
{
    const char *url = json_string_value(value);
    json_auto_t *rules = NULL;
    if (check_text(url, json_string_length(value), e) < 0)
        return -1;
    if (net_url_rule(url, w->rule, e) < 0) {
        err_hint(e, "write it as https://hooks.example.org/path");
        return -1;
    }
    rules = json_pack("[s]", w->rule);
    if (rules && network_parse(w->gate, w->owner, rules, &w->network, e) == 0 &&
        network_wants(w->gate, w->owner, w->network))
        return 0;
    return err_set(e, ERR_NETWORK_NOT_ALLOWED, 0,
                   "wait for the result with GET /api/v1/executions/{id}?wait=60; or ask the "
                   "operator to allow the host: --allow-host or --network-file",
                   "this key may not reach %s", w->rule);
}

int webhook_read(struct webhook *w, struct gate *g, const char *owner, json_t *body, struct err *e)
{
    json_t *url = field_get(body, "webhook", NULL),
           *secret = field_get(body, "webhook_secret", NULL);
    w->gate = g;
    w->owner = owner;
    if (!url && secret)
        return err_set(e, ERR_BAD_VALUE, 0, "give both, or none",
                       "field 'webhook_secret' is there without 'webhook'");
    if (!url)
        return 0;
    if (read_url(w, url, e) < 0)
        return err_wrap(e, "field 'webhook'");
    w->url = strdup(json_string_value(url));
    w->secret = secret ? strdup(json_string_value(secret)) : NULL;
    w->outcome = json_pack("{s:s}", "state", "waiting");
    return w->url && (!secret || w->secret) && w->outcome
               ? 0
               : err_set(e, ERR_SYSTEM, 0, "try again later", "the server is out of memory");
}

// ---- the signature ------------------------------------------------------------------------------

// As the specification "Standard Webhooks" says: "v1," and the base64 of the HMAC-SHA256 of
// "ID.TIMESTAMP.BODY".  A secret "whsec_..." is base64 of the key, any other one is the key.
static bool sign(const struct webhook *w, const char *id, const char *when, char ret[SIGNATURE_MAX])
{
    unsigned char key[WEBHOOK_SECRET_MAX + 1], mac[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    size_t n = strlen(w->secret);
    memcpy(key, w->secret, n);
    if (strncmp(w->secret, "whsec_", 6) == 0 && n > 6) {
        int got = EVP_DecodeBlock(key, (const unsigned char *)w->secret + 6, (int)n - 6);
        n = got < 0 ? 0 : (size_t)got;
        for (const char *p = w->secret + strlen(w->secret); n && p[-1] == '='; p--)
            n--;
        if (n == 0)
            memcpy(key, w->secret, n = strlen(w->secret));
    }
    _cleanup_free_ char *text = NULL;
    int all = asprintf(&text, "%s.%s.%s", id, when, w->body);
    if (all < 0)
        return false;
    if (!HMAC(EVP_sha256(), key, (int)n, (const unsigned char *)text, (size_t)all, mac, &length))
        return false;
    _cleanup_free_ char *base64 = encode_base64(mac, length);
    if (base64)
        snprintf(ret, SIGNATURE_MAX, "v1,%s", base64);
    return base64 != NULL;
}

// ---- the call -----------------------------------------------------------------------------------

static void start(struct webhook *w);

static void set_outcome(struct webhook *w, json_t *outcome)
{
    json_decref(w->outcome);
    w->outcome = outcome;
}

static void fail(struct webhook *w, const char *why)
{
    set_outcome(w, json_pack("{s:s, s:s}", "state", "failed", "error", why));
}

static void on_again(void *argument)
{
    start(argument);
}

// SECURITY: what the box says is about the receiver, and only the caller who named it sees it.
static void take_report(struct webhook *w, json_t *object)
{
    json_t *out = json_object_get(object, "stdout"), *hint = json_object_get(object, "hint");
    json_auto_t *said = json_is_string(out)
                            ? json_loadb(json_string_value(out), json_string_length(out),
                                         JSON_DISABLE_EOF_CHECK, NULL)
                            : NULL;
    json_t *status = json_object_get(said, "status"), *tries = json_object_get(said, "attempts"),
           *error = json_object_get(said, "error");
    if (!json_is_object(said)) {
        fail(w, json_is_string(hint) ? json_string_value(hint) : "it took too long");
        return;
    }
    char text[ERROR_MAX + 1] = "";
    if (json_is_string(error))
        snprintf(text, sizeof text, "%s", json_string_value(error));
    text_sanitize(text);
    set_outcome(w,
                json_pack("{s:s, s:O*, s:O*, s:s*}", "state", text[0] ? "failed" : "delivered",
                          "status", json_is_integer(status) ? status : NULL, "attempts",
                          json_is_integer(tries) ? tries : NULL, "error", text[0] ? text : NULL));
}

static void on_done(struct exec *x)
{
    struct webhook *w = x->request.argument;
    if (!w)
        return;
    w->exec = NULL;
    bool full = x->error.message[0] && x->error.code == ERR_BUSY && w->busy++ < BUSY_MAX;
    if (full && timer_set(&w->again, w->gate->base, AGAIN_MS, on_again, w)) {
        exec_free(x);
        return;
    }
    json_t *object = x->error.message[0] ? NULL : exec_json(x);
    if (object)
        take_report(w, object);
    else
        fail(w, x->error.message[0] ? x->error.message : "the server is out of memory");
    json_decref(object);
    exec_free(x);
    free(TAKE_PTR(w->body));
}

static void start(struct webhook *w)
{
    const char *id = json_string_value(json_object_get(w->outcome, "id"));
    char when[24], signature[SIGNATURE_MAX] = "";
    snprintf(when, sizeof when, "%lld", (long long)time(NULL));
    if (w->secret && !sign(w, id, when, signature)) {
        fail(w, "it could not be signed");
        return;
    }
    const struct config *c = w->gate->facts->config;
    _cleanup_(exec_request_clear) struct exec_request request = {
        .owner = w->owner,
        .code = code,
        .code_length = sizeof code - 1,
        .filename = "<webhook>",
        .argv = json_pack("[s, s, s, s, s]", "<webhook>", w->url, id, when, signature),
        .plain = true, // the server's own code: no policy applies
        .network = json_incref(w->network),
        .limits = keeper_limits(c),
        .has_stdin = true,
        .stdin_text = w->body,
        .stdin_length = strlen(w->body),
        .wall_ms = WALL_MS,
        .output_bytes = OUTPUT_MAX,
        .on_done = on_done,
        .argument = w};
    request.limits.isolation = ISOLATION_NATIVE; // a sandbox has no network
    w->exec = request.argv ? exec_start(w->gate, &request) : NULL;
    if (!w->exec)
        fail(w, "the server is out of memory");
}

void webhook_call(struct webhook *w, const char *id, json_t *object)
{
    json_t *sent = json_copy(object);
    (void)json_object_del(sent, "webhook");
    w->body = sent ? dump_text(sent) : NULL;
    if (w->body && strlen(w->body) > BODY_MAX) { // the receiver can fetch it
        free(TAKE_PTR(w->body));
        (void)json_object_del(sent, "execution");
        (void)json_object_set_new(sent, "execution_omitted", json_true());
        w->body = dump_text(sent);
    }
    json_decref(sent);
    set_outcome(w, json_pack("{s:s, s:s}", "state", "calling", "id", id));
    if (w->body && w->outcome)
        start(w);
    else
        fail(w, "the server is out of memory");
}

void webhook_done(struct webhook *w)
{
    timer_stop(&w->again);
    if (w->exec) {
        w->exec->request.argument = NULL; // on_done() finds nothing to do
        exec_cancel(w->exec);
        exec_free(w->exec);
    }
    free(w->url);
    free(w->secret);
    free(w->body);
    json_decref(w->network);
    json_decref(w->outcome);
}
