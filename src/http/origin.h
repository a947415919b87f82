// SPDX-License-Identifier: Apache-2.0
//
// place: the names by which servers and web pages are known: the values of Host and Origin.  Called
// by door.c on text of strangers and of the configuration; touches nothing but its arguments.

#ifndef CONSTRICTOR_HTTP_ORIGIN_H
#define CONSTRICTOR_HTTP_ORIGIN_H

#include <stdbool.h>

#include "http/head.h"

struct place {
    char scheme[8]; // "http", "https" or "" (a Host has none)
    char name[256]; // lower case; an IPv6 address without its brackets, in its shortest form
    bool is_address;
    int port; // -1: not given
};

// All return 0 or -1.
int place_parse_host(struct slice text, struct place *ret);   // "localhost:8000", "[::1]"
int place_parse_origin(struct slice text, struct place *ret); // "https://app.example.org"
int place_parse_url(const char *url, struct place *ret);      // an origin with any path behind it
int place_parse_configured(const char *text,
                           struct place *ret); // a Host; IPv6 also without brackets

bool place_same_host(const struct place *a, const struct place *b); // whatever the ports
bool place_is_loopback(const struct place *p); // a name or address that only this machine reaches
bool place_host_is_loopback(const char *host);
bool place_host_is_wildcard(const char *host); // every address of the machine

#endif
