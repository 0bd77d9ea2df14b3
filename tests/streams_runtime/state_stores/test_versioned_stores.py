"""Versioned stores: what they keep, and what a restore, a crash and a new version of the application change.

The recorded scripts of `tests/dsl_vectors` show the answers of each call. Kafka's: `RocksDBVersionedStoreTest`.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from assignor.errors import IllegalArgumentError
from assignor.topology.group_topology import ChangelogConfig, ChangelogType
from streams_runtime import STRING, IsolationLevel, StreamsRuntimeError, VersionedRecord, versioned_key_value_store
from streams_runtime.common.errors import StoreOfAnotherKind
from streams_runtime.state_stores.segment_values import SegmentValue
from streams_runtime.state_stores.state_store import read_only
from streams_runtime.state_stores.versioned import NOT_PUT, VALID_TO_UNDEFINED, VersionedKeyValueStore
from tests.streams_runtime.state_stores.surroundings import (
    RecordedChanges,
    as_batch,
    batch,
    commit,
    committed_offset,
    context,
)

HISTORY_MS = 10_000
Store = VersionedKeyValueStore[str, str]
Open = Callable[..., Store]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    opened: list[Store] = []

    def open_one(directory: str = "a", history_ms: int = HISTORY_MS, changes: RecordedChanges | None = None) -> Store:
        store = versioned_key_value_store("prices", STRING, STRING, history_retention_ms=history_ms).build()
        store.open(context(tmp_path / directory, changes))
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


def all_versions(store: Store, from_ms: int = 0) -> dict[str, list[VersionedRecord[str]]]:
    return {key: store.versions(key, from_ms) for key in "abc"}


def test_should_give_the_versions_that_were_valid_in_a_range(open_store: Open) -> None:
    store = open_store()
    for value, timestamp_ms in (("one", 1_000), ("two", 4_000), (None, 6_000), ("three", 9_000)):
        store.put("a", value, timestamp_ms)
    one, two, three = (
        VersionedRecord("one", 1_000, 4_000),
        VersionedRecord("two", 4_000, 6_000),
        VersionedRecord("three", 9_000, None),
    )
    assert store.versions("a") == [three, two, one]
    assert store.versions("a", ascending=True) == [one, two, three]
    assert store.versions("a", 3_999, 4_000) == [two, one]
    assert store.versions("a", 0, 1_500) == [one]  # it ends in a later segment than the range
    assert store.versions("a", 6_000, 8_999) == []
    with pytest.raises(StreamsRuntimeError, match="greater than to_ms"):
        store.versions("a", 2, 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_should_have_the_same_versions_after_a_restore(open_store: Open, seed: int) -> None:
    random, changes = Random(seed), RecordedChanges()
    store = open_store(changes=changes)
    now_ms = 50_000
    for number in range(300):
        now_ms += random.randrange(300)
        store.put(random.choice("abc"), random.choice([str(number), "", None]), now_ms - random.randrange(12_000))
    restored = open_store("b")
    records = as_batch(changes.changes)
    for first in range(0, 300, 70):
        restored.restore(records.part(first, min(first + 70, 300)))
    newest_ms = max(change.timestamp_ms for change in changes.changes)
    assert all_versions(restored, newest_ms - HISTORY_MS) == all_versions(store, newest_ms - HISTORY_MS)
    assert committed_offset(restored) == 299


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_should_restore_a_late_version_before_a_deletion_that_expires_in_the_same_batch(
    open_store: Open, batches: int
) -> None:
    changes = RecordedChanges()
    store, restored = open_store(changes=changes), open_store("b")
    for key, value, timestamp_ms in (("a", "old", 1_000), ("a", None, 9_000), ("a", "late", 8_500), ("b", "x", 30_000)):
        store.put(key, value, timestamp_ms)
    size = len(changes.changes) // batches
    for first in range(0, len(changes.changes), size):
        restored.restore(as_batch(changes.changes[first : first + size]))
    assert store.get("a") is restored.get("a") is None
    assert all_versions(store) == all_versions(restored)


def test_should_refuse_and_log_a_version_that_is_older_than_the_history(open_store: Open, tmp_path: Path) -> None:
    changes, expired = RecordedChanges(), list[str]()
    store = open_store(changes=changes)
    store.rebind(replace(context(tmp_path, changes), expired=expired.append))
    assert store.put("a", "new", 20_000) == VALID_TO_UNDEFINED
    assert store.put("a", "old", 10_000) == 20_000
    assert (store.put("a", "late", 9_999), store.delete("a", 9_999)) == (NOT_PUT, None)
    assert (expired, [change.value for change in changes.changes]) == (["prices"] * 2, [b"new", b"old", b"late", None])
    assert store.get("a", 9_999) is None


def test_should_drop_what_was_not_committed(open_store: Open) -> None:
    store = open_store()
    store.put("a", "one", 1_000)
    commit(store, 0)
    store.put("a", "two", 2_000)
    committed = read_only(store, IsolationLevel.READ_COMMITTED)
    assert committed.get("a") == VersionedRecord("one", 1_000)  # type: ignore[attr-defined]
    assert store.get("a") == VersionedRecord("two", 2_000)
    store.close()  # as after an aborted transaction
    again = open_store()
    assert (all_versions(again)["a"], committed_offset(again)) == ([VersionedRecord("one", 1_000)], 0)


def test_should_find_its_segments_after_a_restart(open_store: Open) -> None:
    store = open_store()
    for timestamp_ms in range(0, 10_000, 1_000):
        store.put("a", str(timestamp_ms), timestamp_ms)
    kept = store.versions("a")
    commit(store)
    store.close()
    again = open_store()
    assert again.versions("a") == kept
    assert again.get("a", 1_500) == VersionedRecord("1000", 1_000)


def test_should_delete_expired_segments(open_store: Open) -> None:
    store = open_store()
    for timestamp_ms in (0, 1_000, 30_000, 31_000):
        store.put("a", str(timestamp_ms), timestamp_ms)
    commit(store)
    store.close()
    assert [(each.value, each.valid_to_ms) for each in open_store().versions("a")] == [
        ("31000", None),
        ("30000", 31_000),
        ("1000", 30_000),
    ]


def test_should_keep_its_files_for_a_new_history_of_equal_segments_only(open_store: Open) -> None:
    store = open_store(history_ms=5_000)
    store.put("a", "one", 1_000)
    commit(store, 0)
    store.close()
    same = open_store(history_ms=4_000)  # both have segments of 2 s
    assert (same.get("a"), committed_offset(same)) == (VersionedRecord("one", 1_000), 0)
    same.close()
    with pytest.raises(StoreOfAnotherKind, match="segments of 2000 ms"):
        open_store(history_ms=60_000)


@pytest.mark.parametrize("seed", range(10))
def test_should_have_the_versions_of_a_longer_history_when_the_changelog_was_read_again_over_its_content(
    open_store: Open, tmp_path: Path, seed: int
) -> None:
    chance, changes, times = Random(seed), RecordedChanges(), itertools.count(0, 300)
    store = open_store(history_ms=3_000, changes=changes)
    for now_ms in itertools.islice(times, 100):
        value = None if chance.random() < 0.2 else str(now_ms)
        store.put(chance.choice("abc"), value, max(0, now_ms - chance.randrange(6_000)))
    commit(store, len(changes.changes) - 1)
    store.close()

    asked: list[tuple[str, str]] = []
    longer = versioned_key_value_store("prices", STRING, STRING, history_retention_ms=6_000).build()
    longer.open(replace(context(tmp_path / "a"), read_again=lambda *reason: asked.append(reason)))
    assert asked == [("prices", "its retention is 6000 ms and was 3000 ms")]
    assert committed_offset(longer) is None, "a crash must not end the second reading"
    longer.restore(as_batch(changes.changes))
    fresh = open_store("b", history_ms=6_000)
    fresh.restore(as_batch(changes.changes))
    assert all_versions(longer) == all_versions(fresh)
    longer.close()


def test_should_recover_from_a_crash_between_the_two_writes_of_a_put() -> None:
    """Without transactions, the older row may have a version that the newer row still has, too."""
    row = SegmentValue.of(b"one", 10, 20)
    row.insert_as_latest(20, 35, b"two")  # the put at 35 was not finished; the version is valid until 40
    row.insert_as_latest(20, 30, b"two")
    assert [version[1:] for version in row.versions()] == [(20, 30, b"two"), (10, 20, b"one")]
    row.insert_as_latest(5, 10, b"none")
    assert [version[1:] for version in row.versions()] == [(5, 10, b"none")]


def test_should_skip_records_without_key_in_a_restore(open_store: Open) -> None:
    store = open_store()
    store.restore(batch([(None, b"nobody", 1), (b"a", b"one", 2)]))
    assert store.get("a") == VersionedRecord("one", 2)


def test_should_ask_for_a_changelog_that_keeps_the_history() -> None:
    builder = versioned_key_value_store("prices", STRING, STRING, history_retention_ms=HISTORY_MS)
    assert builder.changelog == ChangelogConfig(ChangelogType.VERSIONED, min_compaction_lag_ms=HISTORY_MS)


@pytest.mark.parametrize("wrong", [{"persistent": False}, {"caching": True}, {"history_retention_ms": -1}])
def test_should_refuse_what_a_versioned_store_cannot_have(wrong: dict[str, object]) -> None:
    with pytest.raises(IllegalArgumentError):
        versioned_key_value_store("prices", STRING, STRING, **{"history_retention_ms": 1, **wrong})  # type: ignore[arg-type]


def test_should_refuse_an_invalid_timestamp(open_store: Open) -> None:
    store = open_store()
    for wrong in (-1, 1.5, None):
        with pytest.raises(StreamsRuntimeError, match="store prices: the version has"):
            store.put("a", "one", wrong)  # type: ignore[arg-type]
