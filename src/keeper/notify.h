// SPDX-License-Identifier: Apache-2.0
//
// notify: tells the service manager how the server is (sd_notify(3): NOTIFY_SOCKET, WATCHDOG_USEC).
// Runs in the keeper, whose pid the manager knows.  Without a manager every function does nothing.

#ifndef CONSTRICTOR_KEEPER_NOTIFY_H
#define CONSTRICTOR_KEEPER_NOTIFY_H

#include <stdbool.h>

struct notify {
    int sock;  // -1: there is no manager
    int timer; // fires when the manager's watchdog wants a sign of life; -1: it wants none
};

// Reads the environment, and takes the variables out of it: no child may speak for this process.
void notify_open(struct notify *n);
// A line of sd_notify(3), such as "READY=1".
void notify_say(const struct notify *n, const char *text);
// The timer fired.  `alive`: the gate moves; without a sign of life the manager starts the server
// anew.
void notify_tick(const struct notify *n, bool alive);
void notify_close(struct notify *n);

#endif
