"""Processors of `process_values` and transformers of `transform_values`."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import TopologyError
from streams_runtime import (
    LONG,
    STRING,
    FixedKeyProcessor,
    ProcessingContext,
    ProcessingFailed,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StreamsBuilder,
    ValueTransformer,
    key_value_store,
)
from tests.streams_runtime.dsl.driven import driven
from tests.streams_runtime.tasks.running_task import IN, RunningTask


class Lengths(FixedKeyProcessor[str, str]):
    """Forwards the length of each value, and at each second the number of records under the last key."""

    def init(self, context: ProcessorContext) -> None:
        self.forward = context.forward
        self.keys: list[str] = []
        context.schedule(1000, PunctuationType.STREAM_TIME, self.report)

    def process(self, record: Record[str, str]) -> None:
        self.keys.append(record.key)
        self.forward(Record(record.key, len(record.value), record.timestamp_ms))

    def report(self, time_ms: int) -> None:
        if self.keys:
            self.forward(Record(self.keys[-1], len(self.keys), time_ms))


class Renaming(FixedKeyProcessor[str, str]):
    def init(self, context: ProcessorContext) -> None:
        self.forward = context.forward

    def process(self, record: Record[str, str]) -> None:
        self.forward(record._replace(key="other"))


class InBatches(FixedKeyProcessor[str, str]):
    def process_batch(self, batch: Any) -> None:
        raise AssertionError("never called")


def test_should_need_no_repartition_topic_after_process_values() -> None:
    builder = StreamsBuilder()
    lengths = builder.stream("in", STRING, STRING).process_values(Lengths)
    lengths.group_by_key(value_serde=LONG).reduce(int.__add__).to_stream().to("out")
    assert "repartition" not in pickle.loads(pickle.dumps(builder.build())).describe()
    with driven(builder) as run:
        run.pipe("in", ("a", "xx", 1), ("a", "yyy", 1500))
        assert run.read("out", LONG) == [("a", 3, 1), ("a", 8, 1500)]


def test_should_refuse_a_new_key_of_a_processor_that_does_not_change_keys() -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).process_values(Renaming, name="renaming").to("out", value_serde=STRING)
    with driven(builder) as run, pytest.raises(ProcessingFailed, match="must not change the key 'a' to 'other'"):
        run.pipe("in", ("a", "1", 1))


@pytest.mark.parametrize(
    ("supplier", "reason"),
    [
        (Processor, "Processor values must be a FixedKeyProcessor, and its supplier gives a Processor"),
        (InBatches, "gives a FixedKeyProcessor with `process_batch`"),
        (Lengths(), "must be a class or a function without arguments"),
    ],
)
def test_should_refuse_other_processors_of_values(supplier: Any, reason: str) -> None:
    with pytest.raises(TopologyError, match=reason):
        StreamsBuilder().stream("in", STRING, STRING).process_values(supplier, name="values")


class Numbered(ValueTransformer[str, str, str]):
    """Counts the changes of a key in the store, and writes what its context says. `log`: of `init` and `close`."""

    log: list[str]

    def init(self, context: ProcessingContext) -> None:
        self.log.append("init")
        self.context = context
        self.store = context.state_store("counts") if context.record_metadata is None else None

    def transform(self, key: str, value: str | None) -> str | None:
        count = (self.store.get(key) or 0) + 1  # type: ignore[union-attr]
        self.store.put(key, count)  # type: ignore[union-attr]
        return None if value is None else f"{count}x{value}@{self.context.timestamp_ms}"

    def close(self) -> None:
        self.log.append("close")


def test_should_transform_values_with_a_store_and_close_the_transformer() -> None:
    log: list[str] = []
    builder = StreamsBuilder()
    builder.add_state_store(key_value_store("counts", STRING, LONG))
    table = builder.table("in", STRING, STRING)
    numbered = table.transform_values(lambda: _logging(Numbered(), log), stores=["counts"])
    numbered.to_stream().to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("in", ("a", "p", 1), ("a", None, 2), ("a", "q", 3))
        assert run.read("out") == [("a", "1xp@1", 1), ("a", None, 2), ("a", "3xq@3", 3)]
        assert log == ["init"]
    assert log == ["init", "close"]


def _logging(transformer: Any, log: list[str]) -> Any:
    transformer.log = log
    return transformer


class Shown(ValueTransformer[str, str, str]):
    """Shows for which record it is called."""

    def init(self, context: ProcessingContext) -> None:
        self.context = context

    def transform(self, key: str, value: str | None) -> str:
        return f"{value}@{self.context.timestamp_ms}/{self.context.record_metadata}"


def test_should_call_a_transformer_without_metadata_when_a_join_reads_its_table() -> None:
    builder = StreamsBuilder()
    shown = builder.table("table", STRING, STRING).transform_values(Shown)
    builder.stream("in", STRING, STRING).join(shown, lambda _value, found: found).to("out", value_serde=STRING)
    with driven(builder) as run:
        run.pipe("table", ("a", "p", 1))
        run.pipe("in", ("a", "", 5), ("b", "", 6))
        assert run.read("out") == [("a", "p@1/None", 5), ("b", "None@-1/None", 6)]


class Forwarding(ValueTransformer[str, str, str]):
    def init(self, context: ProcessingContext) -> None:
        context.schedule(1, PunctuationType.STREAM_TIME, lambda time_ms: self.forward(Record("a", "b", time_ms)))
        self.forward: Any = context.forward  # type: ignore[attr-defined]

    def transform(self, key: str, value: str | None) -> str | None:
        return value


def test_should_not_let_a_transformer_forward_records() -> None:
    builder = StreamsBuilder()
    builder.table("in", STRING, STRING).transform_values(Forwarding).to_stream().to("out", value_serde=STRING)
    with driven(builder) as run, pytest.raises(ProcessingFailed, match="is a transformer and cannot forward records"):
        run.pipe("in", ("a", "1", 1))


def test_should_give_the_records_of_a_table_new_keys() -> None:
    builder = StreamsBuilder()
    stream = builder.table("in", STRING, STRING).to_stream(lambda key, value: f"{key}.{value}")
    stream.group_by_key(key_serde=STRING).count().to_stream().to("out")
    assert "KSTREAM-KEY-SELECT" in builder.build().describe()
    with driven(builder) as run:
        run.pipe("in", ("a", "p", 1), ("a", "q", 2))
        assert run.read("out", LONG) == [("a.p", 1, 1), ("a.q", 1, 2)]


class Unchanged(ValueTransformer[str, str, str]):
    log: list[str]

    def init(self, context: ProcessingContext) -> None:
        self.log.append("init")

    def transform(self, key: str, value: str | None) -> str | None:
        return value

    def close(self) -> None:
        self.log.append("close")


def test_should_make_a_new_transformer_each_time_the_task_begins_to_run(tmp_path: Path) -> None:
    log: list[str] = []
    builder = StreamsBuilder()
    table = builder.table("in", STRING, STRING).transform_values(lambda: _logging(Unchanged(), log))
    table.to_stream().to("out", value_serde=STRING)
    one = RunningTask(tmp_path, builder.build()).start()
    one.write(IN, "a")
    one.run()
    one.commit()
    one.task.suspend()
    assert log == ["init", "close"]
    one.task.resume()
    one.task.complete_restoration()
    one.write(IN, "b")
    one.run()
    assert one.output() == ["a", "b"]
    one.stop()
    assert log == ["init", "close", "init", "close"]
