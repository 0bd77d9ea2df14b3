"""Every change goes to the changelog, nothing else does. Kafka's: `ChangeLoggingKeyValueBytesStoreTest`, ..."""

from pathlib import Path

import pytest

from streams_runtime.serdes import STRING
from streams_runtime.state_stores.builders import key_value_store, timestamped_key_value_store, window_store
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.state_stores.window_keys import window_key
from tests.streams_runtime.state_stores.surroundings import Change, RecordedChanges, SetClock, batch, context

KINDS = pytest.mark.parametrize("persistent", [True, False], ids=["rocksdb", "in_memory"])


@KINDS
def test_should_number_duplicates_in_the_changelog(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    store = window_store(
        "w", STRING, STRING, retention_ms=1_000, window_size_ms=10, retain_duplicates=True, persistent=persistent
    ).build()
    store.open(context(tmp_path, changes, SetClock(record_timestamp_ms=5)))
    store.put("a", "1", 5)
    store.put("a", None, 5)
    store.put("a", "2", 5)
    store.put("b", "3", 5)
    store.close()

    assert changes.changes == [
        Change("w", window_key(b"a", 5, 1), b"1", 5),
        Change("w", window_key(b"a", 5, 2), None, 5),
        Change("w", window_key(b"a", 5, 3), b"2", 5),
        Change("w", window_key(b"b", 5, 4), b"3", 5),
    ]


@KINDS
def test_should_log_an_expired_window_as_kafka_does(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    store = window_store("w", STRING, STRING, retention_ms=10, window_size_ms=10, persistent=persistent).build()
    store.open(context(tmp_path, changes, SetClock(record_timestamp_ms=1_000)))
    store.put("a", "1", 1_000)
    store.put("a", "2", 990)
    store.close()

    assert [change.key for change in changes.changes] == [window_key(b"a", 1_000, 0), window_key(b"a", 990, 0)]


@KINDS
def test_should_not_log_what_is_restored(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    stores: list[StateStore] = [
        key_value_store("k", STRING, STRING, persistent=persistent).build(),
        timestamped_key_value_store("t", STRING, STRING, persistent=persistent).build(),
        window_store("w", STRING, STRING, retention_ms=10, window_size_ms=10, persistent=persistent).build(),
    ]
    for store in stores:
        store.open(context(tmp_path, changes))
        store.restore(batch([(window_key(b"a", 1, 0), b"1", 5)]))
        store.close()

    assert changes.changes == []


@KINDS
def test_should_log_to_its_new_surroundings_when_it_is_recycled(tmp_path: Path, persistent: bool) -> None:
    changes = RecordedChanges()
    store = key_value_store("store", STRING, STRING, persistent=persistent).build()
    store.open(context(tmp_path))
    store.put("a", "1")
    store.rebind(context(tmp_path, changes, SetClock(record_timestamp_ms=9)))
    store.put("b", "2")
    store.rebind(context(tmp_path))
    store.put("c", "3")

    assert changes.changes == [Change("store", b"b", b"2", 9)]
    assert [key for key, _ in store.all()] == ["a", "b", "c"]
    store.close()
