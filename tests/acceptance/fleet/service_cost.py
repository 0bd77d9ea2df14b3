"""What a service used: processor seconds of its process and all below it, and counters of its /metrics.

Seconds of CPU say how much work something was, however busy the machine is. Read from Linux's /proc.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.acceptance.fleet.http_connection import Address, HttpConnection

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_tree(root: int) -> list[int]:
    """`root` and every process below it that runs."""
    children: dict[int, list[int]] = {}
    for directory in _PROC.iterdir():
        if directory.name.isdigit() and (fields := _stat(int(directory.name))):
            children.setdefault(int(fields[1]), []).append(int(directory.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """Of the process and all below it, those included that have ended and were waited for."""
    fields = [_stat(pid) for pid in process_tree(root)]
    return sum(sum(int(each) for each in of_one[11:15]) for of_one in fields if of_one) / _TICKS_PER_S


async def metric(address: Address, name: str) -> float:
    """The value of a metric without labels."""
    answer = await HttpConnection(address).ask("GET", "/metrics")
    found = re.search(rf"^{name} (\S+)$", answer.body.decode(), re.MULTILINE)
    assert found is not None, f"{name} is not in /metrics"
    return float(found[1])


def _stat(pid: int) -> list[str]:
    """The fields behind the name, the state first; none when it has ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
