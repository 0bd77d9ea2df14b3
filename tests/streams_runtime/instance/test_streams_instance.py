"""Whole instances against a real coordinator, on the embedded log and RocksDB in a directory of the test."""

import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from assignor.errors import InputError
from assignor.types import TaskId, TopicPartition
from streams_runtime.common.notices import NoticeCode
from streams_runtime.common.states import InstanceState, RestoreOrigin
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.instance.thread_work import ThreadWork
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.state_stores import rocksdb
from streams_runtime.tasks.state_directory import CLUSTER_FILE_NAME
from tests.streams_runtime.logs.processes import running_program, say
from tests.streams_runtime.running_group import EXACTLY_ONCE, GUARANTEES, SOME_LINES, Group
from tests.streams_runtime.word_counting import (
    STORE,
    TIMEOUT_S,
    TOTALS,
    RememberingListener,
    counting_application,
    read_all,
    totals,
    wait_for,
)


def stores_of(instance: StreamsInstance) -> dict[TaskId, object]:
    return {copy.task_id: copy.stores[STORE] for copy in instance.copies()}


@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_count_right_when_a_second_instance_joins_and_the_first_one_leaves(group: Group) -> None:
    first_told, second_told = RememberingListener(), RememberingListener()
    group.write(SOME_LINES)
    first = group.start("a", listener=first_told)
    assert first.wait_until_running(TIMEOUT_S)
    group.wait_until_counted()

    second = group.start("b", listener=second_told)
    group.write(SOME_LINES)
    group.wait_until_settled(first, second, standbys=2)
    group.wait_until_counted()
    assert [held.active.keys() for held in first_told.revocations], "the first one gave tasks to the second"

    taken_over = {task.task_id for thread in first.status().threads for task in thread.tasks if task.role == "active"}
    taken_over &= {TaskId(1, 0), TaskId(1, 1)}
    stores = stores_of(second)
    second_told.restores.clear()
    assert first.close(TIMEOUT_S)
    group.write(SOME_LINES)
    group.wait_until_settled(second, standbys=0)
    group.wait_until_counted()

    assert {each.task_id: (each.origin, each.records) for each in second_told.restores} == dict.fromkeys(
        taken_over, (RestoreOrigin.STANDBY, 0)
    ), "standbys of a drained instance have everything already"
    assert {task: stores_of(second)[task] for task in stores} == stores, "recycling does not close a store"
    assert set(second_told.first_records) >= {TaskId(0, 0), TaskId(0, 1)}
    assert (first.state, first.errors) == (InstanceState.NOT_RUNNING, ())
    assert first_told.drops == [("closed", True)] * 2
    assert second.close(TIMEOUT_S)
    assert (second.state, second.errors) == (InstanceState.NOT_RUNNING, ())
    written = read_all(group.log, TOTALS)
    assert len(written) == len(set(written)) == sum(group.words.values()), "nothing was written twice"


@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_start_from_its_checkpoints_when_it_comes_back_to_its_state_directory(group: Group) -> None:
    group.declare(standbys=0)
    group.write(SOME_LINES)
    first = group.start("a")
    group.wait_until_counted()
    process_id = first.process_id
    assert first.close(TIMEOUT_S)
    told = RememberingListener()
    second = group.start("a", listener=told)
    group.wait_until_settled(second, standbys=0)
    assert second.process_id == process_id
    restored = {each.task_id: (each.origin, each.records) for each in told.restores}
    with_state = {task for task in restored if restored[task] != (RestoreOrigin.BEGINNING, 0)}
    assert {restored[task] for task in with_state} == {(RestoreOrigin.CHECKPOINT, 0)}
    group.write(SOME_LINES)
    group.wait_until_counted()


