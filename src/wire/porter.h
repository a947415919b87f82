// SPDX-License-Identifier: Apache-2.0
//
// wire/porter: what the gate and the porter say to each other.
//
// Each datagram is one JSON object of at most PORTER_DATAGRAM bytes, perhaps with descriptors.  The
// gate chooses the number N of a request.
//   gate -> porter
//     {"op": "store", "request": N, "sha256": "hex digits", "bytes_max": n, "files_max": n}
//        + a bundle
//         -> {"op": "stored", "request": N, "wheel": "ID", "bytes": n, "files": n}
//        With "scope": "text" it is not the unpacked wheel that all share, but one of that
//        scope.
//     {"op": "drop", "request": N, "wheel": "ID"}
//         -> {"op": "dropped", "request": N}, also when there was none
//     {"op": "list", "request": N, "after": "ID" or ""}
//         -> {"op": "listed", "request": N, "wheels": ["ID"], "more": bool}
//     {"op": "export", "request": N, "manifest": {}, "wheels": [{"sha256", "wheel"}]}
//        + a file to write
//         -> {"op": "exported", "request": N, "bytes": n}
//     {"op": "import", "request": N, "bytes_max": n, "files_max": n} + a file to read
//         -> {"op": "imported", "request": N, "manifest": {},
//             "wheels": [{"sha256", "wheel", "bytes", "files"}]}
//        A manifest that does not fit in a datagram is a file: the second descriptor of an export,
//        the first of the answer to an import, which then has "manifest": null.
//     store and import may have "time_max_ms".
//     {"op": "cancel", "request": N}: the request fails with "cancelled", unless it is done.
//   porter -> gate, besides the answers above
//     {"op": "progress", "request": N, "bytes": n, "total": n}: total 0: not known
//     {"op": "failed", "request": N, "code": "...", "message": "...", "hint": "..."}
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
