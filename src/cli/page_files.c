// SPDX-License-Identifier: Apache-2.0
//
// page_files: see page_files.h.  The files are constants of the program; nothing is read from disk.

#include "cli/page_files.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/web_files.h"

enum { NONCE_BYTES = 18, NONCE_TEXT = 2 * NONCE_BYTES + 1, POLICY_MAX = 640 };

static const char nonce_mark[] = "@NONCE@", asset_prefix[] = "/assets/";

static const struct web_file *find(const char *name)
{
    const struct web_file *f = web_files;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    return f->name ? f : NULL;
}

bool page_files_present(void)
{
    return find("index.html") && find("frame.html");
}

static void add_headers(struct http_exchange *x, const char *policy, const char *cache)
{
    if (policy)
        http_add_header(x, "Content-Security-Policy", policy);
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Referrer-Policy", "no-referrer");
    http_add_header(x, "Cache-Control", cache);
}

// ---- the page -----------------------------------------------------------------------------------

static bool make_nonce(char ret[NONCE_TEXT])
{
    unsigned char bytes[NONCE_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

// The page with the nonce in place of each mark.
static char *with_nonce(const char *page, const char *nonce, size_t *ret_length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_length);
    if (!out)
        return NULL;
    for (const char *mark; (mark = strstr(page, nonce_mark)); page = mark + sizeof nonce_mark - 1)
        fprintf(out, "%.*s%s", (int)(mark - page), page, nonce);
    fputs(page, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

// SECURITY: no script but our files, no eval, no markup from texts (trusted types), no address but
// this server.  The editor makes its style sheet while it runs; the nonce, new for each answer,
// allows that one.
void page_files_index(struct http_exchange *x, void *argument)
{
    const struct web_file *f = find("index.html");
    char nonce[NONCE_TEXT], policy[POLICY_MAX], *text = NULL;
    size_t length = 0;
    (void)argument;
    if (!f || !make_nonce(nonce) || !(text = with_nonce((const char *)f->data, nonce, &length))) {
        http_reply_error(x, 500, "system", "", "memory is out");
        return;
    }
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' "
             "data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
             "require-trusted-types-for 'script'; trusted-types 'none'",
             nonce);
    add_headers(x, policy, "no-store");
    http_add_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    http_reply(x, 200, f->type, text, length);
    free(text);
}

// ---- the frame ----------------------------------------------------------------------------------

// SECURITY: HTML that code has made runs here, and nowhere else.  `sandbox` gives the document an
// origin that nothing shares, however it was opened; and no connection leaves it.
static const char frame_policy[] =
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; "
    "worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

void page_files_frame(struct http_exchange *x, void *argument)
{
    const struct web_file *f = find("frame.html");
    (void)argument;
    if (!f) {
        http_reply_error(x, 404, "not_found", "", "there is no page in this program");
        return;
    }
    add_headers(x, frame_policy, "no-cache");
    http_reply(x, 200, f->type, f->data, f->length);
}

// ---- what both load -----------------------------------------------------------------------------

// Does the client take gzip?  Without the header it takes everything (RFC 9110).
static bool takes_gzip(const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept-Encoding");
    return !accept || strcasestr(accept, "gzip") || strchr(accept, '*');
}

void page_files_asset(struct http_exchange *x, void *argument)
{
    const struct web_file *f = find(x->path + sizeof asset_prefix - 1);
    (void)argument;
    if (!f || strcmp(f->type, "text/html; charset=utf-8") == 0) {
        http_reply_error(x, 404, "not_found", "load the page again: the server has another version",
                         "there is no such file of the page");
        return;
    }
    if (f->gzip && !takes_gzip(x)) {
        http_reply_error(x, 406, "not_acceptable", "send 'Accept-Encoding: gzip'",
                         "this file exists only compressed by gzip");
        return;
    }
    if (f->gzip)
        http_add_header(x, "Content-Encoding", "gzip");
    http_add_header(x, "Vary", "Accept-Encoding");
    add_headers(x, NULL, "public, max-age=31536000, immutable");
    http_reply(x, 200, f->type, f->data, f->length);
}
