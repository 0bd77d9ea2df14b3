"""A store that finds the files of an earlier version of the application: another retention, another kind of store."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.common.errors import StoreOfAnotherKind
from streams_runtime.serdes import STRING
from streams_runtime.state_stores.builders import (
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.rocksdb_window import window_format
from streams_runtime.state_stores.state_store import ValueAndTimestamp
from streams_runtime.state_stores.store_format import (
    FORMAT_FILE_NAME,
    StoreFormat,
    StoreKind,
    read_format,
    write_format,
)
from streams_runtime.state_stores.window_keys import window_key
from tests.streams_runtime.state_stores.surroundings import batch, commit, context, everything

MINUTE_MS = 60_000
NOW_MS = 1_700_000_040_000
Reason = tuple[str, str]


def windows_of(retention_ms: int, *, retain_duplicates: bool = False) -> Any:
    return window_store(
        "s", STRING, STRING, retention_ms=retention_ms, window_size_ms=10, retain_duplicates=retain_duplicates
    ).build()


def filled(directory: Path, retention_ms: int, now_ms: int, *, retain_duplicates: bool = False) -> list[Any]:
    """A closed store with windows all over its retention; what is in it."""
    store = windows_of(retention_ms, retain_duplicates=retain_duplicates)
    store.open(context(directory))
    for start_ms in range(max(0, now_ms - retention_ms + 1), now_ms + 1, max(retention_ms // 40, MINUTE_MS // 2)):
        for key in ("a", "b", "longer"):
            store.put(key, f"{key} at {start_ms}", start_ms)
    content = everything(store)
    commit(store)
    store.close()
    return content


def forget_format(directory: Path) -> None:
    """The files are as versions left them that wrote no format."""
    (directory / "rocksdb" / "s" / FORMAT_FILE_NAME).unlink()


def reopened(directory: Path, store: Any) -> list[Reason]:
    """Open the store; why it asks for its changelog."""
    reasons: list[Reason] = []
    store.open(replace(context(directory), read_again=lambda name, reason: reasons.append((name, reason))))
    return reasons


# --- another retention


@pytest.mark.parametrize("now_ms", [NOW_MS, 30 * MINUTE_MS])
@pytest.mark.parametrize("knows_format, retain_duplicates", [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("before, after", [(11, 12), (11, 601), (601, 11), (7, 7)])
def test_should_find_its_windows_after_the_retention_changed(
    tmp_path: Path, before: int, after: int, knows_format: bool, retain_duplicates: bool, now_ms: int
) -> None:
    content = filled(tmp_path, before * MINUTE_MS, now_ms, retain_duplicates=retain_duplicates)
    if not knows_format:
        forget_format(tmp_path)
    store = windows_of(after * MINUTE_MS, retain_duplicates=retain_duplicates)
    reasons = reopened(tmp_path, store)
    assert everything(store) == content
    for key, start_ms, value in content:
        assert store.fetch(key, start_ms) == value
    store.put("a", "newest", now_ms + 1)
    earliest_ms = now_ms + 1 - after * MINUTE_MS
    kept = [each for each in content if each[1] > earliest_ms]
    assert everything(store) == sorted([*kept, ("a", now_ms + 1, "newest")])
    commit(store)
    store.close()

    said = f"its retention is {after * MINUTE_MS} ms and was {before * MINUTE_MS} ms"
    if knows_format:
        assert reasons == ([("s", said)] if after > before else [])
    again = windows_of(after * MINUTE_MS, retain_duplicates=retain_duplicates)
    assert reopened(tmp_path, again) == []
    assert {*kept, ("a", now_ms + 1, "newest")} <= set(everything(again))
    again.close()


def test_should_ask_for_its_changelog_when_nothing_tells_the_retention(tmp_path: Path) -> None:
    filled(tmp_path, 11 * MINUTE_MS, NOW_MS)
    forget_format(tmp_path)
    same = windows_of(11 * MINUTE_MS)
    assert reopened(tmp_path, same) == []
    same.close()
    forget_format(tmp_path)
    other = windows_of(13 * MINUTE_MS)
    assert reopened(tmp_path, other) == [("s", "its retention is 780000 ms and was another")]
    other.close()


def test_should_ask_for_its_changelog_when_the_retention_grew_though_segments_stay_as_long(tmp_path: Path) -> None:
    filled(tmp_path, MINUTE_MS, NOW_MS)
    store = windows_of(MINUTE_MS + 10_000)
    assert reopened(tmp_path, store) == [("s", "its retention is 70000 ms and was 60000 ms")]
    store.close()


@pytest.mark.parametrize("next_minutes", [90, 60, 40, 120])
@pytest.mark.parametrize("knows_format", [True, False])
def test_should_go_on_with_a_move_that_a_crash_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_minutes: int, knows_format: bool
) -> None:
    """The disk has the first moves. The next version may have the retention of before again, or a third one."""
    content = filled(tmp_path, 60 * MINUTE_MS, NOW_MS)
    if not knows_format:
        forget_format(tmp_path)
    monkeypatch.setattr("streams_runtime.state_stores.rocksdb_segments._MOVE_BATCH_SIZE", 2)
    writes: list[int] = []
    write = RocksDBStore.write

    def crashing_write(self: RocksDBStore, changes: Any, *offset_and_ranges: Any) -> None:
        writes.append(len(changes))
        if len(writes) > 3:
            raise RuntimeError("the process ends here")
        write(self, changes, *offset_and_ranges)

    with monkeypatch.context() as crash:
        crash.setattr(RocksDBStore, "write", crashing_write)
        with pytest.raises(RuntimeError, match="the process ends here"):
            reopened(tmp_path, windows_of(90 * MINUTE_MS))
    known_ms = 60 * MINUTE_MS if knows_format else None
    assert read_format(tmp_path / "rocksdb" / "s") == StoreFormat(StoreKind.WINDOW, known_ms)
    store = windows_of(next_minutes * MINUTE_MS)
    reasons = reopened(tmp_path, store)
    assert bool(reasons) == (not knows_format or next_minutes > 60)
    assert everything(store) == content
    store.put("a", "newest", NOW_MS + 1)
    earliest_ms = NOW_MS + 1 - next_minutes * MINUTE_MS
    assert everything(store) == sorted(
        [("a", NOW_MS + 1, "newest"), *(each for each in content if each[1] > earliest_ms)]
    )
    store.close()


def test_should_keep_the_window_that_the_last_version_put_where_two_versions_left_one(tmp_path: Path) -> None:
    """As versions left it that did not move windows: each looked into its own segments."""
    raw = RocksDBStore("s", window_format(11 * MINUTE_MS, retain_duplicates=False, timestamped=False))
    raw.open(context(tmp_path))
    key = window_key(b"a", NOW_MS, 0)
    old, new = (NOW_MS // interval_ms for interval_ms in (5 * MINUTE_MS, 6 * MINUTE_MS))
    raw.write({old.to_bytes(8, "big") + key: b"before", new.to_bytes(8, "big") + key: b"after"})
    raw.close()
    forget_format(tmp_path)
    store = windows_of(12 * MINUTE_MS)
    reopened(tmp_path, store)
    assert everything(store) == [("a", NOW_MS, "after")]
    store.close()


# --- another kind of store


def put_key_value(store: Any) -> None:
    for key in ("k", "ka", "a key that is longer than a window's numbers", "12345678"):
        store.put(key, "v")


def put_timestamped(store: Any) -> None:
    for key in ("k", "ka", "a key that is longer than a window's numbers"):
        store.put(key, ValueAndTimestamp("a value", NOW_MS))


def put_window(store: Any) -> None:
    for start_ms in (NOW_MS, NOW_MS + 40 * MINUTE_MS):
        store.put("ka", "v", start_ms)


def put_timestamped_window(store: Any) -> None:
    for start_ms in (NOW_MS, NOW_MS + 40 * MINUTE_MS):
        store.put("ka", ValueAndTimestamp("a value", NOW_MS), start_ms)


HOUR_MS = 60 * MINUTE_MS
KINDS: dict[str, tuple[Any, Callable[[Any], None]]] = {
    "key-value": (key_value_store("s", STRING, STRING), put_key_value),
    "timestamped key-value": (timestamped_key_value_store("s", STRING, STRING), put_timestamped),
    "window": (window_store("s", STRING, STRING, retention_ms=HOUR_MS, window_size_ms=10), put_window),
    "timestamped window": (
        timestamped_window_store("s", STRING, STRING, retention_ms=HOUR_MS, window_size_ms=10),
        put_timestamped_window,
    ),
    "window with duplicates": (
        window_store("s", STRING, STRING, retention_ms=HOUR_MS, window_size_ms=10, retain_duplicates=True),
        put_window,
    ),
}


def leave(directory: Path, kind: str) -> None:
    builder, put = KINDS[kind]
    store = builder.build()
    store.open(context(directory))
    put(store)
    commit(store)
    store.close()


@pytest.mark.parametrize("there, wanted", list(permutations(KINDS, 2)))
def test_should_refuse_the_files_of_each_other_kind_of_store(tmp_path: Path, there: str, wanted: str) -> None:
    leave(tmp_path, there)
    store = KINDS[wanted][0].build()
    with pytest.raises(StoreOfAnotherKind) as refused:
        store.open(context(tmp_path))
    directory = tmp_path / "rocksdb" / "s"
    assert str(refused.value) == f"store s: the directory {directory} holds a {there} store, not a {wanted} store"
    assert not store.is_open
    store.close()
    back = KINDS[there][0].build()
    back.open(context(tmp_path))
    back.close()


@pytest.mark.parametrize(
    "there, wanted, what",
    [
        ("key-value", "window", "keys of another kind"),
        ("key-value", "timestamped window", "keys of another kind"),
        ("key-value", "window with duplicates", "keys of another kind"),
        ("key-value", "timestamped key-value", "values without timestamps"),
        ("timestamped key-value", "window", "keys of another kind"),
        ("window", "key-value", "windows"),
        ("window", "timestamped key-value", "windows"),
        ("timestamped window", "key-value", "windows"),
        ("window with duplicates", "key-value", "windows"),
        ("window with duplicates", "window", "keys of another kind"),
    ],
)
def test_should_tell_another_kind_of_store_by_its_content_where_the_files_do_not_say_it(
    tmp_path: Path, there: str, wanted: str, what: str
) -> None:
    leave(tmp_path, there)
    forget_format(tmp_path)
    with pytest.raises(StoreOfAnotherKind, match=f"holds {what}, not a {wanted} store"):
        KINDS[wanted][0].build().open(context(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_should_take_files_that_do_not_say_their_format_for_its_own(tmp_path: Path, kind: str) -> None:
    leave(tmp_path, kind)
    forget_format(tmp_path)
    store = KINDS[kind][0].build()
    assert reopened(tmp_path, store) == []
    assert read_format(tmp_path / "rocksdb" / "s") is not None
    store.close()


def test_should_not_take_keys_with_numbers_for_windows(tmp_path: Path) -> None:
    """Of a customer and an hour, for example: in such keys no number is that of a segment."""
    store = RocksDBStore("s")
    store.open(context(tmp_path))
    keys: list[bytes | None] = [window_key(number.to_bytes(8, "big"), NOW_MS, 0) for number in (5, 1_000)]
    store.restore(batch([(key, b"v", 0) for key in keys]))
    store.close()
    forget_format(tmp_path)
    store.open(context(tmp_path))
    assert [key for key, _ in store.scan(None, None)] == keys
    store.close()


# --- the file


def test_should_read_the_format_that_it_wrote(tmp_path: Path) -> None:
    for kept in (StoreFormat(StoreKind.KEY_VALUE), StoreFormat(StoreKind.WINDOW, 660_000, 330_000)):
        write_format(tmp_path, kept)
        assert read_format(tmp_path) == kept
    assert json.loads((tmp_path / FORMAT_FILE_NAME).read_text()) == {
        "kind": "window",
        "retention.ms": 660_000,
        "segment.interval.ms": 330_000,
    }


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"kind": 7}', b"\xff\xfe"])
def test_should_treat_a_format_that_cannot_be_read_as_none(tmp_path: Path, content: bytes) -> None:
    assert read_format(tmp_path / "nothing there") is None
    (tmp_path / FORMAT_FILE_NAME).write_bytes(content)
    assert read_format(tmp_path) is None


def test_should_refuse_a_kind_of_store_that_only_a_later_version_knows(tmp_path: Path) -> None:
    leave(tmp_path, "key-value")
    write_format(tmp_path / "rocksdb" / "s", StoreFormat("session"))
    with pytest.raises(StoreOfAnotherKind, match="holds a session store, not a key-value store"):
        KINDS["key-value"][0].build().open(context(tmp_path))
