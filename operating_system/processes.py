"""Functions for the limit of open files, errors of the operating system, freed memory, and forks.

Both the coordinator and the Streams runtime use this module, and neither imports the other. `raise_open_file_limit`
changes a limit of the calling process.

After a fork, the child process has copies of the open files, connections and locks of the parent's threads. SQLite
forbids the child to use or even close a connection of its parent. Spark forks worker processes from a parent process
that may have open SQLite connections. For this reason, objects can be registered with `reset_in_children`. The child
process resets these objects before it runs any other code.
"""

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
    """Return the advice for an error of the operating system; None for an error without advice.

    `error`: an OSError, or the text of a library's error. RocksDB and httpx include the system's message in the texts
    of their errors.
    """
    if isinstance(error, OSError):
        return _ADVICE.get(error.errno or 0)
    return next((advice for number, advice in _ADVICE.items() if os.strerror(number) in error), None)


def with_advice(error: OSError | str) -> str:
    """Return the error's text and, if there is advice for the error, the advice."""
    advice = advice_of(error)
    return str(error) if advice is None else f"{error}; {advice}"


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard limit, as a JVM does when it starts. Returns the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # a system may refuse its own hard limit as the soft limit, so the soft limit is read again below
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def return_freed_memory() -> None:
    """Give freed memory back to the operating system. The library glibc keeps freed memory until `malloc_trim` is
    called. Other C libraries give freed memory back by themselves. After many allocations, `malloc_trim` takes
    milliseconds. It does not hold the interpreter lock.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    import ctypes

    return getattr(ctypes.CDLL(None), "malloc_trim", None)


class SurvivesFork(Protocol):
    def reset_after_fork(self) -> None:
        """Drop everything that belongs to the parent process. After a fork, the only thread of the child process calls
        this method.
        """
        ...


_surviving: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()


def reset_in_children(holder: SurvivesFork) -> None:
    _surviving.add(holder)


def _reset_all() -> None:
    for holder in list(_surviving):
        holder.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all)


def freeze_loaded_objects() -> None:
    """Exclude all present objects (modules, classes, functions) from later garbage collections.

    A full collection visits every object, and the modules of a process have a few hundred thousand objects. A server
    calls this function after all modules were loaded. Reference cycles among the present objects are then never freed.
    """
    gc.collect()
    gc.freeze()
