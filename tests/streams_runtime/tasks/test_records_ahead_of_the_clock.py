"""A record whose timestamp its topic does not take goes to the handler, with and without a loop and a record cache. So
does its dead letter go to its topic, whatever that takes.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams_runtime import STRING, ExceptionHandler, HandlerResponse, ProcessingFailed, StreamsBuilder, Topology
from streams_runtime.logs.dead_letters import HEADER_MESSAGE, HEADER_STACKTRACE
from streams_runtime.state_stores.thread_cache import ThreadCache
from tests.known import known
from tests.streams_runtime.asked import AskedHandler
from tests.streams_runtime.tasks.running_task import COUNTS, DEAD, IN, OUT, RunningTask, counting, uppercase

HOUR_MS = 3_600_000
AN_HOUR = {"message.timestamp.after.max.ms": str(HOUR_MS)}


@contextmanager
def running(
    directory: Path, topology: Topology, handler: ExceptionHandler, *, cached: bool = False, guarantee: str
) -> Iterator[RunningTask]:
    """Records of now, two hours ahead, and now again have been processed and committed. All topics take one hour."""
    configs = {"errors.dead.letter.queue.topic.name": "dead", "processing.guarantee": guarantee}
    task = RunningTask(
        directory, topology, configs, processing_handler=handler, cache=ThreadCache(1_000_000) if cached else None
    )
    for topic in (OUT, DEAD, COUNTS):
        task.log.alter_topic(topic.topic, None, AN_HOUR)
    task.start()
    now_ms = time.time_ns() // 1_000_000
    for value, ahead_ms in (("a", 0), ("ahead", 2 * HOUR_MS), ("b", 0)):
        task.write(IN, value, first_ms=now_ms + ahead_ms)
    task.run()
    task.commit()
    yield task
    task.stop()


GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


@GUARANTEES
@pytest.mark.parametrize("at_once", [False, True])
def test_should_ask_about_an_output(tmp_path: Path, at_once: bool, guarantee: str) -> None:
    asked = AskedHandler()
    with running(tmp_path, uppercase(at_once=at_once), asked, guarantee=guarantee) as task:
        assert task.output() == ["A", "B"]
        assert known(task.committed()).offset == 3
    assert asked.nodes == [("sink", 1)]


@GUARANTEES
def test_should_ask_about_a_change_and_put_nothing_into_the_store(tmp_path: Path, guarantee: str) -> None:
    asked = AskedHandler()
    with running(tmp_path, counting(), asked, guarantee=guarantee) as task:
        assert task.output() == ["1", "2"]
        assert len(task.log.read(COUNTS)) == 2
    assert asked.nodes == [("count", 1)]


@GUARANTEES
@pytest.mark.parametrize("cached", [False, True])
def test_should_ask_about_a_change_of_a_table(tmp_path: Path, cached: bool, guarantee: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).group_by_key().count(store="counts", name="counted")
    asked = AskedHandler()
    with running(tmp_path, builder.build(), asked, cached=cached, guarantee=guarantee) as task:
        assert [int.from_bytes(value or b"", "big") for _, value, _ in task.log.read(COUNTS)][-1] == 2
    assert asked.nodes == [("counted", 1)]


@GUARANTEES
def test_should_send_a_dead_letter_with_the_time_of_now(tmp_path: Path, guarantee: str) -> None:
    asked = AskedHandler(HandlerResponse.DEAD_LETTER)
    with running(tmp_path, uppercase(), asked, guarantee=guarantee) as task:
        ((key, value, timestamp_ms),) = task.log.read(DEAD)
        assert (key, value) == (b"k", b"ahead")
        assert abs(timestamp_ms - task.clock.now_ms()) < HOUR_MS
        assert task.output() == ["A", "B"]


def with_dead_topic(directory: Path, max_bytes: int) -> RunningTask:
    """`bad` is to be sent away, to a topic that takes so many bytes."""
    configs = {"errors.dead.letter.queue.topic.name": "dead"}
    task = RunningTask(directory, uppercase(), configs, processing_handler=AskedHandler(HandlerResponse.DEAD_LETTER))
    task.log.alter_topic("dead", None, {"max.message.bytes": str(max_bytes)})
    task.start()
    task.write(IN, "a", "bad", "b")
    return task


def test_should_leave_the_stack_trace_out_of_a_dead_letter_that_would_be_too_large(tmp_path: Path) -> None:
    task = with_dead_topic(tmp_path, 500)
    task.run()
    task.commit()
    assert task.output() == ["A", "B"]
    assert task.log.read(DEAD) == [(b"k", b"bad", 2)]
    (headers,) = task.log.headers(DEAD)
    assert HEADER_STACKTRACE not in dict(headers)
    assert dict(headers)[HEADER_MESSAGE] == b"bad value"
    task.stop()


def test_should_say_which_record_it_was_when_its_dead_letter_cannot_be_sent(tmp_path: Path) -> None:
    task = with_dead_topic(tmp_path, 50)
    said = r"the dead letter cannot be sent \(.*record for dead-0 has \d+ bytes.*node=upper.*partition=0, offset=1"
    with pytest.raises(ProcessingFailed, match=said):
        task.run()
    assert task.output() == ["A"]
