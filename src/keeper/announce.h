// SPDX-License-Identifier: Apache-2.0
//
// announce: messages that the keeper sends to the gate unasked.

#ifndef CONSTRICTOR_KEEPER_ANNOUNCE_H
#define CONSTRICTOR_KEEPER_ANNOUNCE_H

#include "keeper/broker.h"
#include "keeper/interp.h"
#include "keeper/stock.h"
#include "keeper/zygote.h"

void announce_interpreter(struct stock *s, const struct interp *interp);
void announce_ready(struct stock *s, const struct zygote *zygote);
void announce_failed(struct stock *s, const struct err *e); // there are no boxes

// Opens the files of the plan again, for the gate and for the broker.
void announce_files(struct stock *s, struct keeper_broker *broker, const struct keeper_plan *plan);

#endif
