# SPDX-License-Identifier: Apache-2.0
"""The probe table: every way out that we know of, as data.

PROBES holds the snippets (in five parts, by subject) with what must happen inside a box and what
happens outside. Rows that need a box of their own, a second box or a look from the host are tests
elsewhere: ELSEWHERE names them. test_probes.py checks that every number of ROWS has its probe or
test, so that none can get lost.
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

# Each number belongs to one way out (`row` of a probe), and is never given to another.
ROWS = {
    *(1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 19, 21, 22, 24, 25, 26, 27, 29),
    *(35, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 51, 52, 65, 66, 67, 68, 73, 75, 76),
    *(81, 82, 83, 85, 87, 89, 90, 93, 94, 95, 98),
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
