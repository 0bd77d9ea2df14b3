"""An error object that several nodes raise, and the times of a run that comes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streams_runtime.dsl import StreamsBuilder
from streams_runtime.processors.api import FailedRecord, HandlerResponse
from streams_runtime.serdes import STRING
from tests.streams_runtime.tasks.running_task import IN, RunningTask, Trouble
from tests.streams_runtime.tasks.test_record_queue import Delivered, batch, queue

NOT_LOADED = Trouble("the model is not loaded")


def refuses(bad: str) -> Any:
    def checked(value: str) -> str:
        if value == bad:
            raise NOT_LOADED
        return value

    return checked


def test_should_name_the_node_that_raises_an_error_that_another_node_has_raised_before(tmp_path: Path) -> None:
    asked: list[str] = []

    def handler(failed: FailedRecord) -> HandlerResponse:
        asked.append(failed.node)
        return HandlerResponse.CONTINUE

    builder = StreamsBuilder()
    first = builder.stream("in", STRING, STRING).map_values(refuses("a"), name="first")
    first.map_values(refuses("b"), name="second").to("out", key_serde=STRING, value_serde=STRING)
    one = RunningTask(tmp_path, builder.build(), processing_handler=handler).start()
    one.write(IN, "b", "a", "a", "b")
    one.run()
    assert asked == ["second", "first", "first", "second"]


def test_should_take_the_partition_time_back_with_the_run() -> None:
    one = queue()
    one.add(batch([0, 1], [1, 2], [b"a", b"b"]))
    to = Delivered(one, fails=lambda _: False)
    one.deliver(10, to, to.on_error)
    one.rewind_run()
    assert one.partition_time_ms == -1
