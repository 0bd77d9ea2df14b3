"""A process and its descendants, and the most memory that each has used. Read from Linux's /proc."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

_PROC = Path("/proc")
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class Kind(StrEnum):
    DRIVER = "driver"
    DRIVER_JVM = "driver's JVM"
    EXECUTOR_JVM = "executor's JVM"
    WORKER = "worker"


@dataclass(slots=True)
class PeakMemory:
    """`bytes_of`: by kind of process, the most resident memory that one of them has had at the times of the looks."""

    root: int
    bytes_of: dict[Kind, int] = field(default_factory=dict)

    def look(self) -> None:
        for pid in descendants(self.root):
            kind, peak = _kind(pid, self.root), peak_bytes(pid)
            self.bytes_of[kind] = max(self.bytes_of.get(kind, 0), peak)


def executors(root: int) -> list[int]:
    """The executor JVMs below `root`, oldest first."""
    return sorted(pid for pid in descendants(root) if _kind(pid, root) is Kind.EXECUTOR_JVM)


def descendants(root: int) -> Iterator[int]:
    """`root` and every process below it."""
    children: dict[int, list[int]] = {}
    for pid, status in _statuses():
        children.setdefault(int(status.get("PPid", "0")), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
        yield pid


def _kind(pid: int, root: int) -> Kind:
    if pid == root:
        return Kind.DRIVER
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return Kind.WORKER
    if not arguments[0].endswith(b"java"):
        return Kind.WORKER
    return Kind.EXECUTOR_JVM if any(_EXECUTOR in argument for argument in arguments) else Kind.DRIVER_JVM


def peak_bytes(pid: int) -> int:
    """The most resident memory that a process has had; 0 when it has ended."""
    return int(_status(_PROC / str(pid)).get("VmHWM", "0 kB").removesuffix("kB")) * 1024


def _statuses() -> Iterator[tuple[int, Mapping[str, str]]]:
    for directory in _PROC.iterdir():
        if directory.name.isdigit():
            yield int(directory.name), _status(directory)


def _status(directory: Path) -> dict[str, str]:
    try:
        text = (directory / "status").read_text()
    except OSError:  # it has ended meanwhile
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