@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_drop_everything_and_join_again_when_others_have_claimed_its_tasks(group: Group) -> None:
    group.declare(standbys=0)
    told = RememberingListener()
    group.write(SOME_LINES)
    instance = group.start("a", listener=told, num_stream_threads=1)
    group.wait_until_counted()
    group.log.claim(group.id, [TopicPartition(f"{group.id}-words", number) for number in range(2)])
    group.write(SOME_LINES)
    wait_for(lambda: len(told.assignments) >= 2, instance.status)
    group.wait_until_settled(instance, standbys=0)
    if group.guarantee == EXACTLY_ONCE:
        group.wait_until_counted()
    else:  # what was processed without being committed is processed again
        wait_for(
            lambda: all(totals(group.log).get(word, 0) >= group.words[word] for word in group.words), instance.status
        )
    assert [clean for _, clean in told.drops] == [False]
    assert "fenced" in told.drops[0][0]
    assert instance.errors == ()


def damage_stores(state: Path) -> int:
    """Changes a byte of the first block of each store."""
    stores = list(state.glob("1_*/rocksdb/*"))
    for store in stores:
        largest = max(store.glob("*.sst"), key=lambda file: file.stat().st_size)
        content = largest.read_bytes()
        largest.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    return len(stores)


def name_another_log(state: Path) -> int:
    (state / CLUSTER_FILE_NAME).write_text("that of another log")
    return 2


@pytest.mark.parametrize("spoil", [damage_stores, name_another_log])
@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_restore_from_the_beginning_when_state_is_damaged(group: Group, spoil: Callable[[Path], int]) -> None:
    group.declare(standbys=0)
    group.write(SOME_LINES)
    first = group.start("a", num_stream_threads=1)
    group.wait_until_counted()
    assert first.close(TIMEOUT_S)
    assert spoil(group.directory / "a" / group.id) == 2
    told = RememberingListener()
    second = group.start("a", listener=told, num_stream_threads=1, application_server="127.0.0.1:0")
    group.wait_until_settled(second, standbys=0)
    assert {each.origin for each in told.restores} == {RestoreOrigin.BEGINNING}
    if spoil is damage_stores:
        rebuilt = [one for one in second.notices.newest() if one.code is NoticeCode.STORE_REBUILT]
        assert sum(one.count for one in rebuilt) == 2
        assert all("are damaged" in one.text for one in rebuilt), rebuilt
        metrics = httpx.get(f"http://{second.endpoint}/metrics", trust_env=False).text
        counted = re.findall(r"^streams_rebuilt_stores_total\{.*\} (.+)$", metrics, re.MULTILINE)
        assert sum(map(float, counted)) == 2
    assert {TaskId(1, 0), TaskId(1, 1)} <= {each.task_id for each in told.restores if each.records > 0}
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert second.errors == ()


