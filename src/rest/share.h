// SPDX-License-Identifier: Apache-2.0
// share: reports of sessions, and links to them that need no key.

#ifndef CONSTRICTOR_REST_SHARE_H
#define CONSTRICTOR_REST_SHARE_H

struct rest;
struct rest_shares;

void rest_shares_open(struct rest *rest); // adds the route /share/*
void rest_shares_free(struct rest_shares *all);

#endif
