"""How much processor time processes have used, with everything below them. Read from Linux's /proc."""

import os
from pathlib import Path

from benchmarks.process_tree import descendants

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_AFTER_THE_NAME = slice(11, 15)
"""utime, stime, and both of children that have ended, counted from the state of the process. Source: proc(5)."""


def processor_s(*roots: int) -> float:
    """Seconds of the processes, of all that run below them, and of all that ended there and were waited for."""
    return sum(_of_one(pid) for root in roots for pid in descendants(root))


def _of_one(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended meanwhile; its parent has its time
        return 0.0
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[_AFTER_THE_NAME])) / _TICKS_A_SECOND
