"""Orders to a stream thread in another process are all answered, whatever becomes of the process."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from assignor.types import TaskId
from streams_runtime.membership.rebalance_mailbox import StreamThreadEnded
from streams_runtime.membership.task_holder import AssignTasks, CloseTasks, HeldTasks, LoseTasks, Order, StartRebalance
from streams_runtime.thread_processes.messages import OrderGiven
from streams_runtime.thread_processes.orders_of_thread import OrdersOfThread

SUMS: Mapping[TaskId, int] = {TaskId(0, 1): 7}
ASSIGN = AssignTasks(HeldTasks("m", 1))


class Answers:
    """What became of each order; None: it was carried out."""

    def __init__(self, orders: OrdersOfThread) -> None:
        self._orders = orders
        self.of: dict[str, BaseException | None] = {}

    def give(self, order: Order) -> None:
        self._orders.hand_over(order, lambda error: self.of.__setitem__(type(order).__name__, error))


def test_should_send_orders_in_their_order_once_there_is_a_process() -> None:
    sent: list[OrderGiven] = []
    orders = OrdersOfThread("t")
    answers = Answers(orders)
    answers.give(StartRebalance())
    orders.begin(sent.append)
    answers.give(ASSIGN)
    assert [(one.number, one.order) for one in sent] == [(1, StartRebalance()), (2, ASSIGN)]
    assert answers.of == {}

    error = ValueError("x")
    orders.answered(2, error)
    orders.answered(1, None)
    assert answers.of == {"AssignTasks": error, "StartRebalance": None}


def test_should_report_what_the_thread_last_said_and_nothing_when_it_has_ended() -> None:
    orders = OrdersOfThread("t")
    assert orders.offset_sums() == {}
    orders.reported(SUMS)
    assert orders.offset_sums() == SUMS
    orders.reported(None)
    with pytest.raises(StreamThreadEnded, match="stream thread t has ended"):
        orders.offset_sums()


def test_should_fail_what_nobody_carries_out_any_more() -> None:
    orders = OrdersOfThread("t")
    answers = Answers(orders)
    answers.give(ASSIGN)
    answers.give(LoseTasks("why"))
    orders.end()
    answers.give(StartRebalance())
    answers.give(CloseTasks())
    kinds = {name: type(error) for name, error in answers.of.items()}
    assert kinds == {
        "AssignTasks": StreamThreadEnded,
        "LoseTasks": type(None),
        "StartRebalance": StreamThreadEnded,
        "CloseTasks": type(None),
    }
    with pytest.raises(StreamThreadEnded):
        orders.offset_sums()


def test_should_fail_nothing_while_the_member_lives_on_to_pass_a_shutdown_on() -> None:
    orders = OrdersOfThread("t")
    answers = Answers(orders)
    orders.reported(SUMS)
    orders.end_quietly()
    answers.give(StartRebalance())
    answers.give(ASSIGN)
    assert answers.of == {"StartRebalance": None, "AssignTasks": None}
    assert orders.offset_sums() == {}
