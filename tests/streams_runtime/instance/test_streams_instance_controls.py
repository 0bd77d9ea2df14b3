"""What the user of an instance may change while it runs: its number of threads, whether it is paused, its listener.

Kafka's: `KafkaStreamsTest`, `AdjustStreamThreadCountTest`, `PauseResumeIntegrationTest`.
"""

import threading

import httpx
import pytest

from assignor.types import TaskId
from streams_runtime import InstanceState, Record, StreamsInstance, StreamsRuntimeError
from streams_runtime.instance.thread_status import ThreadState
from tests.streams_runtime.running_group import ALL_TASKS, SOME_LINES, Group
from tests.streams_runtime.word_counting import TIMEOUT_S, SplitLine, totals, wait_for

STATES = InstanceState


@pytest.fixture
def group(group: Group) -> Group:
    group.declare(standbys=0)
    return group


def threads_of(instance: StreamsInstance) -> list[str]:
    return [thread.name for thread in instance.status().threads if thread.state is not ThreadState.DEAD]


def tasks_of(instance: StreamsInstance) -> dict[str, set[TaskId]]:
    return {thread.name: {task.task_id for task in thread.tasks} for thread in instance.status().threads}


def spread_over(instance: StreamsInstance, *names: str) -> None:
    """Wait until these threads are all there are, and share all tasks evenly."""

    def spread() -> bool:
        held = tasks_of(instance)
        return (
            sorted(held) == sorted(names)
            and set().union(*held.values()) == ALL_TASKS
            and {len(tasks) for tasks in held.values()} == {len(ALL_TASKS) // len(names)}
            and instance.state is STATES.RUNNING
        )

    wait_for(spread, instance.status)


def test_should_add_and_remove_threads_while_it_counts(group: Group) -> None:
    group.write(SOME_LINES)
    instance = group.start(num_stream_threads=1)
    spread_over(instance, "a-0")
    group.wait_until_counted()

    assert instance.add_stream_thread() == "a-1"
    spread_over(instance, "a-0", "a-1")
    group.write(SOME_LINES)
    group.wait_until_counted()

    assert instance.remove_stream_thread(TIMEOUT_S) == "a-0"
    assert threads_of(instance) == ["a-1"]
    spread_over(instance, "a-1")
    group.write(SOME_LINES)
    group.wait_until_counted()

    assert instance.add_stream_thread() == "a-0", "the lowest number that is free"
    spread_over(instance, "a-0", "a-1")
    assert instance.errors == ()


def test_should_neither_add_nor_remove_threads_before_the_start_and_after_the_end(group: Group) -> None:
    instance = StreamsInstance(group.application(), group.client)
    assert (instance.add_stream_thread(), instance.remove_stream_thread()) == (None, None)
    instance.close()
    assert (instance.add_stream_thread(), instance.remove_stream_thread()) == (None, None)


@pytest.mark.parametrize("threads", [1, 2])
def test_should_remove_another_thread_if_there_is_one(
    group: Group, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[tuple[str | None, str]] = []
    process = SplitLine.process

    def removing_first(self: SplitLine, record: Record[str, str]) -> None:
        if not removed:
            removed.append((instance.remove_stream_thread(), threading.current_thread().name))
        process(self, record)

    monkeypatch.setattr(SplitLine, "process", removing_first)
    instance = group.start(num_stream_threads=threads)
    assert instance.wait_until_running(TIMEOUT_S)
    group.write(["one line"])
    wait_for(lambda: len(threads_of(instance)) == threads - 1, instance.status)

    ((name, own),) = removed
    assert (name == own) == (threads == 1)
    assert instance.errors == ()


def test_should_stand_still_while_its_group_is_paused_and_lose_nothing(group: Group) -> None:
    instance = group.start()
    group.write(SOME_LINES)
    group.wait_until_counted()
    _pull(group, "pause")
    wait_for(lambda: instance.is_group_paused, instance.status)
    before = totals(group.log)
    group.write(SOME_LINES)
    before_ms = _published_at_ms(instance)
    wait_for(lambda: _published_at_ms(instance) > before_ms, instance.status)  # its threads went round

    assert (totals(group.log), instance.state, instance.is_paused) == (before, STATES.RUNNING, False)
    assert b'streams_paused{by="group"} 1.0' in instance.metrics.exposition()
    instance.pause()
    _pull(group, "resume")
    wait_for(lambda: not instance.is_group_paused, instance.status)
    before_ms = _published_at_ms(instance)
    wait_for(lambda: _published_at_ms(instance) > before_ms, instance.status)
    assert totals(group.log) == before, "the user's own pause is still in force"
    instance.resume()
    group.wait_until_counted()
    assert b'streams_paused{by="group"} 0.0' in instance.metrics.exposition()


def test_should_restore_in_a_paused_group_and_leave_it(group: Group) -> None:
    group.write(SOME_LINES)
    first = group.start("a")
    group.wait_until_counted()
    first.close(TIMEOUT_S)
    before = totals(group.log)
    _pull(group, "pause")
    group.write(SOME_LINES)
    second = group.start("b")

    assert second.wait_until_running(TIMEOUT_S)
    assert sum(task.restored for thread in second.status().threads for task in thread.tasks) > 0
    assert (second.is_group_paused, totals(group.log)) == (True, before)
    assert second.close(TIMEOUT_S)
    _pull(group, "resume")
    group.start("b")
    group.wait_until_counted()


def _pull(group: Group, lever: str) -> None:
    assert httpx.post(f"{group.client.addresses}/v1/groups/{group.id}/{lever}").status_code == 204


def _published_at_ms(instance: StreamsInstance) -> int:
    """When the thread that looked around longest ago did so."""
    return min(thread._work._last_publish_ms for thread in instance._threads)


def test_should_tell_its_listener_of_each_state(group: Group) -> None:
    told: list[tuple[InstanceState, InstanceState]] = []

    def listener(new: InstanceState, old: InstanceState) -> None:
        told.append((new, old))

    instance = StreamsInstance(group.application(), group.client)
    group.instances.append(instance)
    instance.set_state_listener(listener)
    instance.start()
    assert instance.wait_until_running(TIMEOUT_S)
    assert instance.close(TIMEOUT_S), "it was told of the end when this returns"

    assert told[0] == (STATES.REBALANCING, STATES.CREATED)
    assert (STATES.RUNNING, STATES.REBALANCING) in told
    assert told[-2:] == [(STATES.PENDING_SHUTDOWN, STATES.RUNNING), (STATES.NOT_RUNNING, STATES.PENDING_SHUTDOWN)]
    assert [old for _, old in told[1:]] == [new for new, _ in told[:-1]], "without a gap"
    with pytest.raises(StreamsRuntimeError, match="a state listener is set before the start; this instance is not-run"):
        instance.set_state_listener(listener)
