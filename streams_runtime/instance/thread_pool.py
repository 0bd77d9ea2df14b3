"""Adds and removes the stream threads of one instance, and handles the ends of threads.

Rules:
- Threads can be added and removed while the pool runs (KIP-663). When a thread is removed, it commits its tasks and
  leaves the group.
- After a thread has failed, the user's handler decides what happens. A new thread replaces the failed thread, or the
  instance ends, or the whole application ends. By default, the instance ends.
- The pool ends after a call of `end`, after a shutdown of the application, or when all threads are DEAD. The pool also
  ends after the failure of a thread that is not replaced. After its end has begun, a pool adds no thread.


Source: `KafkaStreams.addStreamThread`, `removeStreamThread`, `handleStreamsUncaughtException`.
"""

import threading
from collections.abc import Callable, Iterator
from itertools import count

from streams_runtime.instance.application import ThreadErrorResponse
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.thread_status import ThreadState
from streams_runtime.membership.member_events import GroupMembershipOperation, MemberEnd

ERRORS_KEPT = 20
"""Only this number of errors is kept. Each error keeps its stack frames in memory, and any number of threads may fail
if failed threads are replaced.
"""


class ThreadPool:
    """Call `start`, then `supervise` on a separate thread. `supervise` returns when every stream thread has ended.
    `make`: a function that makes the thread with an index, and does not start it. The thread has to call
    `thread_changed` after each change of its state. `changed`: a function that is called after each change of a
    thread's state, and after a thread was added or removed. The function `changed` must not block.

    `errors`: the last twenty errors that ended threads, oldest first. `has_failed`: True if the instance has to end,
    because of an error or because the whole application is shut down.
    """

    def __init__(self, make: Callable[[int], StreamThread], changed: Callable[[], None]) -> None:
        self._make = make
        self._on_change = changed
        # The threads by index. Other threads read this dict without a lock. So the dict is not changed in place: a new
        # dict replaces it.
        self._threads: dict[int, StreamThread] = {}
        self._removed: set[StreamThread] = set()
        self._resizing = threading.Lock()
        self._changed = threading.Condition()
        self._has_started = False
        self._ending = False
        self._membership = GroupMembershipOperation.LEAVE_GROUP
        self._failure: Exception | None = None
        self.has_failed = False
        self.errors: list[Exception] = []

    # --- Methods for any thread.

    def __iter__(self) -> Iterator[StreamThread]:
        """Iterates over the present threads."""
        return iter(self._threads.values())

    def __len__(self) -> int:
        """Returns the number of threads. Includes threads that are ending."""
        return len(self._threads)

    @property
    def is_running(self) -> bool:
        """True if every live thread is RUNNING. A live thread is a thread that is not DEAD. The value is also True if
        the pool has no threads. The value is False if the pool has only DEAD threads.
        """
        threads = self._threads.values()
        alive = [thread.state for thread in threads if thread.state is not ThreadState.DEAD]
        return bool(alive or not threads) and all(state is ThreadState.RUNNING for state in alive)

    def has(self, name: str) -> bool:
        return any(thread.name == name for thread in self)

    def start(self, number: int) -> None:
        """Make all threads, then start them. If one thread cannot be made, no thread is started."""
        with self._resizing:
            self._threads = {index: self._make(index) for index in range(number)}
            for thread in self:
                thread.start()
            self._has_started = True

    def add(self) -> StreamThread | None:
        """Start one more thread. Returns the thread, or None if the pool is ending or has not been started."""
        with self._resizing:
            if self._ending or not self._has_started:
                return None
            index = next(free for free in count() if free not in self._threads)
            thread = self._make(index)
            self._threads = {**self._threads, index: thread}
            thread.start()
        self._on_change()
        return thread

    def remove(self, timeout_s: float | None, *, spare: str, wait: bool) -> StreamThread | None:
        """Make one thread commit, leave the group and end. Returns the removed thread. Returns None if there is no
        thread to remove, or if the pool is ending. `spare`: the name of a thread that is removed only if there is no
        other thread. `wait`: True to wait until the thread has ended, at most for `timeout_s`.
        """
        with self._resizing, self._changed:
            if self._ending:
                return None
            alive = [each for each in self if each.state is not ThreadState.DEAD and each not in self._removed]
            thread = next((each for each in alive if each.name != spare), alive[0] if alive else None)
            if thread is None:
                return None
            self._removed.add(thread)
        thread.ask_to_close()
        if wait:
            with self._changed:
                self._changed.wait_for(lambda: thread not in self._removed, timeout_s)
        return thread

    def end(self, membership: GroupMembershipOperation = GroupMembershipOperation.LEAVE_GROUP) -> None:
        """Make `supervise` end every thread. This method does not wait."""
        with self._changed:
            if not self._ending:
                self._membership = membership
            self._ending = True
            self._changed.notify_all()

    def fail(self, error: Exception, response: ThreadErrorResponse) -> None:
        """Make `supervise` end every thread, because of an error of the instance's global thread. `response`: the
        decision of the user's handler. The global thread is never replaced. The global thread is no member of the
        group, so the members of the stream threads report its error when they leave.
        """
        self._failure = error
        self._keep(error)
        if response is ThreadErrorResponse.SHUTDOWN_APPLICATION:
            for thread in self:
                thread.request_shutdown()
        self._fail()

    def thread_changed(self) -> None:
        """Each thread calls this method after a change of its state."""
        self._on_change()
        with self._changed:
            self._changed.notify_all()

    # --- Methods that run on the supervising thread.

    def supervise(self, ending: Callable[[], None]) -> None:
        """Handle each thread that has ended, until the pool has to end. When the pool has to end, end all other
        threads, and wait until they have ended. `ending`: a function that is called before the other threads are ended.
        `ending` is only called after a call of `end`, or after a failure.
        """
        handled: set[StreamThread] = set()  # the dead threads that `_after` has handled
        while not self._must_end(handled):
            for thread in self._dead():
                if thread not in handled:
                    handled.add(thread)
                    self._after(thread)
            # Drop replaced and removed threads from the set, because the set would keep them in memory.
            handled.intersection_update(self)
        if self._ending:
            ending()
        self._end_all()

    def _must_end(self, handled: set[StreamThread]) -> bool:
        """Wait until the pool has to end, or until a thread has ended. Ignores the threads in `handled`. Returns True
        if the pool has to end.
        """
        with self._changed:
            if self._threads and all(thread in handled for thread in self):
                return True
            self._changed.wait_for(lambda: self._ending or any(thread not in handled for thread in self._dead()))
            return self._ending

    def _dead(self) -> list[StreamThread]:
        return [thread for thread in self if thread.state is ThreadState.DEAD]

    def _after(self, thread: StreamThread) -> None:
        thread.join()
        if thread.end is MemberEnd.SHUTDOWN_REQUESTED:
            self._fail()
        if thread.error is not None:
            self._keep(thread.error)
        if thread in self._removed:
            self._forget(thread)
        elif thread.error is not None:
            self._after_error(thread)

    def _after_error(self, thread: StreamThread) -> None:
        if thread.response is ThreadErrorResponse.REPLACE_THREAD:
            self._replace(thread)
            return
        if thread.response is ThreadErrorResponse.SHUTDOWN_APPLICATION and thread.end is None:
            # the member of the failed thread could not send the request, so the members of the other threads send it
            for other in self:
                other.request_shutdown()
        self._fail()

    def _keep(self, error: Exception) -> None:
        self.errors.append(error)
        del self.errors[:-ERRORS_KEPT]

    def _fail(self) -> None:
        self.has_failed = True
        self.end()

    def _replace(self, thread: StreamThread) -> None:
        with self._resizing:
            index = next(index for index, each in self._threads.items() if each is thread)
            replacement = self._make(index)
            self._threads = {**self._threads, index: replacement}
            replacement.start()

    def _forget(self, thread: StreamThread) -> None:
        """Drop a thread that was removed and has ended. An error of this thread does not end the instance."""
        with self._resizing:
            self._threads = {index: each for index, each in self._threads.items() if each is not thread}
        self._on_change()
        with self._changed:
            self._removed.discard(thread)
            self._changed.notify_all()

    def _end_all(self) -> None:
        # the lock is free only after the present call of `add` has ended; later calls of `add` return None
        with self._resizing:
            self._ending = True
            threads = tuple(self)
        # All threads are asked to close before the first thread is joined, so all threads close at the same time.
        for thread in threads:
            thread.ask_to_close(self._membership, self._failure)
        for thread in threads:
            thread.join()
        self.errors += [thread.error for thread in threads if thread.error and thread.error not in self.errors]
        self.has_failed = self.has_failed or any(thread.error is not None for thread in threads)
        with self._changed:
            self._removed.clear()
            self._changed.notify_all()
