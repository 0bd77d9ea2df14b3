"""Turns of running tasks: fair, bounded in time, and with errors that name the task."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskTimeout
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.states import TaskType
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.task_executor import MOST_RECORDS_A_TURN, TaskExecutor
from streams_runtime.logs.log_errors import LogTimeout, RecordsRefused
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.manual_clock import ManualClock
from tests.streams_runtime.word_counting import RememberingListener

PASS_MS = 50


@dataclass(slots=True)
class CountingTask:
    """Has so many records, each of which takes a while. `turns`: how many records each of its turns had."""

    id: TaskId
    records: int
    record_ms: float
    clock: ManualClock
    fails: Exception | None = None
    turns: list[int] = field(default_factory=list)
    since_ms: float = 0.0
    timeout_started: int = 0

    type = TaskType.ACTIVE
    claim = None

    def prepare_commit(self) -> None:
        """Nothing is held back."""

    def offsets_to_commit(self) -> dict[str, int]:
        return {}

    def commit_needed(self) -> bool:
        return bool(self.turns)

    def is_process_ready(self, now_ms: int) -> bool:
        return self.records > 0

    def process(self, now_ms: int, max_records: int) -> int:
        if self.fails is not None:
            raise self.fails
        processed = min(max_records, self.records)
        self.records -= processed
        self.turns.append(processed)
        self.since_ms += processed * self.record_ms
        self.clock.ms += int(self.since_ms)
        self.since_ms -= int(self.since_ms)
        return processed

    def maybe_punctuate_stream_time(self) -> bool:
        return True

    def maybe_punctuate_system_time(self, now_ms: int) -> bool:
        if self.fails is not None:
            raise self.fails
        return True

    def clear_task_timeout(self) -> None:
        self.timeout_started = 0

    def maybe_init_task_timeout_or_throw(self, now_ms: int, cause: Exception | None = None) -> None:
        self.timeout_started += 1
        if self.timeout_started > 2:
            raise TaskTimeout("too long", self.id)


class SentAt:
    """In place of the thread's producer: the times at which what was sent had to be written. `fails`: raised then."""

    def __init__(self, clock: ManualClock) -> None:
        self.times_ms: list[int] = []
        self.fails: Exception | None = None
        self._clock = clock

    transaction_in_flight = True

    def commit(self, offsets: object) -> None:
        if self.fails is not None:
            raise self.fails

    def send_now(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.times_ms.append(self._clock.ms)


class Executing:
    def __init__(self, pass_ms: int = PASS_MS) -> None:
        self.clock = ManualClock()
        self.told = RememberingListener()
        self.producer = SentAt(self.clock)
        configs = StreamsConfig("app", "memory:x", Path("state"), record_pass_ms=pass_ms)
        self.executor = TaskExecutor(
            cast(Any, self.producer), configs, self.clock, self.told, InstanceMetrics().thread("t")
        )

    def task(self, number: int, records: int, record_ms: float = 0.01, fails: Exception | None = None) -> CountingTask:
        return CountingTask(TaskId(0, number), records, record_ms, self.clock, fails)

    def process(self, *tasks: CountingTask) -> int:
        return self.executor.process(cast("list[StreamTask]", list(tasks)))


def test_should_end_the_pass_soon_after_its_time_however_slow_records_are() -> None:
    executing = Executing()
    slow = executing.task(0, 10_000, record_ms=20)
    started_ms = executing.clock.ms
    for _ in range(5):
        before_ms = executing.clock.ms
        executing.process(slow)
        assert executing.clock.ms - before_ms <= PASS_MS + 2 * 20
    assert executing.clock.ms > started_ms


def test_should_write_what_was_sent_every_linger_ms_while_there_are_records_however_long_a_pass_lasts() -> None:
    executing = Executing(pass_ms=10_000)
    slow = executing.task(0, 10_000, record_ms=5)
    executing.process(slow)

    times_ms = executing.producer.times_ms
    between_ms = [after - before for before, after in pairwise(times_ms)]
    assert len(times_ms) > 50
    assert 100 <= min(between_ms) <= max(between_ms) <= 150, "linger.ms is 100, and no turn is longer than half of it"


def test_should_write_what_a_slow_task_has_sent_before_the_turn_of_the_next_one() -> None:
    executing = Executing()
    executing.process(executing.task(0, 1, record_ms=300), executing.task(1, 1, record_ms=300))
    first_ms, second_ms = executing.producer.times_ms
    assert second_ms - first_ms == 300


def test_should_say_that_it_ran_out_of_records_when_no_task_has_one() -> None:
    executing = Executing()
    assert executing.executor.ran_out
    slow = executing.task(0, 4, record_ms=20)
    executing.process(slow)
    assert not executing.executor.ran_out, "the pass was over"
    executing.process(slow)
    assert executing.executor.ran_out


def test_should_count_a_log_that_is_away_against_the_tasks_that_sent_and_try_again() -> None:
    executing = Executing()
    sent, silent = executing.task(0, 1), executing.task(1, 0)
    both = cast("list[StreamTask]", [sent, silent])
    executing.process(sent)
    executing.producer.fails = LogTimeout("busy")
    for _ in range(2):
        executing.executor.send(both, at_once=True)
    assert (sent.timeout_started, silent.timeout_started) == (2, 0)
    executing.producer.fails = None
    executing.executor.send(both, at_once=True)
    assert sent.timeout_started == 0, "what was late is written, so the time that counts is over"

    executing.producer.fails = LogTimeout("busy")
    for _ in range(2):
        executing.executor.send(both, at_once=True)
    with pytest.raises(TaskTimeout, match="0_0"):
        executing.executor.send(both, at_once=True)


def test_should_name_the_tasks_whose_records_cannot_be_written() -> None:
    executing = Executing()
    first, second, silent = executing.task(0, 1), executing.task(1, 1), executing.task(2, 0)
    executing.process(first, second, silent)
    executing.producer.fails = StreamsRuntimeError("the disk is full")
    with pytest.raises(StreamsRuntimeError, match=r"what tasks \[0_0, 0_1\] have sent cannot be written: the disk is"):
        executing.executor.send(cast("list[StreamTask]", [first, second, silent]), at_once=True)


def test_should_take_turns_so_that_no_task_waits_for_another_to_run_dry() -> None:
    executing = Executing()
    first, second = executing.task(0, 10**9), executing.task(1, 10**9)
    for _ in range(10):
        executing.process(first, second)
    assert first.turns == second.turns
    assert max(first.turns) == MOST_RECORDS_A_TURN, "turns grow when records are quick"


def test_should_tell_the_first_record_of_each_task_once() -> None:
    executing = Executing()
    first, second = executing.task(0, 1_000_000), executing.task(1, 0)
    executing.process(first, second)
    executing.process(first, second)
    assert executing.told.first_records == [first.id]
    executing.executor.forget(first.id)
    executing.process(first)
    assert executing.told.first_records == [first.id, first.id]


def test_should_go_on_with_other_tasks_when_the_log_is_away_for_one_and_give_up_after_its_time() -> None:
    executing = Executing()
    away, other = executing.task(0, 5, fails=LogTimeout("busy")), executing.task(1, 1)
    assert executing.process(away, other) == 1
    with pytest.raises(TaskTimeout, match="0_0"):
        executing.process(away, other)


def test_should_name_the_task_when_its_code_fails() -> None:
    executing = Executing()
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_3\] failed: KeyError: 'x'"):
        executing.process(executing.task(3, 1, fails=KeyError("x")))
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_4\] failed"):
        executing.executor.punctuate(cast("list[StreamTask]", [executing.task(4, 1, fails=KeyError("x"))]))


def refused() -> StreamsRuntimeError:
    """As the thread's producer raises it."""
    error = StreamsRuntimeError("committing: the brokers refuse a record")
    error.__cause__ = RecordsRefused("the brokers refuse a record")
    return error


def test_should_have_tasks_do_again_what_the_brokers_refused_and_end_when_that_does_not_help() -> None:
    executing = Executing()
    both = cast("list[StreamTask]", [executing.task(0, 0), executing.task(1, 0)])
    for _ in range(2):  # a commit in between starts the count anew
        executing.producer.fails = refused()
        for _ in range(3):
            with pytest.raises(TaskCorrupted, match="the brokers refuse a record: 0_0, 0_1") as caught:
                executing.executor.commit_together(both)
            assert caught.value.tasks == {each.id for each in both}
        executing.producer.fails = None
        executing.executor.commit_together(both)
    executing.producer.fails = refused()
    for _ in range(3):
        with pytest.raises(TaskCorrupted):
            executing.executor.commit_together(both)
    with pytest.raises(StreamsRuntimeError, match="the brokers refuse a record") as last:
        executing.executor.commit_together(both)
    assert not isinstance(last.value, TaskCorrupted)
