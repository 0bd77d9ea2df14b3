"""What this process has done and used until now, for the programs in Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """`records`: processed since the start. Times in nanoseconds; CPU of this process, or of those that run instances
    for it, and of the threads that process records alone.
    """

    records: int
    wall_ns: int
    process_ns: int
    threads_ns: int

    @classmethod
    def now(cls, records: int, threads: Collection[str]) -> Figures:
        """`threads`: names of those that process records."""
        threads_ns = sum(
            time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))
            for thread in threading.enumerate()
            if thread.name in threads and thread.ident is not None
        )
        return cls(records, time.perf_counter_ns(), time.process_time_ns(), threads_ns)

    @classmethod
    def of_processes(cls, records: int, processes: Collection[int]) -> Figures:
        """`processes`: ids of those that run instances, of whose threads nobody else knows the CPU."""
        cpu_ns = sum(time.clock_gettime_ns(_cpu_clock_of(process)) for process in processes)
        return cls(records, time.perf_counter_ns(), cpu_ns, cpu_ns)

    def since(self, begun: Figures) -> str:
        """As a program answers: records, wall, CPU of the process and of the threads."""
        return (
            f"{self.records - begun.records} {self.wall_ns - begun.wall_ns} "
            f"{self.process_ns - begun.process_ns} {self.threads_ns - begun.threads_ns}"
        )


def _cpu_clock_of(process: int) -> int:
    """As clock_getcpuclockid(3) says it on Linux; Python has it for threads only."""
    return ~process << 3 | 2
