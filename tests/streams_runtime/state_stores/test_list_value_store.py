"""The store of a join for records without a partner. Its bytes are those that Kafka Streams 4.3.1 has logged."""

import random
from pathlib import Path
from typing import Any

import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import LONG, STRING
from streams_runtime.state_stores.list_value_store import (
    NOT_SCANNED_MS,
    LeftOrRightValue,
    LeftOrRightValuesSerde,
    ListValueStore,
    ListValueStoreBuilder,
    TimestampedKeyAndJoinSide,
    TimestampedKeyAndJoinSideSerde,
)
from tests.streams_runtime.state_stores.surroundings import (
    Change,
    RecordedChanges,
    SetClock,
    as_batch,
    commit,
    context,
)

LEFT_KEY = TimestampedKeyAndJoinSide("k", 1_000, True)
RIGHT_KEY = TimestampedKeyAndJoinSide("k", 1_000, False)
KINDS = pytest.mark.parametrize("persistent", [True, False], ids=["rocksdb", "in memory"])


def new_store(persistent: bool) -> ListValueStore:
    keys, values = TimestampedKeyAndJoinSideSerde(STRING), LeftOrRightValuesSerde(STRING, LONG)
    return ListValueStoreBuilder("shared", keys, values, persistent=persistent).build()


def filled(store: ListValueStore, directory: Path, changes: RecordedChanges) -> None:
    clock = SetClock(record_timestamp_ms=1_000)
    store.open(context(directory, changes, clock))
    store.append(LEFT_KEY, LeftOrRightValue("one", True))
    store.append(LEFT_KEY, LeftOrRightValue("", True))
    store.append(RIGHT_KEY, LeftOrRightValue(7, False))
    clock.record_timestamp_ms = 1_002
    store.delete_if_present(RIGHT_KEY)
    store.delete_if_present(RIGHT_KEY)


@KINDS
def test_should_log_kafkas_bytes(tmp_path: Path, persistent: bool) -> None:
    changes, left = RecordedChanges(), bytes.fromhex("00000000000003e8016b")
    store = new_store(persistent)
    filled(store, tmp_path, changes)
    right = bytes.fromhex("00000000000003e8006b")
    assert changes.changes == [
        Change("shared", left, bytes.fromhex("010000000100000004016f6e65"), 1_000),
        Change("shared", left, bytes.fromhex("010000000200000004016f6e650000000101"), 1_000),
        Change("shared", right, bytes.fromhex("010000000100000009000000000000000007"), 1_000),
        Change("shared", right, None, 1_002),
    ]
    store.close()


@KINDS
def test_should_restore_its_changelog_and_scan_again_after_it(tmp_path: Path, persistent: bool) -> None:
    changes, store, restored = RecordedChanges(), new_store(persistent), new_store(persistent)
    filled(store, tmp_path / "filled", changes)
    restored.open(context(tmp_path / "restored"))
    restored.times.scan_from_ms = 7
    restored.restore(as_batch(changes.changes))
    restored.rebind(context(tmp_path / "restored", RecordedChanges()))
    assert restored.times.scan_from_ms == NOT_SCANNED_MS
    assert list(restored.all()) == list(store.all()) == [(LEFT_KEY, [("one", True), ("", True)])]
    store.close()
    restored.close()


def test_should_keep_what_was_committed(tmp_path: Path) -> None:
    store = new_store(persistent=True)
    filled(store, tmp_path, RecordedChanges())
    commit(store, 3)
    store.append(RIGHT_KEY, LeftOrRightValue(8, False))
    store.close()
    store.open(context(tmp_path))
    assert [key for key, _ in store.all()] == [LEFT_KEY]
    assert store.committed_offset == 3
    store.close()


@KINDS
def test_should_sort_by_time_and_then_by_side(tmp_path: Path, persistent: bool) -> None:
    store = new_store(persistent)
    store.open(context(tmp_path))
    keys = [TimestampedKeyAndJoinSide(key, at, left) for at in (5, 300) for left in (False, True) for key in "ab"]
    for key in reversed(keys):
        store.append(key, LeftOrRightValue("v" if key.is_left else 1, key.is_left))
    assert [key for key, _ in store.all()] == keys
    store.close()


def scanned(store: ListValueStore, right_ms: int, left_ms: int) -> tuple[list[TimestampedKeyAndJoinSide], int]:
    """Deletes the entries before these times, as a join does. Returns their keys, and where the scan has ended."""
    deleted = []
    for key, _ in store.entries_before(right_ms, left_ms):
        store.put(key, None)
        deleted.append(key)
    return deleted, store.scan_end_ms(deleted[-1].timestamp_ms if deleted else -1)


def expected(keys: list[TimestampedKeyAndJoinSide], right_ms: int, left_ms: int) -> tuple[list[Any], int]:
    """The same from one pass over all keys, which is what Kafka does."""
    deleted: list[TimestampedKeyAndJoinSide] = []
    open_sides: set[object] = set()
    end_ms = JAVA_LONG_MAX
    for key in keys:
        end_ms = key.timestamp_ms
        if len(open_sides) == 2:
            break
        if key.timestamp_ms >= (left_ms if key.is_left else right_ms):
            open_sides.add(key.is_left)
        else:
            deleted.append(key)
    return deleted, end_ms


@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_should_find_the_entries_of_closed_windows_like_one_pass_over_all(
    tmp_path: Path, persistent: bool, seed: int
) -> None:
    choices, store = random.Random(seed), new_store(persistent)
    store.open(context(tmp_path))
    keys: set[TimestampedKeyAndJoinSide] = set()
    for now_ms in range(0, 6_000, 20):
        for _ in range(choices.randrange(4)):
            late_ms = choices.choice((0, 0, 0, 3, 700))
            key = TimestampedKeyAndJoinSide(choices.choice("ab"), max(0, now_ms - late_ms), choices.random() < 0.7)
            store.append(key, LeftOrRightValue("v" if key.is_left else 1, key.is_left))
            keys.add(key)
        if keys and choices.random() < 0.3:
            key = choices.choice(sorted(keys))
            store.delete_if_present(key)
            keys.discard(key)
        if choices.random() < 0.1:
            commit(store, now_ms)
        if choices.random() < 0.02:
            store.rebind(context(tmp_path))
        if choices.random() < 0.5:
            limits = now_ms - choices.choice((10, 500)), now_ms - choices.choice((10, 1_500))
            ordered = sorted(keys, key=lambda each: (each.timestamp_ms, each.is_left, each.key))
            found = scanned(store, *limits)
            assert found == expected(ordered, *limits)
            keys.difference_update(found[0])
    assert {key for key, _ in store.all()} == keys
    store.close()
