"""What follows when a thread of an instance ends, with threads that only say in which state they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import cast

import pytest

from streams_runtime.instance.application import ThreadErrorResponse
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.thread_pool import ThreadPool
from streams_runtime.instance.thread_status import ThreadState
from streams_runtime.membership.member_events import MemberEnd


class ToldThread:
    """Stands for a stream thread that does what the test says."""

    def __init__(self, index: int, pool: Pool) -> None:
        self.name = f"thread-{index}"
        self.state = ThreadState.CREATED
        self.error: Exception | None = None
        self.response: ThreadErrorResponse | None = None
        self.end: MemberEnd | None = None
        self.reports: Exception | None = None
        self._pool = pool

    def start(self) -> None:
        self.become(ThreadState.RUNNING)

    def ask_to_close(self, membership: object = None, failure: Exception | None = None) -> None:
        self.reports = failure
        self.become(ThreadState.DEAD)

    def join(self) -> None:
        assert self.state is ThreadState.DEAD

    def fail(self, error: Exception, response: ThreadErrorResponse) -> None:
        self.error, self.response = error, response
        self.become(ThreadState.DEAD)

    def become(self, state: ThreadState) -> None:
        self.state = state
        self._pool.threads.thread_changed()


class Pool:
    """A pool of such threads, under supervision once it has started."""

    def __init__(self) -> None:
        self.threads = ThreadPool(self._make, lambda: None)
        self.made: list[ToldThread] = []
        self.ended_living = False
        self.fails_from = 99
        self._supervisor = threading.Thread(target=self.threads.supervise, args=[self._ending], daemon=True)

    def start(self, number: int) -> None:
        self.threads.start(number)
        self._supervisor.start()

    def wait(self) -> None:
        if self._supervisor.ident is not None:
            self._supervisor.join(30.0)
        assert not self._supervisor.is_alive()

    def _ending(self) -> None:
        self.ended_living = True

    def _make(self, index: int) -> StreamThread:
        if index >= self.fails_from:
            raise ValueError(f"no thread {index}")
        thread = ToldThread(index, self)
        self.made.append(thread)
        return cast(StreamThread, thread)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.threads.end()
    made.wait()


def names(pool: Pool) -> list[str]:
    return [thread.name for thread in pool.threads]


def test_should_start_none_when_one_cannot_be_made(pool: Pool) -> None:
    pool.fails_from = 2

    with pytest.raises(ValueError, match="no thread 2"):
        pool.threads.start(3)

    assert [thread.state for thread in pool.made] == [ThreadState.CREATED] * 2


def test_should_add_no_thread_before_its_start(pool: Pool) -> None:
    assert pool.threads.add() is None
    assert not pool.made


def test_should_keep_a_thread_that_is_added_during_the_start(pool: Pool) -> None:
    make, added = pool.threads._make, list[StreamThread | None]()
    adding = threading.Thread(target=lambda: added.append(pool.threads.add()))

    def make_slowly(index: int) -> StreamThread:
        if adding.ident is None:
            adding.start()
            adding.join(0.2)  # without a lock, the thread is added now
        return make(index)

    pool.threads._make = make_slowly
    pool.start(2)
    adding.join(30.0)

    assert [thread.name for thread in added if thread is not None] == ["thread-2"]
    assert names(pool) == ["thread-0", "thread-1", "thread-2"]


def test_should_end_with_the_last_thread_and_take_no_other(pool: Pool) -> None:
    pool.start(2)

    for thread in pool.made:
        thread.become(ThreadState.DEAD)
    pool.wait()

    assert pool.threads.add() is None
    assert pool.threads.remove(None, spare="", wait=True) is None
    assert (len(pool.made), pool.ended_living, pool.threads.has_failed) == (2, False, False)


def test_should_go_on_without_threads_when_each_was_removed(pool: Pool) -> None:
    pool.start(1)

    removed = pool.threads.remove(30.0, spare="", wait=True)
    assert removed is not None
    assert (names(pool), pool.threads.is_running) == ([], True)

    added = pool.threads.add()
    assert added is not None
    assert names(pool) == ["thread-0"]
    pool.threads.end()
    pool.wait()
    assert (pool.ended_living, pool.threads.has_failed) == (True, False)


def test_should_remove_the_thread_that_asks_only_when_it_is_the_last(pool: Pool) -> None:
    pool.start(2)

    for left in (["thread-0"], []):
        assert pool.threads.remove(30.0, spare="thread-0", wait=True) is not None
        assert names(pool) == left


def test_should_go_on_when_a_thread_fails_while_it_is_removed(pool: Pool) -> None:
    pool.start(2)
    first = pool.made[0]
    error = ValueError("on its way out")
    first.ask_to_close = lambda *_: first.fail(error, ThreadErrorResponse.SHUTDOWN_CLIENT)  # type: ignore[method-assign]

    pool.threads.remove(30.0, spare="thread-1", wait=True)

    assert (names(pool), pool.threads.errors, pool.threads.has_failed) == (["thread-1"], [error], False)


def test_should_put_another_in_the_place_of_one_that_failed(pool: Pool) -> None:
    replaced = threading.Event()
    pool.start(2)
    start = ToldThread.start

    class Replacement(ToldThread):
        def start(self) -> None:
            start(self)
            replaced.set()

    pool.threads._make = lambda index: cast(StreamThread, Replacement(index, pool))
    pool.made[1].fail(ValueError("once"), ThreadErrorResponse.REPLACE_THREAD)

    assert replaced.wait(30.0)
    assert (names(pool), pool.threads.is_running) == (["thread-0", "thread-1"], True)
    assert [str(error) for error in pool.threads.errors] == ["once"]
    pool.threads.end()
    pool.wait()
    assert not pool.threads.has_failed


@pytest.mark.parametrize("response", [ThreadErrorResponse.SHUTDOWN_CLIENT, None])
def test_should_end_all_when_one_fails_for_good(pool: Pool, response: ThreadErrorResponse | None) -> None:
    pool.start(2)

    failed, other = pool.made
    failed.error, failed.response = ValueError("for good"), response
    failed.become(ThreadState.DEAD)
    pool.wait()

    assert (other.state, pool.ended_living, pool.threads.has_failed) == (ThreadState.DEAD, True, True)
    assert pool.threads.add() is None


def test_should_keep_the_last_errors_only(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error holds on to the thread that it ended."""
    monkeypatch.setattr("streams_runtime.instance.thread_pool.ERRORS_KEPT", 2)
    responses = iter([ThreadErrorResponse.REPLACE_THREAD] * 3 + [ThreadErrorResponse.SHUTDOWN_CLIENT])

    class Failing(ToldThread):
        def start(self) -> None:
            pool.made.append(self)
            self.fail(ValueError(f"error {len(pool.made)}"), next(responses))

    pool.threads._make = lambda index: cast(StreamThread, Failing(index, pool))
    pool.start(1)
    pool.wait()

    assert [str(error) for error in pool.threads.errors] == ["error 3", "error 4"]


def test_should_let_the_members_report_the_error_of_the_global_thread(pool: Pool) -> None:
    pool.start(2)
    error = ValueError("of the global thread")

    pool.threads.fail(error, ThreadErrorResponse.SHUTDOWN_CLIENT)
    pool.wait()

    assert [thread.reports for thread in pool.made] == [error, error]
