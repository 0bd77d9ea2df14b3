"""Records that a sink cannot write, and the handler that decides about them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TopicPartition
from streams_runtime import (
    BYTES,
    STRING,
    ExceptionHandler,
    FailedRecord,
    HandlerResponse,
    InputError,
    NewTopic,
    ProcessingFailed,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    dead_letter,
    dead_letter_and_fail,
    fail,
    log_and_continue,
)
from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.logs.log_errors import LogTimeout
from tests.streams_runtime.tasks.running_task import IN, Configs, RunningTask, both_guarantees

LONE_SURROGATE = "\ud800"  # has no UTF-8
TOO_LARGE = "x" * 2_000_000


def replaced(value: str) -> Any:
    return {"surrogate": LONE_SURROGATE, "number": 5, "large": TOO_LARGE}.get(value, value)


@dataclass
class RecordingHandler:
    """A handler that keeps what it is called with."""

    response: HandlerResponse
    failed: FailedRecord | None = None

    def __call__(self, failed: FailedRecord) -> HandlerResponse:
        self.failed = failed
        return self.response


@contextmanager
def running(production: ExceptionHandler, processing: ExceptionHandler = fail) -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).map_values(replaced).to("out", value_serde=STRING, name="sink")
    configs = {"errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(
        builder.build(), configs, processing_exception_handler=processing, production_exception_handler=production
    ) as driver:
        yield driver


def pipe(driver: TopologyTestDriver, *values: str) -> None:
    for value in values:
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", value, 7)


def written(driver: TopologyTestDriver, topic: str) -> list[Any]:
    return driver.create_output_topic(topic, BYTES, BYTES).read_key_values()


@pytest.mark.parametrize("value", ["surrogate", "large"])
def test_should_continue_without_a_record_that_cannot_be_written(value: str) -> None:
    with running(log_and_continue) as driver:
        pipe(driver, "a", value, "b")
        assert written(driver, "out") == [(b"k", b"a"), (b"k", b"b")]
        assert driver.dropped_records() == {"production-error": 1}


def test_should_show_the_handler_the_output_and_the_input() -> None:
    handler = RecordingHandler(HandlerResponse.CONTINUE)
    with running(handler) as driver:
        pipe(driver, "surrogate")
    assert handler.failed is not None
    assert handler.failed[1:5] == (("in", 0, 0), "sink", b"k", b"surrogate")
    assert handler.failed.output == ("out", "k", LONE_SURROGATE, 7, (), False)


def test_should_send_the_input_of_an_output_that_cannot_be_written_to_the_dead_letter_topic() -> None:
    with running(dead_letter) as driver:
        pipe(driver, "surrogate", "b")
        assert written(driver, "out") == [(b"k", b"b")]
        assert written(driver, "dead") == [(b"k", b"surrogate")]
        assert driver.dropped_records() == {"dead-letter": 1}


@pytest.mark.parametrize("response", [HandlerResponse.FAIL, HandlerResponse.RETRY])
def test_should_let_the_handler_of_processing_errors_decide_after_fail(response: HandlerResponse) -> None:
    """A record that no retry can mend is not tried again."""
    with running(RecordingHandler(response), processing=log_and_continue) as driver:
        pipe(driver, "surrogate", "b")
        assert written(driver, "out") == [(b"k", b"b")]
        assert driver.dropped_records() == {"processing-error": 1}


def test_should_send_a_dead_letter_and_fail() -> None:
    with running(dead_letter_and_fail) as driver:
        with pytest.raises(ProcessingFailed, match="node=sink, record topic=in, partition=0, offset=0"):
            pipe(driver, "surrogate")
        assert written(driver, "dead") == [(b"k", b"surrogate")]


def test_should_not_call_the_handler_for_a_value_of_another_type_as_in_kafka() -> None:
    with (
        running(log_and_continue) as driver,
        pytest.raises(ProcessingFailed, match="value serde StringSerde a int"),
    ):
        pipe(driver, "number")


def retried_while_the_topic_is_missing(failed: FailedRecord) -> HandlerResponse:
    assert failed.output is not None
    return HandlerResponse.RETRY if failed.output.retriable else HandlerResponse.FAIL


@both_guarantees
def test_should_process_the_record_again_while_its_topic_is_missing(tmp_path: Path, configs: Configs) -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "later", "source")
    one = RunningTask(tmp_path, topology, configs, production_handler=retried_while_the_topic_is_missing).start()
    one.write(IN, "a", "b")
    one.poll()
    if one.configs.exactly_once:
        with pytest.raises(TaskCorrupted, match="will be sent again"):
            one.process()
        return
    for _ in range(2):
        with pytest.raises(LogTimeout, match="will be sent again"):
            one.process()
    one.log.create_topics([NewTopic("later", 1)])
    one.run()
    one.commit()
    assert one.output(TopicPartition("later", 0)) == ["a", "b"]


@pytest.mark.parametrize("handler", [dead_letter, dead_letter_and_fail])
def test_should_need_a_topic_for_dead_letters(handler: ExceptionHandler) -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).to("out")
    with pytest.raises(InputError, match=f"is {handler.__name__}, but errors.dead.letter"):
        TopologyTestDriver(builder.build(), production_exception_handler=handler)
