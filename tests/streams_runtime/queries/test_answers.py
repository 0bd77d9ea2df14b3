"""A right value or a clear error, whatever happens to the task between look-up and read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assignor.types import TaskId
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries.answers import READS, answer_for_partition, locate_key
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.queries.store_metadata import KeyQueryMetadata
from tests.streams_runtime.queries.fake_instance import (
    ACTIVE,
    COUNTS,
    ELSEWHERE,
    KEY,
    PARTITION,
    RESTORING,
    RUNNING,
    STANDBY,
    STORE,
    TASK,
    FakeInstance,
    ReadWith,
    counts,
    hosts,
)
from tests.streams_runtime.state_stores.surroundings import batch, context

TASK_DIRECTORY = Path()
FROM_ACTIVE = (TASK, ACTIVE, 0)


def ask(
    instance: FakeInstance, max_lag: int | None = None, read: Callable[[Any], object] = lambda store: store.get("cat")
) -> tuple[object, tuple[TaskId, TaskType, int]]:
    where = locate_key(instance, STORE, KEY, None)
    answer, copy = answer_for_partition(instance, STORE, where, max_lag, IsolationLevel.READ_COMMITTED, read)
    return answer, (copy.task_id, copy.type, copy.reported_lag)


def refusal(
    instance: FakeInstance, max_lag: int | None = None, read: Callable[[Any], object] = lambda store: store.get("cat")
) -> QueryProblem:
    with pytest.raises(QueryProblem) as refused:
        ask(instance, max_lag, read)
    return refused.value


# --- who may answer


def test_should_answer_from_the_running_active_copy() -> None:
    instance = FakeInstance().show(counts(cat=3))
    assert ask(instance) == (3, FROM_ACTIVE)
    assert ask(instance, read=lambda store: store.get("dog")) == (None, FROM_ACTIVE)


@pytest.mark.parametrize(
    "type, state, code",
    [
        (STANDBY, RUNNING, QueryCode.STALE_STORE),
        (ACTIVE, RESTORING, QueryCode.STORE_NOT_READY),
        (ACTIVE, TaskState.SUSPENDED, QueryCode.STORE_NOT_READY),
    ],
)
def test_should_not_answer_from_other_copies_without_lag(type: TaskType, state: TaskState, code: QueryCode) -> None:
    assert refusal(FakeInstance().show(counts(), type, state, lag=0)).code is code


@pytest.mark.parametrize("type, state", [(STANDBY, RUNNING), (ACTIVE, RESTORING)])
def test_should_answer_with_the_lag_when_a_copy_is_within_the_lag_asked_for(type: TaskType, state: TaskState) -> None:
    instance = FakeInstance().show(counts(cat=3), type, state, lag=7)
    assert ask(instance, 7) == (3, (TASK, type, 7))
    stale = refusal(instance, 6)
    assert (stale.code, stale.extensions) == (
        QueryCode.STALE_STORE,
        {"lag": 7, "partition": PARTITION, "active": None},
    )


def test_should_not_answer_from_a_standby_when_its_lag_is_not_known_yet() -> None:
    stale = refusal(FakeInstance().show(counts(), STANDBY, lag=None), 10**9)
    assert (stale.code, stale.extensions["lag"]) == (QueryCode.STALE_STORE, None)


def test_should_say_where_the_active_copy_is_when_only_a_standby_is_here() -> None:
    instance = FakeInstance(maps=PartitionHosts(hosts("a:1"), hosts("b:2"))).show(counts(), STANDBY, lag=0)
    refused = refusal(instance)
    assert refused.extensions["active"] == "a:1"
    assert str(refused).endswith("only the active copy was asked for; the active copy belongs to a:1")


def test_should_say_where_it_is_when_the_partition_is_not_here() -> None:
    maps = PartitionHosts(hosts("a:1"), hosts("b:2"))
    instance = FakeInstance(maps=maps).show(counts(), task=ELSEWHERE)
    refused = refusal(instance, 100)
    assert refused.code is QueryCode.INVALID_STATE_STORE_PARTITION
    assert refused.extensions == {"partition": PARTITION, "active": "a:1", "standbys": ["b:2"]}


def test_should_say_not_ready_when_the_instance_has_no_assignment_yet() -> None:
    refused = refusal(FakeInstance(generation=0))
    assert (refused.code, refused.detail) == (QueryCode.STORE_NOT_READY, "this instance has no assignment yet")


def test_should_prefer_the_active_copy_when_two_threads_show_the_task_for_a_moment() -> None:
    instance = FakeInstance().show(counts(cat=2), STANDBY, lag=0).show_also(counts(cat=3), ACTIVE, TASK)
    assert ask(instance, 0) == (3, FROM_ACTIVE)


# --- what may happen between look-up and read


def start_over(instance: FakeInstance, store: Any) -> None:
    """The task was corrupt. The same object: closed, wiped, opened, not restored yet."""
    store.close()
    instance.show_nothing()
    store.open(context(TASK_DIRECTORY))
    instance.show(store, ACTIVE, RESTORING, lag=9)


@pytest.mark.parametrize(
    "happens, code, detail",
    [
        (lambda _, store: store.close(), QueryCode.STORE_NOT_READY, "'counts' was closed meanwhile: ask again"),
        (start_over, QueryCode.STORE_NOT_READY, "restoring"),
        (lambda instance, _: instance.show_nothing(), QueryCode.INVALID_STATE_STORE_PARTITION, "is not here"),
        (lambda instance, store: instance.show(store, STANDBY, lag=None), QueryCode.STALE_STORE, "its lag is unknown"),
    ],
    ids=["closed", "started over", "moved away", "recycled to a standby"],
)
def test_should_not_answer_from_what_the_copy_has_become_since_the_look_up(
    happens: Callable[[FakeInstance, Any], object], code: QueryCode, detail: str
) -> None:
    store = counts(cat=3)
    instance = FakeInstance().show(store)
    refused = refusal(instance, read=ReadWith(iter([lambda: happens(instance, store)]), lambda one: one.get("cat")))
    assert refused.code is code
    assert detail in refused.detail


def test_should_not_say_that_there_is_none_when_a_close_emptied_the_store_under_the_read() -> None:
    """In memory, a read that has passed the check for "open" finds the entries gone."""
    store = counts(cat=3)

    def emptied(one: Any) -> object:
        one.close()
        return None

    assert refusal(FakeInstance().show(store), read=emptied).code is QueryCode.STORE_NOT_READY


def test_should_say_not_ready_when_reading_fails_because_the_store_is_being_closed() -> None:
    def closing(one: Any) -> object:
        one.close()
        raise RuntimeError("no database any more")

    assert refusal(FakeInstance().show(counts()), read=closing).code is QueryCode.STORE_NOT_READY


def test_should_say_that_the_store_failed_when_it_cannot_be_read_though_it_is_open() -> None:
    def failing(one: Any) -> object:
        raise ValueError("bad value")

    refused = refusal(FakeInstance().show(counts()), read=failing)
    assert (refused.code, refused.detail) == (
        QueryCode.STORE_FAILED,
        "'counts' could not be read: ValueError: bad value",
    )


def test_should_read_again_when_the_store_was_opened_anew_and_restored_during_the_read() -> None:
    """Before and after the read the copy looks the same: same object, active, running."""
    store = counts(cat=3)
    instance = FakeInstance().show(store)
    reads: list[object] = []

    def read(one: Any) -> object:
        if not reads:
            store.close()
            store.open(context(TASK_DIRECTORY))
        reads.append(one.get("cat"))
        if len(reads) == 1:
            store.restore(batch([(b"cat", COUNTS.value_serde.serialize(3), 0)]))
            instance.show(store)
        return reads[-1]

    assert ask(instance, read=read) == (3, FROM_ACTIVE)
    assert reads == [None, 3]


def test_should_read_the_new_copy_when_the_store_was_replaced_during_the_read() -> None:
    instance = FakeInstance().show(counts())
    replaced = ReadWith(iter([lambda: instance.show(counts(cat=3))]), lambda one: one.get("cat"))
    assert ask(instance, read=replaced) == (3, FROM_ACTIVE)
    assert replaced.times == 2


def test_should_read_again_when_only_the_lag_was_looked_at_anew() -> None:
    store = counts(cat=3)
    instance = FakeInstance().show(store, STANDBY, lag=5)
    moved = ReadWith(iter([lambda: instance.show(store, STANDBY, lag=0)]), lambda one: one.get("cat"))
    assert ask(instance, 5, moved) == (3, (TASK, STANDBY, 0))
    assert moved.times == 2


def test_should_give_up_when_the_copy_is_another_one_after_every_read() -> None:
    instance = FakeInstance().show(counts(cat=3))
    always = ReadWith(iter(lambda: lambda: instance.show(counts(cat=3)), None), lambda one: one.get("cat"))
    assert refusal(instance, read=always).code is QueryCode.STORE_NOT_READY
    assert always.times == READS


def test_should_not_ask_other_partitions_when_a_key_is_asked_for() -> None:
    where = KeyQueryMetadata(ELSEWHERE.partition, None, ())
    instance = FakeInstance().show(counts(cat=3))
    with pytest.raises(QueryProblem, match="is not here"):
        answer_for_partition(instance, STORE, where, None, IsolationLevel.READ_COMMITTED, lambda one: one)
