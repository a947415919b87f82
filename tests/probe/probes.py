# SPDX-License-Identifier: Apache-2.0
"""The probe table: every way out that we know of, as data.

PROBES holds the snippets (in five parts, by subject) with what must happen inside a box and what
happens outside. Rows that need a box of their own, a second box or a look from the host are tests
elsewhere: ELSEWHERE names them. LATER names the rows whose subject does not exist in the program
yet. test_probes.py checks that together they are the whole table, so that no row can be
forgotten.
"""

import table_arguments
import table_files
import table_proc
import table_process
import table_syscalls

PROBES = (
    *table_syscalls.PROBES,
    *table_arguments.PROBES,
    *table_process.PROBES,
    *table_proc.PROBES,
    *table_files.PROBES,
)

# The numbers of the design's probe table.
ROWS = {
    *(1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 19, 21, 22, 24, 25, 26, 27, 29),
    *(31, 32, 33, 34, 35, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 51, 52, 55, 56),
    *(61, 62, 65, 66, 67, 68, 72, 73, 75, 76, 81, 82, 83, 85, 87, 88, 89, 90, 93, 94, 95, 98, 100),
}

# row: (file below tests/, test)
ELSEWHERE = {
    24: ("probe/test_sweep.py", "test_sweep"),
    51: ("api/test_verdicts.py", "test_inode_bomb"),
    52: ("api/test_verdicts.py", "test_disk_bomb"),
    68: ("probe/test_forge.py", "test_frames_on_stdout_are_text"),
    73: ("api/test_verdicts.py", "test_output_flood"),
    75: ("api/test_verdicts.py", "test_fork_bomb"),
    76: ("api/test_verdicts.py", "test_daemon_is_gone"),
    81: ("api/test_verdicts.py", "test_timers_left_behind"),
    83: ("api/test_verdicts.py", "test_memory_bomb"),
    85: ("api/test_limits.py", "test_peak_memory_stays_below_the_limit"),
    87: ("api/test_verdicts.py", "test_pool_worker_out_of_memory"),
}

LATER = {
    31: "network for code",
    32: "network for code",
    33: "network for code",
    34: "network for code",
    55: "uploads",
    56: "artifacts",
    61: "artifacts",
    62: "artifacts: the host does not read scratch yet",
    72: "displays",
    88: "a processor quota; today CPU seconds are limited",
    100: "other backends",
}
