"""Calls run when they are due, on few threads, and none waits for a call that is paused."""

import threading
from collections.abc import Iterator

import pytest

from streams_runtime.membership.process_membership import CallQueue

TIMEOUT_S = 10.0
FAR_AWAY_S = 3_600.0


@pytest.fixture
def queue() -> Iterator[CallQueue]:
    made = CallQueue("calls-of-a-test", threads=1)
    yield made
    made.close()


def test_should_hold_back_no_call_while_another_one_is_paused(queue: CallQueue) -> None:
    ran = threading.Event()
    queue.add(lambda: None, FAR_AWAY_S)
    queue.add(ran.set)
    assert ran.wait(TIMEOUT_S)


def test_should_run_calls_in_the_order_in_which_they_are_due(queue: CallQueue) -> None:
    order: list[str] = []
    over, first = threading.Event(), threading.Event()

    def begin() -> None:
        first.wait(TIMEOUT_S)  # the others are added meanwhile
        order.append("begun")

    def end() -> None:
        order.append("later")
        over.set()

    queue.add(begin)
    queue.add(end, 0.05)
    queue.add(lambda: order.append("one"))
    queue.add(lambda: order.append("two"))
    first.set()
    assert over.wait(TIMEOUT_S)
    assert order == ["begun", "one", "two", "later"]


def test_should_run_as_many_calls_at_a_time_as_it_has_threads() -> None:
    queue = CallQueue("calls-of-a-test", threads=3)
    together = threading.Barrier(3)
    over = threading.Semaphore(0)

    def meet() -> None:
        together.wait(TIMEOUT_S)
        over.release()

    for _ in range(3):
        queue.add(meet)
    for _ in range(3):
        assert over.acquire(timeout=TIMEOUT_S)
    queue.close()


def test_should_go_on_when_a_call_fails(queue: CallQueue) -> None:
    def fail() -> None:
        raise RuntimeError("on purpose")

    ran = threading.Event()
    queue.add(fail)
    queue.add(ran.set)
    assert ran.wait(TIMEOUT_S)


def test_should_forget_what_has_not_begun_when_it_is_closed(queue: CallQueue) -> None:
    begun, go_on, over = threading.Event(), threading.Event(), threading.Event()
    ran: list[str] = []

    def first() -> None:
        begun.set()
        go_on.wait(TIMEOUT_S)
        over.set()

    queue.add(first)
    queue.add(lambda: ran.append("second"))
    assert begun.wait(TIMEOUT_S)
    queue.close()
    queue.add(lambda: ran.append("third"))
    go_on.set()
    assert over.wait(TIMEOUT_S)
    assert ran == []
