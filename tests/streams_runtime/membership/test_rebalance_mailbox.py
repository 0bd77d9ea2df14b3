"""A member's calls wait for the stream thread, and never for one that has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from assignor.types import TaskId
from streams_runtime.membership.rebalance_mailbox import (
    AssignTasks,
    CloseTasks,
    LoseTasks,
    Order,
    RebalanceMailbox,
    RevokeTasks,
    StartRebalance,
    StreamThreadEnded,
    WaitingOrder,
)
from streams_runtime.membership.task_holder import HeldTasks

TIMEOUT_S = 10.0
TASK = TaskId(0, 0)
HELD = HeldTasks("m", 3)


class Calling:
    """One call in its own thread. `error`: what the call raised."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the call did not return"


class Mailbox:
    def __init__(self) -> None:
        self.woken = threading.Semaphore(0)
        self.box = RebalanceMailbox("t-1", self.woken.release)

    def next_order(self) -> WaitingOrder:
        assert self.woken.acquire(timeout=TIMEOUT_S), "the stream thread was not woken"
        waiting = self.box.next_order()
        assert waiting is not None
        return waiting


@pytest.mark.parametrize(
    "call,order",
    [
        (RebalanceMailbox.rebalance_started, StartRebalance()),
        (lambda box: box.revoke(frozenset({TASK})), RevokeTasks(frozenset({TASK}))),
        (lambda box: box.assign(HELD), AssignTasks(HELD)),
        (lambda box: box.lost("why"), LoseTasks("why")),
        (RebalanceMailbox.close, CloseTasks()),
    ],
)
def test_should_wake_the_stream_thread_and_wait_until_the_order_is_done(
    call: Callable[[RebalanceMailbox], None], order: Order
) -> None:
    mailbox = Mailbox()
    calling = Calling(lambda: call(mailbox.box))
    waiting = mailbox.next_order()
    assert waiting.order == order
    assert calling.waits
    waiting.done()
    calling.join()
    assert calling.error is None
    assert mailbox.box.next_order() is None


def test_should_hand_orders_over_in_the_order_of_the_calls() -> None:
    mailbox = Mailbox()
    calls = [Calling(lambda: mailbox.box.revoke(frozenset({TASK})))]
    assert mailbox.woken.acquire(timeout=TIMEOUT_S)
    calls.append(Calling(lambda: mailbox.box.assign(HELD)))
    assert mailbox.woken.acquire(timeout=TIMEOUT_S)
    orders = []
    for calling in calls:
        waiting = mailbox.box.next_order()
        assert waiting is not None
        orders.append(waiting.order)
        waiting.done()
        calling.join()
    assert orders == [RevokeTasks(frozenset({TASK})), AssignTasks(HELD)]


def test_should_raise_in_the_caller_what_the_stream_thread_failed_with() -> None:
    mailbox = Mailbox()
    calling = Calling(lambda: mailbox.box.assign(HELD))
    error = RuntimeError("no disk")
    mailbox.next_order().done(error)
    calling.join()
    assert calling.error is error


@pytest.mark.parametrize("call,raises", [("rebalance_started", True), ("close", False)])
def test_should_let_a_waiting_call_go_when_the_stream_thread_ends(call: str, raises: bool) -> None:
    mailbox = Mailbox()
    calling = Calling(getattr(mailbox.box, call))
    assert mailbox.woken.acquire(timeout=TIMEOUT_S)
    mailbox.box.end()
    calling.join()
    assert isinstance(calling.error, StreamThreadEnded) is raises


def test_should_raise_at_once_when_the_stream_thread_has_ended() -> None:
    mailbox = Mailbox()
    mailbox.box.end()
    for call in (
        mailbox.box.rebalance_started,
        mailbox.box.offset_sums,
        lambda: mailbox.box.revoke(frozenset({TASK})),
        lambda: mailbox.box.assign(HELD),
    ):
        with pytest.raises(StreamThreadEnded, match="stream thread t-1 has ended"):
            call()
    mailbox.box.lost("an ended thread holds nothing")
    mailbox.box.close()


def test_should_say_nothing_when_the_thread_ended_but_its_member_still_has_something_to_tell() -> None:
    mailbox = Mailbox()
    mailbox.box.publish({TASK: 7})
    mailbox.box.end_quietly()
    mailbox.box.rebalance_started()
    mailbox.box.assign(HELD)
    assert mailbox.box.offset_sums() == {}


def test_should_give_the_last_published_offset_sums_without_asking_the_stream_thread() -> None:
    mailbox = Mailbox()
    assert mailbox.box.offset_sums() == {}
    mailbox.box.publish({TASK: 7})
    assert mailbox.box.offset_sums() == {TASK: 7}
    assert not mailbox.woken.acquire(blocking=False)
