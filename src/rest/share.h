// SPDX-License-Identifier: Apache-2.0
// share: reports of sessions, and links to them that need no key.

#ifndef CONSTRICTOR_REST_SHARE_H
#define CONSTRICTOR_REST_SHARE_H

struct http_exchange;
struct rest;
struct rest_shares;

void rest_shares_open(struct rest *rest); // adds the route /share/*
void rest_shares_free(struct rest_shares *all);
// What every document without script is sent with: no one caches, frames or indexes it.
void rest_add_page_headers(struct http_exchange *x, const char *policy);

#endif
