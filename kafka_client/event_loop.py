"""An event loop in its own thread. Other threads run coroutines in this loop, and wait for the results.

Rules: any thread except the loop's own thread may call `run`, and several threads may call `run` at the same time.
After a fork, the child process lacks the loop's thread. So the child's next call starts a new thread and loop.
Connections and other objects of the old loop belong to the parent process, and the child process does not use them.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from operating_system.processes import reset_in_children

T = TypeVar("T")

_LONGEST_STOP_S = 5.0


class EventLoopThread:
    """An event loop in its own thread, which starts with the first `run` or `call_soon`. `close` ends the thread and
    cancels all coroutines in it.
    """

    def __init__(self, name: str = "kafka-client") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        reset_in_children(self)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine and returns its result.

        Raises RuntimeError if the loop is closed before or during the call, or if the caller is the loop's own thread.
        """
        try:
            if self._thread is threading.current_thread():
                raise RuntimeError(f"{self._name}: a call from the loop's own thread would never end")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError(f"{self._name} was closed") from None
        finally:
            future.cancel()

    def call_soon(self) -> Callable[..., object]:
        """Returns the loop's function `call_soon_threadsafe(function, *arguments)`, which makes the loop call a plain
        function. Any thread may call the returned function. The loop calls the plain functions in the order in which it
        gets them. The loop does not return the results of these functions. The loop is started if it does not run yet.
        Calling a plain function is cheaper than running a coroutine. Raises RuntimeError after `close`.
        """
        return self._running().call_soon_threadsafe

    def close(self) -> None:
        """Cancels all coroutines and ends the thread. `close` may be called more than once."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_LONGEST_STOP_S)

    def reset_after_fork(self) -> None:
        """Resets this object in the child process after a fork. The loop's thread does not exist in the child process.
        The child process needs a new lock, because a thread of the parent may have held the old lock.
        """
        if self._loop is not None:
            _PARENTS_LOOPS.append(self._loop)
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self._name} is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:  # the end of this block cancels all coroutines
        runner.get_loop().run_forever()


# After a fork, the child process keeps its parent's loops in this list forever. If the child freed such a loop, the
# parent's sockets would be removed from the epoll set that both processes share.
_PARENTS_LOOPS: list[asyncio.AbstractEventLoop] = []


async def first_of(*coroutines: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutines until one coroutine ends. Returns the result of this coroutine, or raises its exception. If
    several coroutines end at the same time, uses the coroutine that comes first in the arguments. All other coroutines
    are cancelled and awaited.
    """
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
