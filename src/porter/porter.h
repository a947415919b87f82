// SPDX-License-Identifier: Apache-2.0
//
// porter: the process that writes layers of environments to the disk (shelf.h).  The keeper starts
// it with the environments folder, and again when it dies.  It has the gate's uid, the layers and
// nothing else, no network, and starts nothing: what it reads was written in a box, and the gate,
// which strangers talk to, has no way to the layers but these words.
//
// Who says what:
//   keeper -> porter   NET_LINK (+ a socket to the gate)
//   gate <-> porter    JSON objects, one a datagram of at most PORTER_DATAGRAM bytes.  Job numbers
//   are the gate's.
//     {"op": "store", "job": N, "wheel": "sha256", "bytes_max": n, "files_max": n} + a bundle
//         -> {"op": "stored", "job": N, "layer": "ID", "bytes": n, "files": n}
//        with "scope": "text": not the layer that everybody has for this wheel, but one of that
//        scope
//     {"op": "drop", "job": N, "layer": "ID"} -> {"op": "dropped", "job": N}, also when there was
//     none {"op": "list", "job": N, "after": "ID" or ""} -> {"op": "listed", "job": N, "layers":
//     ["ID"], "more": bool} {"op": "export", "job": N, "manifest": {}, "layers": [{"wheel",
//     "layer"}]} + a file to write
//         -> {"op": "exported", "job": N, "bytes": n}
//     {"op": "import", "job": N, "bytes_max": n, "files_max": n} + a file to read
//         -> {"op": "imported", "job": N, "manifest": {}, "layers": [{"wheel", "layer", "bytes",
//         "files"}]}
//        A manifest that does not fit a datagram: in an export it is the second descriptor, and in
//        an import's answer, which then has "manifest": null, the first.
//     store and import may have "time_max_ms".
//     {"op": "cancel", "job": N}: the job fails with "cancelled", unless it is done.
//     While one goes on: {"op": "progress", "job": N, "bytes": n, "total": n}; total 0: not known.
//     What went wrong: {"op": "failed", "job": N, "code": "...", "message": "...", "hint": "..."}.
// Jobs are done in their order.  Stores that wait for each other share one sync of the disk, so a
// gate should not wait for the answer to one before it sends the next.  A gate that is gone wants
// nothing of what it asked for.

#ifndef CONSTRICTOR_PORTER_PORTER_H
#define CONSTRICTOR_PORTER_PORTER_H

#include "keeper/keeper.h"

enum {
    PORTER_DATAGRAM = 128 * 1024,
    PORTER_QUEUE_MAX = 256,          // jobs that wait; what is more waits in the socket
    PORTER_LIST_MAX = 3000,          // layers in one answer
    PORTER_TIME_MS = 15 * 60 * 1000, // for a job that does not say
    PORTER_SCOPE_MAX = 128,
};

// The whole life of the process; `sock` leads to the keeper.  Its return value is the exit status.
int porter_main(int sock, const struct keeper_facts *facts);

#endif
