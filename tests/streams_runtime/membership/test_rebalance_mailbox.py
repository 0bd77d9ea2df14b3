"""A member's orders reach the stream thread at once, and each is answered, also by one that has ended."""

import threading

import pytest

from assignor.types import TaskId
from streams_runtime.membership import member_events as on
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox, StreamThreadEnded, WaitingOrder

TASK = TaskId(0, 0)
GIVES_OR_TAKES: list[on.Order] = [
    on.StartRebalance(),
    on.RevokeTasks(frozenset({TASK})),
    on.AssignTasks(on.HeldTasks("m", 3)),
]
DROPS_ALL: list[on.Order] = [on.LoseTasks("why"), on.CloseTasks()]


class Mailbox:
    """`answers`: to orders, in the order in which they came."""

    def __init__(self) -> None:
        self.woken = threading.Semaphore(0)
        self.box = RebalanceMailbox("t-1", self.woken.release)
        self.answers: list[BaseException | None] = []

    def hand_over(self, order: on.Order) -> None:
        self.box.hand_over(order, self.answers.append)

    def next_order(self) -> WaitingOrder:
        assert self.woken.acquire(blocking=False), "the stream thread was not woken"
        waiting = self.box.next_order()
        assert waiting is not None
        return waiting


@pytest.mark.parametrize("order", GIVES_OR_TAKES + DROPS_ALL)
def test_should_wake_the_stream_thread_and_be_answered_when_the_order_is_done(order: on.Order) -> None:
    mailbox = Mailbox()
    mailbox.hand_over(order)
    assert mailbox.box.has_orders
    waiting = mailbox.next_order()
    assert waiting.order == order
    assert mailbox.answers == []
    waiting.done(None)
    assert mailbox.answers == [None]
    assert mailbox.box.next_order() is None


def test_should_hand_orders_over_in_the_order_of_the_calls() -> None:
    mailbox = Mailbox()
    for order in GIVES_OR_TAKES:
        mailbox.hand_over(order)
    assert [mailbox.next_order().order for _ in GIVES_OR_TAKES] == GIVES_OR_TAKES


def test_should_answer_with_what_the_stream_thread_failed_with() -> None:
    mailbox = Mailbox()
    mailbox.hand_over(GIVES_OR_TAKES[2])
    error = RuntimeError("no disk")
    mailbox.next_order().done(error)
    assert mailbox.answers == [error]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("order", GIVES_OR_TAKES + DROPS_ALL)
def test_should_answer_every_order_when_the_stream_thread_has_ended(order: on.Order, waits: bool) -> None:
    mailbox = Mailbox()
    if waits:
        mailbox.hand_over(order)
        mailbox.box.end()
    else:
        mailbox.box.end()
        mailbox.hand_over(order)
    (answer,) = mailbox.answers
    if order in DROPS_ALL:
        assert answer is None, "an ended thread holds nothing"
    else:
        assert isinstance(answer, StreamThreadEnded)
        assert "stream thread t-1 has ended" in str(answer)


def test_should_not_wake_a_stream_thread_that_has_ended() -> None:
    """Its consumers are closed by then."""
    mailbox = Mailbox()
    mailbox.box.wake()
    assert mailbox.woken.acquire(blocking=False)
    mailbox.box.end()
    mailbox.box.wake()
    mailbox.hand_over(on.CloseTasks())
    assert not mailbox.woken.acquire(blocking=False)


def test_should_refuse_to_tell_offset_sums_when_the_stream_thread_has_ended() -> None:
    mailbox = Mailbox()
    mailbox.box.end()
    with pytest.raises(StreamThreadEnded):
        mailbox.box.offset_sums()


def test_should_fail_no_order_when_the_thread_ended_but_its_member_still_has_something_to_tell() -> None:
    mailbox = Mailbox()
    mailbox.box.publish({TASK: 7}, {})
    mailbox.box.end(refuses=False)
    for order in GIVES_OR_TAKES:
        mailbox.hand_over(order)
    assert mailbox.answers == [None] * len(GIVES_OR_TAKES)
    assert mailbox.box.offset_sums() == {}


def test_should_give_the_last_published_offset_sums_without_asking_the_stream_thread() -> None:
    mailbox = Mailbox()
    assert mailbox.box.offset_sums() == {}
    mailbox.box.publish({TASK: 7}, {})
    assert mailbox.box.offset_sums() == {TASK: 7}
    assert not mailbox.woken.acquire(blocking=False)