@pytest.mark.long
@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_rebuild_a_store_whose_damage_is_found_by_a_read(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are too large to be read when they are opened."""
    monkeypatch.setattr(rocksdb, "VERIFIED_BYTES", -1)
    group.declare(standbys=0)
    group.write(SOME_LINES)
    first = group.start("a", num_stream_threads=1)
    group.wait_until_counted()
    assert first.close(TIMEOUT_S)
    assert damage_stores(group.directory / "a" / group.id) == 2
    second = group.start("a", num_stream_threads=1)
    group.wait_until_settled(second, standbys=0)
    group.write(SOME_LINES)
    if group.guarantee == EXACTLY_ONCE:
        group.wait_until_counted()
    else:  # the records before the damaged block are processed again
        wait_for(
            lambda: all(totals(group.log).get(word, 0) >= group.words[word] for word in group.words), second.status
        )
    rebuilt = [one.count for one in second.notices.newest() if one.code is NoticeCode.STORE_REBUILT]
    assert (sum(rebuilt), second.errors) == (2, ())


def test_should_answer_queries_where_application_server_says_until_it_is_closed(group: Group) -> None:
    instance = group.start("a", application_server="127.0.0.1:0")
    assert instance.wait_until_running(TIMEOUT_S)
    endpoint = instance.endpoint
    assert endpoint is not None
    with httpx.Client(trust_env=False, base_url=f"http://{endpoint}") as http:
        assert {each["store"] for each in http.get("/v1/stores").json()["stores"]} == {STORE}
        assert "streams_tasks" in http.get("/metrics").text
        instance.close(TIMEOUT_S)
        with pytest.raises(httpx.ConnectError):
            http.get("/livez")


def test_should_hold_nothing_when_application_server_cannot_be_listened_on(group: Group) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        instance = group.prepared("a", application_server=address)
        with pytest.raises(InputError, match=f"application.server: {address} cannot be listened on"):
            instance.start()
    assert instance.state is InstanceState.ERROR
    again = group.start("a")
    assert again.wait_until_running(TIMEOUT_S)


@pytest.mark.parametrize("standbys", [0, 1])
def test_should_not_wait_for_records_when_the_group_has_news(group: Group, standbys: int) -> None:
    group.declare(standbys=standbys)
    started_s = time.monotonic()
    first = group.start("a", poll_ms=60_000, commit_interval_ms=60_000)
    second = group.start("b", poll_ms=60_000, commit_interval_ms=60_000)
    group.wait_until_settled(first, second, standbys=2 * standbys, caught_up=False)
    assert first.close(TIMEOUT_S)
    group.wait_until_settled(second, standbys=0)
    assert second.close(TIMEOUT_S)
    assert time.monotonic() - started_s < 20


def test_should_get_ready_to_take_over_when_all_tasks_run(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = []
    monkeypatch.setattr(ThreadWork, "prepare_takeover", lambda self: ready.append(self.restoration.is_done))
    instance = group.start("a")
    group.wait_until_settled(instance, standbys=0)
    wait_for(lambda: len(ready) >= len(instance.status().threads), instance.status)
    assert all(ready)


@pytest.mark.parametrize("group", GUARANTEES, indirect=True)
def test_should_go_on_from_standbys_when_a_process_is_killed(group: Group, coordinator: CoordinatorProcess) -> None:
    told = RememberingListener()
    survivor = group.start("a", listener=told, session_timeout_ms=1_000)
    assert survivor.wait_until_running(TIMEOUT_S)
    with running_program(__name__, coordinator.url, group.id, group.directory, group.guarantee) as other:
        assert other.line() == "running"
        wait_for(lambda: bool(told.revocations), survivor.status)
        for _ in range(5):
            group.write(SOME_LINES)
    group.write(SOME_LINES)
    group.wait_until_settled(survivor, standbys=0)
    if group.guarantee == EXACTLY_ONCE:
        group.wait_until_counted()
        written = read_all(group.log, TOTALS)
        assert len(written) == len(set(written)) == sum(group.words.values())
    else:
        wait_for(
            lambda: all(totals(group.log).get(word, 0) >= group.words[word] for word in group.words), survivor.status
        )
    assert RestoreOrigin.STANDBY in {each.origin for each in told.restores}
    assert survivor.errors == ()


def test_should_keep_running_when_the_coordinator_is_restarted(group: Group, coordinator: CoordinatorProcess) -> None:
    instance = group.start("a")
    group.wait_until_settled(instance, standbys=0)  # without a coordinator, nobody takes the tasks that have no owner
    coordinator.kill()
    group.write(SOME_LINES)
    group.wait_until_counted()
    coordinator.start()
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert instance.errors == ()


def run_until_killed(url: str, application_id: str, directory: str, guarantee: str) -> None:
    """The other process of the test above."""
    application = counting_application(
        application_id,
        Path(directory) / "log",
        Path(directory) / "killed",
        guarantee=guarantee,
        session_timeout_ms=1_000,
    )
    instance = StreamsInstance(application, url)
    instance.start()
    assert instance.wait_until_running(TIMEOUT_S)
    say("running")
    instance.wait()


if __name__ == "__main__":
    run_until_killed(*sys.argv[1:])
