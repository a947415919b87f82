// SPDX-License-Identifier: Apache-2.0
//
// pages: the pages that a run reads and writes to, learned once per zygote.
//
// A box begins as a copy of the zygote whose pages are shared until they are written to, and each
// first write is a page fault.  So the zygote lets a throw-away child rehearse a run and asks the
// kernel which pages the child wrote to.  Every box copies just these before it is needed.  The
// stem maps the pages that a run only reads, one by one, and each fork copies these entries: by
// default the kernel maps sixteen pages where one is read, and each fork copies and each exit drops
// all of them.

#ifndef CONSTRICTOR_BOX_PAGES_H
#define CONSTRICTOR_BOX_PAGES_H

#include <stdbool.h>

// In the zygote, before the fork of a child that rehearses.  0 or a negative errno.
int pages_begin(void);

// In the child, before the rehearsal: from here on every use of a page leaves a trace.
void pages_watch(void);

// In the child, after the rehearsal: notes which pages were used.  0 or a negative errno.
int pages_report(void);

// In the zygote, when the child has ended well: takes its report, either for boxes made ahead or
// (`hurry`) for boxes that a run waits for, which copy only what every run writes to.
void pages_take(bool hurry);

// In the zygote, after the last report, and in any case before the first box.
void pages_end(void);

// In a stem, before its first box: maps what every run reads.  The caller has one thread.
// Not in the zygote: the kernel keeps one list, with one lock, of all copies of a mapping.  Every
// page that a fork copies or an exit drops takes that lock.  Mapped in stems, each slot has a list
// of its own.
void pages_map(void);

// In a new box, as soon as it is in its cgroup.  mapped: it comes from a stem that did the above.
// The learned pages must still be mapped: the caller's memory is a copy of the zygote's, which has
// always had one thread.
void pages_touch(bool hurry, bool mapped);

#endif
