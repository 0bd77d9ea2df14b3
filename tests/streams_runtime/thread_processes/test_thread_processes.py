"""Stream threads as processes: an instance of them does what one with threads does.

The tests of instances hold for both; these are about what differs: other processes, and what the user has in this one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.states import InstanceState, TaskType
from streams_runtime.instance.instance_view import InstanceView
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.queries.answers import Freshness, answer_for_partition, locate_key
from streams_runtime.queries.store_reading import read_entries, read_key
from streams_runtime.reporting.notices import NoticeCode
from streams_runtime.state_stores.base import StateStore
from streams_runtime.tasks.directory_lock import LOCK_FILE_NAME
from streams_runtime.tasks.exception_handling import log_and_continue
from streams_runtime.thread_processes.thread_process import ThreadProcess
from tests.streams_runtime.instance.test_streams_instance_controls import spread_over, threads_of
from tests.streams_runtime.running_group import ALL_TASKS, EXACTLY_ONCE, SOME_LINES, Group, running_group
from tests.streams_runtime.thread_processes.running import AS_PROCESSES, active_tasks, pids, wait_until_gone
from tests.streams_runtime.word_counting import (
    STORE,
    TEXT,
    TIMEOUT_S,
    TOTALS,
    RememberingListener,
    read_all,
    wait_for,
)


@pytest.fixture
def group(request: pytest.FixtureRequest, client: CoordinatorClient, tmp_path: Path) -> Iterator[Group]:
    with running_group(request.node.name, EXACTLY_ONCE, client, tmp_path) as made:
        made.declare(standbys=0)
        yield made


def has_open(pid: int, file: Path) -> bool:
    return any(link.resolve() == file.resolve() for link in Path(f"/proc/{pid}/fd").iterdir())


def processed(instance: StreamsInstance) -> int:
    """What the metrics of this process say, over all threads."""
    lines = instance.metrics.lines()
    return round(sum(value for (name, _), value in lines.items() if name == "streams_processed_records_total"))


def test_should_count_each_record_once_and_tell_of_it_in_this_process(group: Group) -> None:
    told = RememberingListener()
    group.write(SOME_LINES)
    instance = group.start(listener=told, **AS_PROCESSES)
    group.wait_until_counted()
    spread_over(instance, "a-0", "a-1")

    own = pids(instance)
    assert len({os.getpid(), *own}) == 3
    lock = group.directory / "a" / group.id / LOCK_FILE_NAME
    assert all(has_open(pid, lock) for pid in own), "nobody has the directory before they have ended"
    # each line is read once, and each of its words once more
    wait_for(lambda: processed(instance) == len(SOME_LINES) + sum(group.words.values()), instance.metrics.lines)
    assert sum(thread.processed for thread in instance.status().threads) == processed(instance)
    assert instance.metadata().active == {}
    assert [len(held.active) for held in told.assignments[-2:]] == [2, 2]
    assert len(set(told.first_records)) == 4
    assert instance.close(TIMEOUT_S)
    assert (instance.state, instance.errors) == (InstanceState.NOT_RUNNING, ())
    assert told.drops == [("closed", True)] * 2
    assert b"streams_tasks{" not in instance.metrics.exposition()
    assert processed(instance) == len(SOME_LINES) + sum(group.words.values()), "counters stay"
    wait_until_gone(own)
    written = read_all(group.log, TOTALS)
    assert len(written) == len(set(written)) == sum(group.words.values()), "nothing was written twice"


def test_should_answer_queries_from_the_processes_that_have_the_tasks(group: Group) -> None:
    group.write(SOME_LINES)
    instance = group.start(**AS_PROCESSES)
    group.wait_until_counted()
    spread_over(instance, "a-0", "a-1")
    view = InstanceView(instance, group.log)
    builder = view.store_locations()[STORE].builder
    assert builder is not None
    keys = {word: TEXT.serialize(word) for word in [*group.words, "nowhere"]}

    found = {}
    for word, key in keys.items():

        def read(store: StateStore, key: bytes = key) -> object:
            return read_key(builder, store, key, None)["value"]

        found[word], source = answer_for_partition(view, STORE, locate_key(view, STORE, key, None), Freshness(), read)
        assert source.type is TaskType.ACTIVE
    assert found == {**group.words, "nowhere": None}
    copies = view.store_copies(STORE)
    assert len({copy.task_id for copy in copies}) == 2
    assert {entry["key"] for copy in copies for entry in read_entries(builder, copy.store, 100)} == set(group.words)
    assert len([entry for copy in copies for entry in read_entries(builder, copy.store, 1)]) <= 2
    with pytest.raises(StreamsRuntimeError, match="can only be read"):
        copies[0].store.flush()
    assert instance.close(TIMEOUT_S)
    with pytest.raises(StreamsRuntimeError, match="has ended"):
        copies[0].store.get("the")  # type: ignore[attr-defined]


def test_should_add_and_remove_processes_and_hand_state_from_one_to_another(group: Group) -> None:
    group.write(SOME_LINES)
    instance = group.start(num_stream_threads=1, **AS_PROCESSES)
    spread_over(instance, "a-0")
    first = pids(instance)

    assert instance.add_stream_thread() == "a-1"
    spread_over(instance, "a-0", "a-1")
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert len({*pids(instance), *first}) == 2

    assert instance.remove_stream_thread(TIMEOUT_S) == "a-0"
    wait_until_gone(first)
    assert threads_of(instance) == ["a-1"]
    spread_over(instance, "a-1")
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert instance.errors == ()


def test_should_stand_still_while_paused_and_share_the_cache(group: Group) -> None:
    def stands_still() -> bool:
        """Whether a new line is left unread, however often each thread has gone round."""
        before, rounds = processed(instance), polls(instance)
        group.write(["the cat"])
        wait_for(lambda: all(polls(instance)[name] > often + 2 for name, often in rounds.items()), instance.status)
        return processed(instance) == before

    group.write(SOME_LINES)
    instance = group.prepared(statestore_cache_max_bytes=1_000_000, **AS_PROCESSES)
    instance.pause()
    instance.start()
    wait_for(lambda: active_tasks(instance) == len(ALL_TASKS), instance.status)  # a paused one restores nothing, too
    assert stands_still()
    wishes = [thread._wishes() for thread in instance._threads if isinstance(thread, ThreadProcess)]
    assert [(each.is_paused, each.cache_bytes) for each in wishes] == [(True, 500_000)] * 2
    assert processed(instance) == 0

    instance.resume()
    group.wait_until_counted()
    instance.pause()
    wait_for(stands_still, instance.status)
    instance.resume()
    group.wait_until_counted()


def polls(instance: StreamsInstance) -> dict[str, float]:
    """How often each thread has gone round."""
    return {
        labels[0]: value for (name, labels), value in instance.metrics.lines().items() if name == "streams_polls_total"
    }


def test_should_leave_signals_to_the_process_of_the_instance(group: Group) -> None:
    """A terminal and a service manager send them to all processes of a group; this one drains then."""
    instance = group.start(**AS_PROCESSES)
    assert instance.wait_until_running(TIMEOUT_S)
    before = pids(instance)
    for pid in before:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert (pids(instance), instance.errors) == (before, ())


def test_should_log_in_this_process_under_the_name_of_the_thread(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    instance = group.start(num_stream_threads=1, **AS_PROCESSES)
    assert instance.wait_until_running(TIMEOUT_S)
    (pid,) = pids(instance)
    # what others have claimed, the thread drops with a warning
    group.log.claim(group.id, [TopicPartition(f"{group.id}-words", number) for number in range(2)])
    group.write(SOME_LINES)
    wait_for(lambda: any("took stream thread a-0 for dead" in line.message for line in caplog.records), instance.status)
    (line,) = [line for line in caplog.records if "took stream thread a-0 for dead" in line.message]
    assert (line.process, line.threadName, line.levelno) == (pid, "a-0", logging.WARNING)
    assert any(notice.code == "WARNINGS_LOGGED" for notice in instance.notices.newest())
    group.wait_until_counted()


def test_should_count_and_tell_in_this_process_what_was_dropped(group: Group) -> None:
    instance = group.start(processing_exception_handler=log_and_continue, num_stream_threads=1, **AS_PROCESSES)
    group.write(["the cat", "poison", "the dog", *["poison"] * 3])
    wait_for(lambda: instance.status().threads[0].dropped == 4, instance.status)
    (notice,) = [each for each in instance.notices.newest() if each.code is NoticeCode.RECORDS_DROPPED]
    assert notice.count == 4
    assert "failed in a processor, split: 4" in notice.text
    lines = instance.metrics.lines()
    assert sum(count for (name, _), count in lines.items() if name == "streams_dropped_records_total") == 4
    assert instance.errors == ()


def test_should_end_by_the_error_of_a_listener_that_is_here(group: Group) -> None:
    class Refusing(RememberingListener):
        def assigned(self, held: object) -> None:
            where.append((os.getpid(), threading.current_thread().name))
            raise ValueError("not with me")

    where: list[tuple[int, str]] = []
    instance = group.start(listener=Refusing(), num_stream_threads=1, **AS_PROCESSES)
    assert instance.wait(TIMEOUT_S) is InstanceState.ERROR
    (error,) = instance.errors
    assert (type(error), str(error)) == (ValueError, "not with me")
    assert where == [(os.getpid(), "a-0")]
