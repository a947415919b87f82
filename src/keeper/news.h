// SPDX-License-Identifier: Apache-2.0
//
// news: what the keeper tells the gate without having been asked.

#ifndef CONSTRICTOR_KEEPER_NEWS_H
#define CONSTRICTOR_KEEPER_NEWS_H

#include "keeper/broker.h"
#include "keeper/interp.h"
#include "keeper/stock.h"
#include "keeper/zygote.h"

void news_interpreter(struct stock *s, const struct interp *interp);
void news_ready(struct stock *s, const struct zygote *zygote);
void news_failed(struct stock *s, const struct err *e); // there are no boxes

// Opens the files of the plan again, for the gate and for the broker.
void news_files(struct stock *s, struct keeper_broker *broker, const struct keeper_plan *plan);

#endif
