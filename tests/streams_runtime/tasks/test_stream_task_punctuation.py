"""Punctuation inside a running task. When a schedule fires is in `test_punctuation_queue`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams_runtime import Cancellable, Headers, Processor, ProcessorContext, PunctuationType, Record, Topology
from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.logs.log_errors import LogTimeout
from tests.streams_runtime.tasks.running_task import EXACTLY_ONCE, IN, START_MS, RunningTask

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


class Ticking(Processor[Any, Any]):
    """Schedules what `plan` says, and `fired` keeps the times."""

    def __init__(self, plan: Callable[[Ticking], None], fired: list[int]) -> None:
        self.plan = plan
        self.fired = fired

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.plan(self)

    def process(self, record: Record[Any, Any]) -> None:
        pass

    def every(self, interval_ms: int, type: PunctuationType, start_time_ms: int | None = None) -> Cancellable:
        return self.context.schedule(interval_ms, type, self.fired.append, start_time_ms=start_time_ms)


def ticking(plan: Callable[[Ticking], None]) -> tuple[Topology, Ticking]:
    """The topology, and one that shares `fired` with those that run."""
    made = Ticking(plan, [])
    topology = Topology().add_source("source", "in")
    topology.add_processor("ticking", lambda: Ticking(plan, made.fired), "source")
    return topology.add_sink("sink", "out", "ticking"), made


def plan_every(interval_ms: int, type: PunctuationType, start_time_ms: int | None = None) -> Callable[[Ticking], None]:
    def plan(made: Ticking) -> None:
        made.every(interval_ms, type, start_time_ms)

    return plan


def at_stream_times(one: RunningTask, made: Ticking, *times: int) -> list[list[int]]:
    fired = []
    for time_ms in times:
        one.write(IN, "x", first_ms=time_ms)
        one.run()
        before = len(made.fired)
        assert one.task.maybe_punctuate_stream_time() == (len(made.fired) > before)
        fired.append(made.fired[before:])
    return fired


def at_wall_clock(one: RunningTask, made: Ticking, *advances: int) -> list[list[int]]:
    """Times since the start."""
    fired = []
    for advance in advances:
        one.clock.advance(advance)
        before = len(made.fired)
        assert one.task.maybe_punctuate_system_time(one.clock.now_ms()) == (len(made.fired) > before)
        fired.append([time_ms - START_MS for time_ms in made.fired[before:]])
    return fired


def test_should_stop_when_cancelled_from_inside_the_callback(tmp_path: Path) -> None:
    def plan(made: Ticking) -> None:
        def punctuate(time_ms: int) -> None:
            made.fired.append(time_ms)
            handle.cancel()

        handle = made.context.schedule(10, STREAM, punctuate)

    topology, made = ticking(plan)
    one = RunningTask(tmp_path, topology).start()
    assert at_stream_times(one, made, 5, 50, 500) == [[5], [], []]


def test_should_need_a_commit_after_a_punctuation(tmp_path: Path) -> None:
    topology, made = ticking(plan_every(10, WALL))
    one = RunningTask(tmp_path, topology, EXACTLY_ONCE).start()
    one.commit()
    at_wall_clock(one, made, 5)
    assert not one.task.commit_needed()
    at_wall_clock(one, made, 5)
    assert one.task.commit_needed()
    assert one.commit() == {}
    assert not one.task.commit_needed()


@pytest.mark.parametrize(("configs", "expected"), [({}, LogTimeout), (EXACTLY_ONCE, TaskCorrupted)])
@pytest.mark.parametrize("headers", [(), (("h", b"1"),)], ids=["as a row", "sent when it is forwarded"])
def test_should_send_what_a_punctuation_forwards_later_or_be_corrupted_when_the_log_was_away(
    tmp_path: Path, headers: Headers, configs: dict[str, object], expected: type[Exception]
) -> None:
    """The row is sent by the next `process`; without the row, the punctuation fires again."""

    def plan(made: Ticking) -> None:
        made.context.schedule(10, WALL, lambda time_ms: made.context.forward(Record(b"k", b"tick", time_ms, headers)))

    topology, made = ticking(plan)
    one = RunningTask(tmp_path, topology, configs).start()
    one.log.fail["send"] = LogTimeout("away")
    with pytest.raises(expected):
        at_wall_clock(one, made, 10)
    del one.log.fail["send"]
    if expected is LogTimeout:
        assert one.task.maybe_punctuate_system_time(one.clock.now_ms()) is bool(headers)
        assert one.task.is_process_ready(one.clock.now_ms()) is not bool(headers)
        assert (one.process(), one.output()) == (0, ["tick"])


def test_should_not_punctuate_while_it_does_not_run_nor_twice_as_often_afterwards(tmp_path: Path) -> None:
    topology, made = ticking(plan_every(10, WALL))
    one = RunningTask(tmp_path, topology).start()
    one.task.suspend()
    assert at_wall_clock(one, made, 50) == [[]]
    assert not one.task.maybe_punctuate_stream_time()
    one.task.resume()
    one.task.complete_restoration()
    assert at_wall_clock(one, made, 10, 10) == [[60], [70]]
