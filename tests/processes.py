"""Which processes run on this machine, as /proc has them."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path


def children(pid: int) -> dict[int, str]:
    """Those that this one has started, with their command lines."""
    return {
        child: " ".join(command) for child, directory, command in _running() if _parent(directory) == pid and command
    }


def processes_with(argument: str) -> set[int]:
    """Those that have it on their command line."""
    return {pid for pid, _, command in _running() if argument in command}


def is_running(pid: int) -> bool:
    """A process that has ended and that nobody has waited for is not."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(") ")[2].split()[0] != "Z"
    return False


def wait_until_gone(pids: Iterable[int], timeout_s: float) -> None:
    """Until none of them runs. Raises AssertionError when time is up."""
    deadline_s = time.monotonic() + timeout_s
    for pid in pids:
        while is_running(pid):
            assert time.monotonic() < deadline_s, f"process {pid} still runs"
            time.sleep(0.01)


def _running() -> Iterator[tuple[int, Path, list[str]]]:
    """Each with the parts of its command line, which is empty once it has ended."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                command = (directory / "cmdline").read_text(errors="replace").split("\0")[:-1]
                yield int(directory.name), directory, command


def _parent(directory: Path) -> int | None:
    with contextlib.suppress(OSError):
        return int((directory / "stat").read_text().rpartition(") ")[2].split()[1])
    return None
