"""What a called processor has put and forwarded leaves in time, also when one call makes much of it, or fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.common.errors import ProcessingFailed
from streams_runtime.common.records import Headers, Record
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.tasks import output_records
from streams_runtime.tasks.output_records import MOST_ROWS
from tests.streams_runtime.tasks.running_task import EXACTLY_ONCE, IN, RunningTask, Trouble


class Walker(Processor[Any, Any]):
    """It hands on each record, and calls `walk` when time passes."""

    def __init__(self, walk: Callable[[Walker, int], None]) -> None:
        self._walk = walk

    def init(self, context: ProcessorContext) -> None:
        self.forward = context.forward
        self.store = context.state_store("counts")
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, partial(self._walk, self))

    def process(self, record: Record[Any, Any]) -> None:
        self.forward(record)


def walking(directory: Path, walk: Callable[[Walker, int], None]) -> RunningTask:
    """A task that has processed a record, when its punctuation is due."""
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG))
    topology.add_processor("walker", partial(Walker, walk), "source", stores=["counts"])
    topology.add_sink("sink", "out", "walker", key_serde=STRING, value_serde=STRING)
    one = RunningTask(directory, topology).start()
    one.write(IN, "a")
    one.poll()
    assert one.process() == 1
    one.log.calls.clear()
    one.clock.advance(10)
    return one


@pytest.mark.parametrize("puts", [True, False])
def test_should_give_the_log_what_one_call_makes_before_that_ends(tmp_path: Path, puts: bool) -> None:
    sent_meanwhile = []

    def walk(walker: Walker, time_ms: int) -> None:
        for number in range(MOST_ROWS + 5):
            if puts:
                walker.store.put("k", number)
            else:
                walker.forward(Record("k", "v", time_ms))
        sent_meanwhile.append(one.log.count("send"))

    one = walking(tmp_path, walk)
    assert one.task.maybe_punctuate_system_time(one.clock.now_ms())
    assert MOST_ROWS - 1 <= sent_meanwhile[0] <= MOST_ROWS + 1
    assert one.log.count("send") == MOST_ROWS + 5


def test_should_give_the_log_what_a_punctuation_made_before_it_failed(tmp_path: Path) -> None:
    def walk(walker: Walker, time_ms: int) -> None:
        walker.store.put("k", 1)
        walker.forward(Record("k", "v", time_ms))
        raise Trouble("it may not go on")

    one = walking(tmp_path, walk)
    with pytest.raises(ProcessingFailed):
        one.task.maybe_punctuate_system_time(one.clock.now_ms())
    assert one.log.count("send") == 2


class LastWords(Processor[Any, Any]):
    """Forwards so many records when it is closed."""

    def __init__(self, count: int, headers: Headers) -> None:
        self._count = count
        self._headers = headers

    def init(self, context: ProcessorContext) -> None:
        self.forward = context.forward

    def close(self) -> None:
        for _ in range(self._count):
            self.forward(Record("k", "last", 1, self._headers))


@pytest.mark.parametrize("configs", [{}, EXACTLY_ONCE], ids=["at_least_once", "exactly_once"])
@pytest.mark.parametrize(("count", "headers"), [(1, ()), (1, (("alone", b"sent"),)), (MOST_ROWS + 1, ())])
def test_should_commit_what_close_has_forwarded_even_if_the_log_has_it_by_then(
    tmp_path: Path, configs: dict[str, object], count: int, headers: Headers
) -> None:
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("last_words", partial(LastWords, count, headers), "source")
    topology.add_sink("sink", "out", "last_words", key_serde=STRING, value_serde=STRING)
    one = RunningTask(tmp_path, topology, configs).start()
    one.commit()
    assert not one.task.commit_needed()

    one.task.suspend()
    assert one.task.commit_needed()
    one.commit()
    assert one.output() == ["last"] * count


def test_should_send_a_record_once_that_is_processed_again_because_its_rows_were_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_records, "MOST_ROWS", 3)
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c", "d", "e")
    one.log.fail["send"] = LogTimeout("away")
    one.poll()
    assert one.process() == 3
    with pytest.raises(LogTimeout):
        one.process()
    one.log.fail.clear()
    one.run()
    one.commit()
    assert one.output() == ["A", "B", "C", "D", "E"]
