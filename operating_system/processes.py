"""The limit of open files, advice for errors of the operating system, freed memory, and objects to reset after a fork.

The service and the runtime both need this, and neither imports the other. `raise_open_file_limit` changes this process.

The child of a fork gets copies of open files, connections and locks that belong to the parent's threads. SQLite forbids
using such a connection in the child, and even closing it. Spark forks processes that may hold a log which their parent
has opened. So `reset_in_children` registers objects that are reset in the child before anything else runs there.
"""

from __future__ import annotations

import errno
import gc
import os
import resource
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Protocol

_ADVICE: Mapping[int, str] = {
    errno.EMFILE: "raise this process's limit of open files (ulimit -n; LimitNOFILE= of a systemd unit)",
    errno.ENFILE: "raise this machine's limit of open files (fs.file-max), or end the processes that use them up",
    errno.ENOSPC: "free space on this disk",
    errno.EDQUOT: "free space on this disk, or raise the quota of this process's user",
    errno.EACCES: "give this process's user the right to read and write there",
    errno.EPERM: "give this process's user the right to read and write there",
    errno.EROFS: "mount this file system for writing, or name a directory on another one",
    errno.EIO: "the disk failed; the machine's log says more",
    errno.ENOMEM: "free memory on this machine, or give this process more",
}


def advice_of(error: OSError | str) -> str | None:
    """Advice for an error of the operating system; None for any other error, and for one without advice.

    `error`: also the text of a library's error that contains the system's message, as those of RocksDB and httpx do.
    """
    if isinstance(error, OSError):
        return _ADVICE.get(error.errno or 0)
    return next((advice for number, advice in _ADVICE.items() if os.strerror(number) in error), None)


def with_advice(error: OSError | str) -> str:
    """The error's text, followed by the advice for it, if there is one."""
    advice = advice_of(error)
    return str(error) if advice is None else f"{error}; {advice}"


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard one, as a JVM does when it starts. Returns the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # a system may refuse its own hard limit, so the limit is read back below
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def return_freed_memory() -> None:
    """Return the memory that this process has freed to the operating system. glibc keeps it (`malloc_trim`); other C
    libraries return it by themselves. Takes milliseconds after a burst, without the interpreter lock.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    import ctypes  # a Python without ctypes works, and returns no memory

    return getattr(ctypes.CDLL(None), "malloc_trim", None)


class SurvivesFork(Protocol):
    def reset_after_fork(self) -> None:
        """Drop everything that belongs to the parent. Called in the child, which has a single thread."""
        ...


_surviving: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()


def reset_in_children(holder: SurvivesFork) -> None:
    _surviving.add(holder)


def _reset_all() -> None:
    for holder in list(_surviving):
        holder.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all)


def freeze_loaded_objects() -> None:
    """Have the collector never look at the present objects again: modules, classes, functions.

    A full collection looks at every object, and the modules of a process are a few hundred thousand. For a process that
    only serves, to call once when everything is loaded: cycles among these objects are never freed.
    """
    gc.collect()
    gc.freeze()
