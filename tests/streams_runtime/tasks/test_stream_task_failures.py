"""Records that fail on their way through a running task, and a log that is away meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.common.errors import (
    ProcessingFailed,
    ProcessorStateError,
    StreamsRuntimeError,
    TaskCorrupted,
    TaskMigrated,
)
from streams_runtime.common.records import Record
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.logs.log_errors import LogTimeout, ProducerFenced, RecordTooLarge
from streams_runtime.processors.api import HandlerResponse, Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import STRING
from streams_runtime.tasks.exception_handling import dead_letter, log_and_continue
from tests.known import known
from tests.streams_runtime.asked import AskedHandler
from tests.streams_runtime.processors.recording_runtime import PassOn
from tests.streams_runtime.tasks.running_task import DEAD, EXACTLY_ONCE, IN, START_MS, RunningTask, Trouble, uppercase

UNREADABLE = (b"k", b"\xff", 5)
DEAD_LETTERS = {"errors.dead.letter.queue.topic.name": "dead"}


@pytest.mark.parametrize(("value", "error"), [(b"bad", b"Trouble"), (b"\xff", b"UnicodeDecodeError")])
@pytest.mark.parametrize("topics", [["in"], ["in", "other"]])
def test_should_write_a_dead_letter_in_the_transaction_of_its_offset(
    tmp_path: Path, topics: list[str], value: bytes, error: bytes
) -> None:
    one = RunningTask(
        tmp_path,
        uppercase(topics),
        {**EXACTLY_ONCE, **DEAD_LETTERS, "max.task.idle.ms": -1},
        processing_handler=dead_letter,
        deserialization_handler=dead_letter,
    ).start()
    one.log.write(IN, (b"k", value, 5))
    one.run()
    assert one.task.commit_needed()
    assert (one.log.read(DEAD), one.committed()) == ([], None)
    one.commit()
    assert one.log.read(DEAD) == [(b"k", value, 5)]
    (headers,) = one.log.headers(DEAD)
    kept = {name: text for name, text in headers if name != "__streams.errors.stacktrace"}
    assert (kept["__streams.errors.exception"] or b"").endswith(error)
    assert [kept[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset", "task")] == [
        b"in",
        b"0",
        b"0",
        b"0_0",
    ]
    assert known(one.committed()).offset == 1


@pytest.mark.parametrize(("configs", "expected"), [({}, LogTimeout), (EXACTLY_ONCE, TaskCorrupted)])
@pytest.mark.parametrize("topics", [["in"], ["in", "other"]])
def test_should_not_lose_a_record_when_its_dead_letter_cannot_be_written_yet(
    tmp_path: Path, topics: list[str], configs: dict[str, object], expected: type[Exception]
) -> None:
    configs = {**configs, **DEAD_LETTERS, "max.task.idle.ms": -1}
    one = RunningTask(tmp_path, uppercase(topics), configs, deserialization_handler=dead_letter).start()
    one.log.write(IN, UNREADABLE)
    one.write(IN, "b")
    one.poll()
    one.log.fail["send"] = LogTimeout("away")
    with pytest.raises(expected):
        one.process(1) if len(topics) == 1 else one.task.is_process_ready(START_MS)
    del one.log.fail["send"]
    one.run()
    one.commit()
    assert (one.output(), one.log.read(DEAD)) == (["B"], [UNREADABLE])


def refuses(bad: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        if value == bad:
            raise Trouble(f"{value} is refused")
        return value

    return checked


class ForwardsAll(Processor[str, str]):
    """Hands on each word, and then that it was there. It hears of no error below it."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, self.punctuate)

    def process(self, record: Record[str, str]) -> None:
        for word in record.value.split():
            self.context.forward(record._replace(value=word))
        self.context.forward(record._replace(value="end"))

    def punctuate(self, time_ms: int) -> None:
        for word in ("first", "bad", "last"):
            self.context.forward(Record("k", word, time_ms))


def branching(builder: StreamsBuilder) -> None:
    """The record goes to a branch that fails, to one beside it, and to one that fails, too."""
    stream = builder.stream("in", STRING, STRING)
    for name in ("bad", "never", "bad "):
        branch = stream.map_values(str.strip, name=f"{name.strip()}-{name.count(' ')}")
        branch.map_values(refuses(name.strip()), name=f"refuses-{name.strip()}-{name.count(' ')}").to(
            "out", key_serde=STRING, value_serde=STRING
        )


@pytest.mark.parametrize("configs", [DEAD_LETTERS, DEAD_LETTERS | EXACTLY_ONCE], ids=["at_least", "exactly_once"])
def test_should_give_siblings_of_a_failed_node_the_record(tmp_path: Path, configs: dict[str, object]) -> None:
    builder = StreamsBuilder()
    branching(builder)
    asked = AskedHandler(HandlerResponse.DEAD_LETTER)
    one = RunningTask(tmp_path, builder.build(), configs, processing_handler=asked).start()
    one.write(IN, "a", "bad", "c")
    one.run()
    assert one.commit() == {IN: 3}
    assert one.output() == ["a", "a", "a", "bad", "c", "c", "c"]
    assert asked.nodes == [("refuses-bad-0", 1), ("refuses-bad-1", 1)]
    assert (one.task.runtime.losses.dropped_records, one.output(DEAD)) == (2, ["bad", "bad"])


