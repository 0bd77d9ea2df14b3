"""`group-load --beside` runs the code of each checkout, and finds the figure that is worst beside the other one."""

import asyncio
import re

import pytest

from benchmarks.group_load.checkouts import OURS
from benchmarks.group_load.comparison import POSTGRESQL, SQLITE, compare, ratios_of, worst
from benchmarks.group_load.figures_of_a_turn import Figure
from benchmarks.steady_calls import AGAIN_AFTER_S, drive
from tests.benchmarks.printing import printed_by

TIME, RATE = Figure("joins", "p50", "ms"), Figure("joins", "calls a second", "/s", more_is_better=True)


def test_should_call_a_checkout_worse_that_takes_longer_or_answers_fewer_calls() -> None:
    ours = [{TIME: 2.0, RATE: 100.0}, {TIME: 3.0, RATE: 100.0}, {TIME: 9.0, RATE: 100.0}]
    theirs = [{TIME: 2.0, RATE: 100.0}, {TIME: 2.0, RATE: 200.0}, {TIME: 3.0, RATE: 200.0}]
    assert ratios_of(TIME, ours, theirs) == [1.0, 1.5, 3.0]
    assert ratios_of(RATE, ours, theirs) == [1.0, 2.0, 2.0]
    assert worst(ours, theirs) == "SQLite beside the other checkout: worst ratio 2.00 (joins: calls a second)"


def test_should_make_each_call_until_it_is_served_and_refuse_to_measure_refusals() -> None:
    made: list[int] = []

    async def call(number: int) -> int:
        made.append(number)
        return 200

    driven = asyncio.run(drive(call, count=20, at_once=3, rate=2_000))
    assert sorted(made) == list(range(20)), "a busy machine begins one before the other"
    assert len(driven.milliseconds) == 20
    assert driven.seconds >= 19 / 2_000

    answers = iter([503, 200])

    async def not_at_once(number: int) -> int:
        return next(answers)

    waited = asyncio.run(drive(not_at_once, count=1, at_once=1))
    assert waited.again == 1
    assert waited.milliseconds[0] >= 1_000 * AGAIN_AFTER_S

    async def refused(number: int) -> int:
        return 409

    with pytest.raises(ExceptionGroup, match="unhandled"):
        asyncio.run(drive(refused, count=1, at_once=1))


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_should_print_coordinators_beside_each_other() -> None:
    text = printed_by(lambda console: compare(console, OURS, None, quick=True))
    assert re.search(r"SQLite beside the other checkout: worst ratio \d+\.\d\d \(", text)
    assert SQLITE in text
    assert POSTGRESQL in text, "measured, or why not"
