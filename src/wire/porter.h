// SPDX-License-Identifier: Apache-2.0
//
// wire/porter: what the gate and the porter say to each other.
//
// Each datagram is one JSON object of at most PORTER_DATAGRAM bytes, perhaps with descriptors.  The
// gate chooses the number of a request ("job").
//   gate -> porter
//     {"op": "store", "job": N, "wheel": "sha256", "bytes_max": n, "files_max": n} + a bundle
//         -> {"op": "stored", "job": N, "layer": "ID", "bytes": n, "files": n}
//        With "scope": "text" it is not the copy of this wheel that all share, but one of that
//        scope.
//     {"op": "drop", "job": N, "layer": "ID"}
//         -> {"op": "dropped", "job": N}, also when there was none
//     {"op": "list", "job": N, "after": "ID" or ""}
//         -> {"op": "listed", "job": N, "layers": ["ID"], "more": bool}
//     {"op": "export", "job": N, "manifest": {}, "layers": [{"wheel", "layer"}]} + a file to write
//         -> {"op": "exported", "job": N, "bytes": n}
//     {"op": "import", "job": N, "bytes_max": n, "files_max": n} + a file to read
//         -> {"op": "imported", "job": N, "manifest": {},
//             "layers": [{"wheel", "layer", "bytes", "files"}]}
//        A manifest that does not fit in a datagram is a file: the second descriptor of an export,
//        the first of the answer to an import, which then has "manifest": null.
//     store and import may have "time_max_ms".
//     {"op": "cancel", "job": N}: the request fails with "cancelled", unless it is done.
//   porter -> gate, besides the answers above
//     {"op": "progress", "job": N, "bytes": n, "total": n}: total 0: not known
//     {"op": "failed", "job": N, "code": "...", "message": "...", "hint": "..."}
//
// The porter works on requests in their order.  Stores that wait together share one sync of the
// disk, so a gate should not wait for one answer before it sends the next.  When a gate ends, the
// porter drops its requests.

#ifndef CONSTRICTOR_WIRE_PORTER_H
#define CONSTRICTOR_WIRE_PORTER_H

enum {
    PORTER_DATAGRAM = 128 * 1024,
    PORTER_QUEUE_MAX = 256,          // requests that wait; what is more waits in the socket
    PORTER_LIST_MAX = 3000,          // wheels in one answer
    PORTER_TIME_MS = 15 * 60 * 1000, // for a request without "time_max_ms"
    PORTER_SCOPE_MAX = 128,
};

#endif
