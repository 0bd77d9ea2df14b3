"""Batches that fail: who hears of which record, what is lost, and what comes again when the log is away."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streams_runtime.common.errors import ProcessingFailed, StreamsRuntimeError, TaskCorrupted
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Headers
from streams_runtime.dsl.streams import KStream
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.tasks.exception_handling import log_and_continue
from tests.known import known
from tests.streams_runtime.asked import AskedHandler
from tests.streams_runtime.processors.recording_runtime import PassOn
from tests.streams_runtime.tasks.running_task import COUNTS, EXACTLY_ONCE, IN, OUT, RunningTask, Trouble

Columns = RecordColumns[str, str]
DEAD_LETTERS = {"errors.dead.letter.queue.topic.name": "dead"}


def upper(batch: Columns) -> list[str]:
    """A `bad` one fails all that come with it."""
    if "bad" in batch.values:
        raise Trouble("bad value")
    return [(value or "none").upper() for value in batch.values]


def topology_of(change: Callable[[KStream[str, str]], KStream[Any, Any]]) -> Topology:
    builder = StreamsBuilder()
    change(builder.stream("in", STRING, STRING)).to("out", key_serde=STRING, value_serde=STRING)
    return builder.build()


def mapped(function: Callable[[Columns], Any] = upper, **options: Any) -> Topology:
    return topology_of(lambda stream: stream.map_values_batches(function, name="node", **options))


def started(one: RunningTask, *values: str) -> RunningTask:
    one.start()
    one.write(IN, *values)
    one.poll()
    return one


def test_should_ask_about_each_record_of_a_batch_that_is_not_to_be_tried_again(tmp_path: Path) -> None:
    asked = AskedHandler()
    topology = mapped(retries_one_by_one=False)
    one = started(RunningTask(tmp_path, topology, processing_handler=asked), "a", "bad", "c")
    one.process()
    one.write(IN, "d")
    one.run()

    assert [each.metadata.offset for each in asked.about] == [0, 1, 2]
    assert (one.output(), one.task.runtime.losses.dropped_records, one.commit()) == (["D"], 3, {IN: 4})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda batch: None,
            "values are to be a list, tuple, numpy array.*, not a NoneType.*return a column with a value",
        ),
        (lambda batch: ["x"], "there are 1 values for 3 records: give one for each"),
        (lambda batch: np.mean([1.0]), "not a float64"),
        (lambda batch: batch, "RecordColumns, of which the keys would not count"),
    ],
)
def test_should_say_what_a_function_is_to_return(tmp_path: Path, function: Any, message: str) -> None:
    one = started(RunningTask(tmp_path, mapped(function), processing_handler=log_and_continue), "a", "b", "c")

    with pytest.raises(
        StreamsRuntimeError, match=f"node=node.*the function of map_values_batches has returned.*{message}"
    ):
        one.process()
    assert (one.output(), one.task.runtime.losses.dropped_records, one.commit()) == ([], 0, {IN: 0})


@pytest.mark.parametrize("returned", [None, ["k"], (["k"], ["v"]), ("kkk", "vvv"), (1, 2, 3)])
def test_should_say_what_map_batches_is_to_return(tmp_path: Path, returned: Any) -> None:
    topology = topology_of(lambda stream: stream.map_batches(lambda _: returned, name="node"))
    one = started(RunningTask(tmp_path, topology, processing_handler=log_and_continue), "a", "b", "c")

    with pytest.raises(StreamsRuntimeError, match=r"node=node.*the function of map_batches.*return a pair of columns"):
        one.process()


@pytest.mark.parametrize("flag", [None, float("nan"), 1, "yes"])
def test_should_take_no_flag_for_true_that_is_not(tmp_path: Path, flag: Any) -> None:
    topology = topology_of(lambda stream: stream.filter_batches(lambda batch: [flag for _ in batch], name="node"))
    one = started(RunningTask(tmp_path, topology), "a", "b")

    with pytest.raises(StreamsRuntimeError, match=r"node=node.*filter_batches.*among the flags.*True or False"):
        one.process()


class Counting(Processor[str, str]):
    """Counts keys by batch; `wrong` forwards something else."""

    def init(self, context: ProcessorContext) -> None:
        self._context, self._store = context, context.state_store("counts")

    def process_batch(self, batch: Columns) -> None:
        counts = dict(zip(batch.keys, self._store.get_many(batch.keys), strict=True))
        rows = []
        for key, value in zip(batch.keys, batch.values, strict=True):
            counts[key] = (counts[key] or 0) + 1
            rows.append(f"{value}{counts[key]}")
        self._store.put_many(list(counts), list(counts.values()))
        self._context.forward_batch("no columns" if "wrong" in batch.values else batch.with_values(rows))  # type: ignore[arg-type]


def counting(processor: type[Processor[Any, Any]] = Counting) -> Topology:
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG))
    topology.add_processor("count", processor, "source", stores=["counts"])
    return topology.add_sink("sink", "out", "count", key_serde=STRING, value_serde=STRING)


def test_should_count_a_batch_in_a_store_and_log_it_with_the_time_of_its_last_record(tmp_path: Path) -> None:
    one = started(RunningTask(tmp_path, counting()), "a", "b", "c")
    one.process()

    assert one.output() == ["a1", "b2", "c3"]
    assert one.log.read(COUNTS) == [(b"k", LONG.serialize(3), 3)]
    assert [at_ms for _, _, at_ms in one.log.read(OUT)] == [1, 2, 3]


def test_should_name_the_processor_that_forwards_no_columns(tmp_path: Path) -> None:
    one = started(RunningTask(tmp_path, counting()), "a", "wrong")

    with pytest.raises(StreamsRuntimeError, match="processor count forwards a str as a batch: give RecordColumns"):
        one.process()


class Both(Counting):
    """It has a way for one record, too."""

    retries_one_by_one = True

    def process(self, record: Any) -> None:
        self._context.forward(record._replace(value=f"one {record.value}"))

    def process_batch(self, batch: Columns) -> None:
        if "bad" in batch.values:
            raise Trouble("not together")
        self._context.forward_batch(batch.with_values([f"of {len(batch)}: {value}" for value in batch.values]))


def test_should_call_process_for_a_record_that_comes_alone(tmp_path: Path) -> None:
    one = started(RunningTask(tmp_path, counting(Both)), "a", "b")
    one.process()
    one.write(IN, "c")
    one.run()
    one.log.write(IN, (b"k", b"d", 9), (b"k", b"e", 9), headers=(("h", b"1"),))
    one.write(IN, "bad", "f")
    one.run()

    assert one.output() == ["of 2: a", "of 2: b", "one c", "one d", "one e", "one bad", "one f"]


class Away(PassOn):
    """The log is away, once, when the third record is here."""

    seen = 0

    def process(self, record: Any) -> None:
        self.seen += 1
        if self.seen == 3:
            raise LogTimeout("the log is away")
        self.context.forward(record)


@pytest.mark.parametrize("exactly_once", [True, False])
def test_should_process_the_whole_run_again_after_the_log_was_away(tmp_path: Path, exactly_once: bool) -> None:
    topology = topology_of(lambda stream: stream.map_values_batches(upper).process(Away))
    one = started(RunningTask(tmp_path, topology, EXACTLY_ONCE if exactly_once else {}), "a", "b", "c", "d")

    if exactly_once:
        with pytest.raises(TaskCorrupted, match="the log was away in the middle of a transaction"):
            one.process()
        return
    with pytest.raises(LogTimeout):
        one.process()
    assert one.commit() == {IN: 0}
    assert one.task.runtime.stream_time_ms == -1
    assert one.process() == 4
    assert (one.output(), one.commit()) == (["A", "B", "A", "B", "C", "D"], {IN: 4})


@pytest.mark.parametrize("topics", [["in"], ["in", "other"]])
def test_should_process_a_batch_before_an_unreadable_record_behind_it(tmp_path: Path, topics: list[str]) -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream(topics, STRING, STRING)
    stream.map_values_batches(upper).to("out", key_serde=STRING, value_serde=STRING)
    one = RunningTask(tmp_path, builder.build(), {"max.task.idle.ms": -1}).start()
    one.log.write(IN, (b"k", b"a", 1), (b"k", b"\xff", 2))
    one.poll()

    with pytest.raises(ProcessingFailed, match="offset=1"):
        one.process()
    assert (one.output(), one.commit()[IN]) == (["A"], 1)


def test_should_ask_about_a_row_that_is_too_large_for_the_topic(tmp_path: Path) -> None:
    asked = AskedHandler()
    topology = mapped(lambda batch: [value * 1_200_000 if value == "b" else value for value in batch.values])
    one = started(RunningTask(tmp_path, topology, processing_handler=asked), "a", "b", "c")
    one.process()

    assert (one.output(), [each.metadata.offset for each in asked.about]) == (["a", "c"], [1])


class Standing(Processor[str, str]):
    """Notes where it stands before and after it has handed on the first row."""

    seen: list[tuple[Any, ...]]

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        Standing.seen = []

    def process_batch(self, batch: Columns) -> None:
        for rows in ([0], []):
            metadata = self._context.record_metadata
            self.seen.append((known(metadata).offset, self._context.current_stream_time_ms, self._context.headers))
            self._context.forward_batch(batch.take(rows))


class Silent(Processor[Any, Any]):
    def process(self, record: Any) -> None:
        """It only has the position move."""


def test_should_stand_at_the_last_record_of_the_batch_whatever_is_below(tmp_path: Path) -> None:
    topology = topology_of(lambda stream: stream.process(Standing).process(Silent))
    started(RunningTask(tmp_path, topology), "a", "b", "c").process()

    assert Standing.seen == [(2, 3, ()), (2, 3, ())]


class OneByOne(Processor[str, str]):
    """Hands on the rows of a batch as records, `bad` with headers if it is told so."""

    retries_one_by_one = True

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def init(self, context: ProcessorContext) -> None:
        self._forward = context.forward

    def process_batch(self, batch: Columns) -> None:
        for record in batch:
            self._forward(record._replace(headers=self._headers if record.value == "bad" else ()))


class Whole(Processor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process_batch(self, batch: Columns) -> None:
        self.context.forward_batch(batch)


def refuse_bad(value: str) -> str:
    if value == "bad":
        raise Trouble("bad below")
    return value


@pytest.mark.parametrize("headers", [(), (("h", b"1"),)])
def test_should_never_blame_the_last_record_of_a_batch_for_another(tmp_path: Path, headers: Headers) -> None:
    asked = AskedHandler()
    topology = topology_of(
        lambda stream: stream.process(lambda: OneByOne(headers)).process(Whole).map_values(refuse_bad, name="below")
    )
    one = started(RunningTask(tmp_path, topology, processing_handler=asked), "a", "bad", "c")

    assert one.process() == 3
    assert asked.nodes == [("below", 1)]
    assert one.output() == ["a", "a", "c"]  # `a` comes again when the batch is tried record by record


class RowsAndRecord(Whole):
    """Hands on a row that waits below, a record that comes alone there, and one that fails."""

    def process_batch(self, batch: Columns) -> None:
        first, *_, last = batch
        self.context.forward_batch(batch.take([0]))
        self.context.forward(first._replace(value="alone", headers=(("h", b"1"),)))
        self.context.forward(last._replace(value="bad", headers=(("h", b"1"),)))


def test_should_ask_about_all_records_of_a_batch_also_after_a_row_of_it_was_run_below(tmp_path: Path) -> None:
    asked = AskedHandler()
    topology = topology_of(lambda stream: stream.process(RowsAndRecord).process(Whole).map_values(refuse_bad))
    one = started(RunningTask(tmp_path, topology, processing_handler=asked), "a", "b", "c")

    one.process()
    assert [each.metadata.offset for each in asked.about] == [0, 1, 2]
    assert one.output() == ["a", "alone"]
