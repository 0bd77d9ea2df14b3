"""Which connections are cut, and how those that have sent much at once take turns."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import pytest

from coordinator_api.http import connections as rules
from coordinator_api.http import reading_turns
from coordinator_api.http.connections import CutReason, ServiceConnections
from coordinator_api.http.problems import Problem
from coordinator_api.http.reading_turns import MOST_BYTES_AT_ONCE, MOST_LINES_AT_ONCE, ReadingTurns, goes_at_once


@dataclass(eq=False)
class Connection:
    """As `ServiceConnections` and `ReadingTurns` see one."""

    name: str = ""
    steps: int = 0
    unread: int = 0
    due_s: float = math.inf
    slow_since_s: float = math.inf
    slow: CutReason = CutReason.READER
    seen: list[str] = field(default_factory=list)
    is_cut: bool = False

    def unread_bytes(self, now_s: float) -> int:
        return self.unread

    def end_if_hung_up(self) -> None:
        pass

    def cut(self) -> None:
        self.is_cut = True

    def take_turn(self) -> bool:
        self.seen.append(self.name)
        self.steps -= 1
        return self.steps > 0


def opened(*connections: Connection) -> ServiceConnections:
    registry = ServiceConnections(100, 100, headers_timeout_s=10, answer_timeout_s=30)
    for each in connections:
        registry.admit(each, "127.0.0.1")
    return registry


def test_should_cut_those_that_read_longest_when_unread_answers_are_too_many_bytes() -> None:
    share = rules.MOST_UNREAD_BYTES // 2
    last, first, third = (Connection(unread=share, slow_since_s=since_s) for since_s in (30.0, 10.0, 20.0))
    keeps_up = Connection(unread=10 * share)
    registry = opened(last, keeps_up, first, third)
    reasons: list[CutReason] = []
    registry.on_cut = reasons.append

    registry.sweep(40.0)

    assert (first.is_cut, third.is_cut, last.is_cut, keeps_up.is_cut) == (True, False, False, False)
    assert reasons == [CutReason.READER]


def test_should_not_cut_for_the_memory_of_those_that_have_had_their_time_anyway() -> None:
    late = Connection(unread=rules.MOST_UNREAD_BYTES, slow_since_s=2.0, due_s=39.0)
    reads = Connection(unread=rules.MOST_UNREAD_BYTES, slow_since_s=1.0)

    opened(late, reads).sweep(40.0)

    assert (late.is_cut, reads.is_cut) == (True, False)


def test_should_make_room_by_those_that_send_before_those_that_wait() -> None:
    """Each but the first has sent one whole request."""
    silent, idle, later, sending, answered = each_open = [Connection(name) for name in "abcde"]
    registry = ServiceConnections(len(each_open), 100, headers_timeout_s=10, answer_timeout_s=30)
    numbers = {each.name: registry.admit(each, "127.0.0.1") for each in each_open}
    for each in (idle, later, sending, answered):
        registry.begun(numbers[each.name])
        registry.busy(numbers[each.name])
    for each in (idle, later, sending):
        registry.idle(numbers[each.name])
    for each in (sending, later):
        registry.begun(numbers[each.name])

    for cut in (silent, sending, later, idle):
        newcomer = registry.admit(Connection(), "127.0.0.1")
        registry.begun(newcomer)
        registry.busy(newcomer)
        assert [each.name for each in each_open if each.is_cut] == [cut.name]
        cut.is_cut = False
    with pytest.raises(Problem):
        registry.admit(Connection(), "127.0.0.1")


@pytest.mark.parametrize(
    "data, message_bytes, expected",
    [
        (b"", 0, True),
        (b"x" * MOST_BYTES_AT_ONCE, 0, True),
        (b"x" * MOST_BYTES_AT_ONCE, 1, False),
        (b"\n" * MOST_LINES_AT_ONCE, 0, True),
        (b"\n" * (MOST_LINES_AT_ONCE + 1), 0, False),
    ],
)
def test_should_let_only_large_and_dense_data_take_turns(data: bytes, message_bytes: int, expected: bool) -> None:
    assert goes_at_once(data, message_bytes) is expected


@pytest.mark.parametrize(
    "turn_s, turn_steps, alone", [(0.0, 32, True), (60.0, 1, True), (60.0, 32, False)], ids=["time", "steps", "neither"]
)
async def test_should_give_every_connection_a_step_and_the_loop_a_turn(
    monkeypatch: pytest.MonkeyPatch, turn_s: float, turn_steps: int, alone: bool
) -> None:
    monkeypatch.setattr(reading_turns, "TURN_S", turn_s)
    monkeypatch.setattr(reading_turns, "TURN_STEPS", turn_steps)
    seen: list[str] = []
    long, short = Connection("long", 4, seen=seen), Connection("short", 1, seen=seen)
    turns = ReadingTurns()
    for each in (long, short, long):
        turns.ask(each)

    while long.steps:
        await asyncio.sleep(0)
        seen.append("loop")

    steps = [each for each in seen if each != "loop"]
    assert steps == ["long", "short", "long", "long", "long"]
    assert seen == ([one for step in steps for one in (step, "loop")] if alone else [*steps, "loop"])
