// SPDX-License-Identifier: Apache-2.0
//
// proxy: see proxy.h.  Pure.

#include "net/proxy.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static int bad(const char *why, struct err *e)
{
    return err_set(e, ERR_BAD_VALUE, 0, "write it as http://proxy.example.org:3128",
                   "--index-proxy: %s", why);
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

// "%40" is '@' in a user or a password.
static int read_login(const char *text, size_t length, char ret[NET_LOGIN_MAX + 1], struct err *e)
{
    unsigned char plain[NET_LOGIN_MAX / 2];
    size_t n = 0;
    if (length > sizeof plain)
        return bad("user and password are too long", e);
    for (size_t i = 0; i < length; i++) {
        int value = (unsigned char)text[i];
        if (text[i] == '%' && i + 2 < length && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            value = hex(text[i + 1]) * 16 + hex(text[i + 2]);
            i += 2;
        }
        if (value < ' ' || value == 127)
            return bad("user or password have a control character", e);
        plain[n++] = (unsigned char)value;
    }
    size_t at = (size_t)snprintf(ret, NET_LOGIN_MAX + 1, "Basic ");
    (void)EVP_EncodeBlock((unsigned char *)ret + at, plain, (int)n); // 4 for 3, and a NUL: it fits
    return 0;
}

int net_proxy_parse(const char *url, struct net_proxy *ret, struct err *e)
{
    *ret = (struct net_proxy){.port = 80};
    if (strncmp(url, "http://", 7) != 0)
        return bad("it does not begin with http://", e);
    const char *from = url + 7;
    size_t n = strcspn(from, "/?#");
    if (from[n] && strcmp(from + n, "/") != 0)
        return bad("text follows its host and port", e);
    for (size_t i = n; i-- > 0;)
        if (from[i] == '@') {
            if (read_login(from, i, ret->login, e) < 0)
                return -1;
            from += i + 1;
            n -= i + 1;
            break;
        }
    bool bracket = from[0] == '[';
    size_t length = bracket ? strcspn(from, "]") : strcspn(from, ":/?#");
    const char *host = from + bracket;
    size_t host_length = length - bracket, end = length + bracket;
    uint64_t port;
    char text[8];
    if (host_length == 0 || host_length > NET_HOST_MAX || length >= n + 1 || end > n)
        return bad("there is no host in it", e);
    memcpy(ret->host, host, host_length);
    if (end == n)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)(n - end - 1 < 7 ? n - end - 1 : 7), from + end + 1);
    if (from[end] != ':' || text_parse_u64(text, 1, 65535, &port) < 0)
        return bad("its port is not a number from 1 to 65535", e);
    ret->port = (uint16_t)port;
    return 0;
}
