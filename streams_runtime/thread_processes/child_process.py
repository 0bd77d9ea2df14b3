"""The process of one stream thread, as the process of its instance sees it: started, spoken to, and waited for.

Rules:
- It is a new interpreter, not a fork: this process may have any number of threads. It finds modules where this one
  finds them. It keeps the lock of the state directory open, so that nobody has the directory before it has ended.
- It dies with this process, also when that is killed: by the kernel's signal where there is one, and because its pipe
  breaks. Signals that people and systems send to a whole process group are left to this process, which drains.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

from streams_runtime.thread_processes.channel import Channel, new_pipe

END_TIMEOUT_S = 10.0
"""How long a process may take to end when its thread has ended: it has only to close its log."""

SIGNALS_OF_THE_INSTANCE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PROGRAM = """
import sys
from multiprocessing.connection import Connection
control = Connection(int(sys.argv[1]))
sys.path[:] = control.recv()
from streams_runtime.thread_processes.child import main
main(control, *map(int, sys.argv[2:]))
"""


class ChildProcess:
    """Started when it is made, by a thread that lives until it has ended: the kernel may take that thread for all of
    this process. `inherited`: open files that it keeps. Raises OSError.
    """

    def __init__(self, inherited: Sequence[int]) -> None:
        control, its_control = new_pipe()
        stores, its_stores = new_pipe()
        self.control, self.stores = Channel(control), Channel(stores)
        arguments = map(str, (its_control.fileno(), its_stores.fileno(), os.getpid(), *inherited))
        # a child inherits the mask: they wait until it can say what they mean to it
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_THE_INSTANCE)
        try:
            self._process = subprocess.Popen(  # noqa: S603 (this interpreter, and words of this file)
                [sys.executable, "-P", "-c", _PROGRAM, *arguments],  # no module of the working directory by mistake
                stdin=subprocess.DEVNULL,
                pass_fds=(its_control.fileno(), its_stores.fileno(), *inherited),
            )
        except BaseException:
            self._close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            its_control.close()
            its_stores.close()
        _say_where_modules_are(control)

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> int:
        """Its pipes are closed, at which it ends at once; when it does not, it is killed. Its exit code."""
        self._close()
        try:
            return self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _close(self) -> None:
        self.control.close()
        self.stores.close()


def how_it_ended(exit_code: int) -> str:
    """In words."""
    if exit_code >= 0:
        return f"ended by itself, with exit code {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"


def _say_where_modules_are(control: Connection) -> None:
    try:
        control.send(sys.path)
    except OSError:
        return  # it is gone already, which the first read of its pipe says
