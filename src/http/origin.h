// SPDX-License-Identifier: Apache-2.0
//
// origin: names of servers and web pages: the values of Host and Origin.  Called by door.c on
// untrusted text and on the configuration; touches nothing but its arguments.

#ifndef CONSTRICTOR_HTTP_ORIGIN_H
#define CONSTRICTOR_HTTP_ORIGIN_H

#include <stdbool.h>

#include "http/head.h"

struct origin {
    char scheme[8]; // "http", "https" or "" (a Host has none)
    char name[256]; // lower case; an IPv6 address without its brackets, in its shortest form
    bool is_address;
    int port; // -1: not given
};

// All return 0 or -1.
int origin_parse_host(struct slice text, struct origin *ret); // "localhost:8000", "[::1]"
int origin_parse(struct slice text, struct origin *ret);      // "https://app.example.org"
int origin_parse_url(const char *url, struct origin *ret);    // an origin with any path behind it
int origin_parse_configured(const char *text,
                            struct origin *ret); // a Host; IPv6 also without brackets

bool origin_same_host(const struct origin *a, const struct origin *b); // whatever the ports
bool origin_is_loopback(const struct origin *p); // a name or address that only this machine reaches
bool origin_host_is_loopback(const char *host);
bool origin_host_is_wildcard(const char *host); // every address of the machine

#endif
