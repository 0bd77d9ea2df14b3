"""A value's timestamp: before the value in the store, the record's in the changelog. KIP-258, KIP-300."""

from pathlib import Path
from typing import Any

import pytest

from streams_runtime import STRING, ValueAndTimestamp, timestamped_key_value_store, timestamped_window_store
from streams_runtime.state_stores.builders import TimestampedWindowStoreBuilder
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.rocksdb_window import window_format
from streams_runtime.state_stores.store_format import StoreFormat, StoreKind
from streams_runtime.state_stores.value_and_timestamp import ValuesWithTimestamps
from tests.streams_runtime.state_stores.surroundings import Change, RecordedChanges, SetClock, as_batch, commit, context

ONE = ValueAndTimestamp("one", 1_000)
TWO = ValueAndTimestamp("two", 2_000)
KINDS = pytest.mark.parametrize("persistent", [True, False], ids=["rocksdb", "in_memory"])


def test_should_keep_eight_bytes_of_timestamp_before_the_value_on_disk(tmp_path: Path) -> None:
    store = timestamped_key_value_store("table", STRING, STRING).build()
    store.open(context(tmp_path))
    store.put("a", ValueAndTimestamp("one", 258))
    commit(store)
    store.close()
    on_disk = RocksDBStore("table", StoreFormat(StoreKind.TIMESTAMPED_KEY_VALUE))
    on_disk.open(context(tmp_path))

    assert list(on_disk.scan(None, None)) == [(b"a", b"\0\0\0\0\0\0\x01\x02one")]
    on_disk.close()


@KINDS
def test_should_restore_what_it_logged(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    builder = timestamped_key_value_store("table", STRING, STRING, persistent=persistent)
    store, copy = builder.build(), builder.build()
    store.open(context(tmp_path / "0_0", changes))
    store.put_all([("a", ONE), ("b", TWO), ("a", TWO), ("c", ONE), ("c", None)])
    copy.open(context(tmp_path / "0_1"))
    copy.restore(as_batch(changes.changes))

    assert list(copy.all()) == list(store.all()) == [("a", TWO), ("b", TWO)]
    store.close()
    copy.close()


def windows(persistent: bool) -> TimestampedWindowStoreBuilder[str, str]:
    return timestamped_window_store("w", STRING, STRING, retention_ms=1_000, window_size_ms=10, persistent=persistent)


def test_should_delete_the_window_when_the_value_beside_the_timestamp_is_none(tmp_path: Path) -> None:
    store = windows(persistent=False).build()
    store.open(context(tmp_path))
    store.put("a", ONE, 10)
    store.put("a", ValueAndTimestamp(None, 5), 10)  # type: ignore[arg-type]

    assert store.fetch("a", 10) is None


@KINDS
def test_should_restore_windows_with_timestamps_that_it_logged(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    store, copy = windows(persistent).build(), windows(persistent).build()
    store.open(context(tmp_path / "0_0", changes))
    for start_ms, value in ((0, ONE), (10, TWO), (10, ONE), (20, TWO)):
        store.put("a", value, start_ms)
    store.put("a", None, 20)
    copy.open(context(tmp_path / "0_1"))
    copy.restore(as_batch(changes.changes))

    assert list(copy.fetch_range("a", 0, 100)) == list(store.fetch_range("a", 0, 100)) == [(0, ONE), (10, ONE)]
    assert copy.fetch("a", 10) == ONE
    store.close()
    copy.close()


def test_should_keep_eight_bytes_of_timestamp_before_the_value_of_a_window_on_disk(tmp_path: Path) -> None:
    store = windows(persistent=True).build()
    store.open(context(tmp_path))
    store.put("a", ValueAndTimestamp("one", 258), 0)
    commit(store)
    store.close()
    on_disk = RocksDBStore("w", window_format(1_000, retain_duplicates=False, timestamped=True))
    on_disk.open(context(tmp_path))

    assert [value for _, value in on_disk.scan(None, None)] == [b"\0\0\0\0\0\0\x01\x02one"]
    on_disk.close()


def test_should_put_columns_of_values_and_timestamps_together() -> None:
    full = ValuesWithTimestamps([b"a", b"bc"], [1, 2])
    with_gaps = ValuesWithTimestamps([None, b"a", b"", None], range(1, 5))

    assert list(full) == [b"\0\0\0\0\0\0\0\x01a", b"\0\0\0\0\0\0\0\x02bc"]
    assert list(with_gaps) == [None, b"\0\0\0\0\0\0\0\x02a", b"\0\0\0\0\0\0\0\x03", None]
    assert (len(with_gaps), with_gaps[1], list(with_gaps[2:])) == (4, list(with_gaps)[1], list(with_gaps)[2:])


@KINDS
def test_should_put_many_as_one_after_the_other(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    store = timestamped_key_value_store("table", STRING, STRING, persistent=persistent).build()
    store.open(context(tmp_path, changes, SetClock(record_timestamp_ms=77)))
    nothing: Any = ValueAndTimestamp(None, 9)
    store.put_many(["a", "b", "a", "c", "c"], [ONE, TWO, TWO, ONE, nothing])

    assert store.get_many(["a", "b", "c"]) == [TWO, TWO, None]
    store.close()
    assert changes.changes == [
        Change("table", b"a", b"one", 1_000),
        Change("table", b"b", b"two", 2_000),
        Change("table", b"a", b"two", 2_000),
        Change("table", b"c", b"one", 1_000),
        Change("table", b"c", None, 77),
    ]
