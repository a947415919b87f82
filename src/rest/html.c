// SPDX-License-Identifier: Apache-2.0
//
// html: see html.h.
//
// SECURITY: the policy lets the browser load, run, send and frame nothing, whatever the text is.

#include "rest/html.h"

#include <openssl/evp.h>
#include <string.h>

static void put_character(FILE *f, unsigned char c)
{
    switch (c) {
    case '<': fputs("&lt;", f); break;
    case '>': fputs("&gt;", f); break;
    case '&': fputs("&amp;", f); break;
    case '"': fputs("&quot;", f); break;
    case '\'': fputs("&#39;", f); break;
    default:
        if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
            fputs("\xEF\xBF\xBD", f); // U+FFFD
        else
            fputc(c, f);
    }
}

void html_put_bytes(FILE *f, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        put_character(f, (unsigned char)text[i]);
}

void html_put(FILE *f, const char *text)
{
    if (text)
        html_put_bytes(f, text, strlen(text));
}

void html_policy(const char *style, const char *more, char policy[HTML_POLICY_MAX])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE] = ""; // if it stays so, the document has no style
    unsigned length = 0;
    if (EVP_Digest(style, strlen(style), hash, &length, EVP_sha256(), NULL) == 1)
        (void)EVP_EncodeBlock((unsigned char *)text, hash, (int)length);
    snprintf(policy, HTML_POLICY_MAX,
             "default-src 'none'; style-src 'sha256-%s'; %sbase-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'",
             text, more);
}

void html_begin(FILE *f, const char *policy)
{
    // A document cannot say by itself who may frame it, nor put itself into a sandbox.
    fprintf(f,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"%.*s\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
            (int)(strstr(policy, "; frame-ancestors") - policy), policy);
}