@pytest.mark.parametrize("flat", [True, False], ids=["flat_map_values", "processor"])
def test_should_go_on_with_what_a_node_hands_on_after_a_node_below_has_failed(tmp_path: Path, flat: bool) -> None:
    builder = StreamsBuilder()
    lines = builder.stream("in", STRING, STRING)
    words = lines.flat_map_values(lambda line: [*line.split(), "end"]) if flat else lines.process(ForwardsAll)
    words.map_values(refuses("bad"), name="refuses").to("out", key_serde=STRING, value_serde=STRING)
    asked = AskedHandler(HandlerResponse.DEAD_LETTER)
    one = RunningTask(tmp_path, builder.build(), DEAD_LETTERS, processing_handler=asked).start()
    one.write(IN, "a bad b bad", "c")
    one.run()
    assert one.output() == ["a", "b", "end", "c", "end"]
    assert asked.nodes == [("refuses", 0), ("refuses", 0)]
    assert one.output(DEAD) == ["a bad b bad"] * 2
    if not flat:
        one.clock.advance(5)
        one.task.maybe_punctuate_system_time(one.clock.now_ms())
        assert one.output()[-2:] == ["first", "last"]
        assert asked.nodes[2:] == [("refuses", -1)]


@pytest.mark.parametrize(("configs", "expected"), [({}, LogTimeout), (EXACTLY_ONCE, TaskCorrupted)])
def test_should_process_the_whole_record_again_when_the_dead_letter_of_a_branch_cannot_be_written_yet(
    tmp_path: Path, configs: dict[str, object], expected: type[Exception]
) -> None:
    builder = StreamsBuilder()
    branching(builder)
    one = RunningTask(tmp_path, builder.build(), configs | DEAD_LETTERS, processing_handler=dead_letter).start()
    one.write(IN, "bad", "c")
    one.poll()
    one.log.fail["send"] = LogTimeout("away")
    with pytest.raises(expected):
        one.process(1)
    del one.log.fail["send"]
    one.run()
    assert one.commit() == {IN: 2}
    assert (one.output()[-4:], one.output(DEAD)) == (["bad", "c", "c", "c"], ["bad", "bad"])


def test_should_ask_the_handler_when_a_record_cannot_be_sent(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "nowhere", "source")
    one = RunningTask(tmp_path, topology).start()
    one.write(IN, "a")
    one.poll()
    with pytest.raises(ProcessingFailed, match=r"node=sink, .*topic nowhere is not there") as error:
        one.process()
    assert isinstance(error.value.__cause__, StreamsRuntimeError)
    one = RunningTask(tmp_path / "2", uppercase(at_once=True), processing_handler=log_and_continue).start()
    one.write(IN, "a", "b")
    one.poll()
    one.log.fail["send"] = RecordTooLarge("too large")
    one.process(1)
    del one.log.fail["send"]
    one.process(1)
    assert one.output() == ["B"]


def test_should_try_a_record_again_when_the_log_was_away_at_least_once(tmp_path: Path) -> None:
    for topics in (["in"], ["in", "other"]):
        topology = uppercase(topics, at_once=True)
        one = RunningTask(tmp_path / str(len(topics)), topology, {"max.task.idle.ms": -1}).start()
        one.write(IN, "a", "b", "c")
        one.poll()
        assert one.process(1) == 1
        one.log.fail["send"] = LogTimeout("away")
        for _ in range(2):
            with pytest.raises(LogTimeout):
                one.process()
            assert one.task.is_process_ready(START_MS)
            assert one.commit().get(IN, 1) == 1
        del one.log.fail["send"]
        assert one.process() == 2
        assert (one.output(), one.commit()) == (["A", "B", "C"], {IN: 3})


def test_should_tell_what_was_processed_before_the_log_went_away(tmp_path: Path) -> None:
    """So that the thread sees progress; the time-out comes with the next call."""

    class Sender(PassOn):
        def process(self, record: Record[Any, Any]) -> None:
            if record.value == b"stop":
                one.log.fail["send"] = LogTimeout("away")
            self.context.forward(record._replace(headers=(("sent", b"at once"),)))

    topology = Topology().add_source("source", "in")
    topology.add_processor("sender", Sender, "source")
    one = RunningTask(tmp_path, topology.add_sink("sink", "out", "sender")).start()
    one.write(IN, "a", "b", "stop", "c")
    one.poll()
    assert one.process() == 2
    with pytest.raises(LogTimeout):
        one.process()


def test_should_give_rows_again_when_the_log_was_away_at_least_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c")
    one.poll()
    assert one.process(1) == 1
    one.log.fail["send"] = LogTimeout("away")
    assert one.process() == 2, "the thread sees progress; the time-out comes with the next call"
    for _ in range(2):
        with pytest.raises(LogTimeout):
            one.process()
    with pytest.raises(LogTimeout):
        one.commit()
    assert one.task.is_process_ready(START_MS), "there is something to give"
    del one.log.fail["send"]
    assert one.process() == 0
    assert not one.task.is_process_ready(START_MS)
    assert (one.output(), one.commit()) == (["A", "B", "C"], {IN: 3})


@pytest.mark.parametrize("error", [ProducerFenced("f"), TaskMigrated("m"), ProcessorStateError("disk full")])
def test_should_not_ask_the_handler_about_errors_of_the_task(tmp_path: Path, error: Exception) -> None:
    one = RunningTask(tmp_path, uppercase(at_once=True), processing_handler=log_and_continue).start()
    one.write(IN, "a")
    one.poll()
    one.log.fail["send"] = error
    with pytest.raises((TaskMigrated, ProcessorStateError)):
        one.process()
    assert one.task.runtime.losses.dropped_records == 0
    assert one.commit() == {IN: 0}
