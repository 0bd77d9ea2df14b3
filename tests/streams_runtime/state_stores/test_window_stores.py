"""Window stores, on disk and in memory: the same windows from both. Kafka's: `AbstractWindowBytesStoreTest`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.types import JAVA_LONG_MAX
from streams_runtime import STRING, InvalidStateStore, StreamsRuntimeError, Windowed, window_store
from streams_runtime.common.errors import ChangelogOfAnotherKind
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.rocksdb_window import RocksDBWindowStore, window_format
from streams_runtime.state_stores.window import WindowStore
from streams_runtime.state_stores.window_keys import window_key
from tests.streams_runtime.state_stores.surroundings import batch, commit, committed_offset, context, everything

RETENTION_MS = 200_000
SEGMENT_MS = RETENTION_MS // 2
SIZE_MS = 3
Store = WindowStore[str, str]
Open = Callable[..., Store]


@pytest.fixture(params=[True, False], ids=["rocksdb", "in_memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    opened: list[Store] = []

    def open_one(retain_duplicates: bool = False, retention_ms: int = RETENTION_MS) -> Store:
        store = window_store(
            "windows",
            STRING,
            STRING,
            retention_ms=retention_ms,
            window_size_ms=SIZE_MS,
            retain_duplicates=retain_duplicates,
            persistent=request.param,
        ).build()
        store.open(context(tmp_path))
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.mark.parametrize(
    "from_ms, to_ms, expected",
    [
        (10, 30, [10, 20, 30]),
        (11, 29, [20]),
        (20, 20, [20]),
        (30, 10, []),
        (-5, 10, [10]),
        (31, JAVA_LONG_MAX, [SEGMENT_MS - 1, SEGMENT_MS, SEGMENT_MS + 50]),
        (-1, 10**30, [10, 20, 30, SEGMENT_MS - 1, SEGMENT_MS, SEGMENT_MS + 50]),
    ],
)
def test_should_take_both_ends_of_a_range(open_store: Open, from_ms: int, to_ms: int, expected: list[int]) -> None:
    store = open_store()
    for start_ms in (SEGMENT_MS + 50, 30, 10, SEGMENT_MS, 20, SEGMENT_MS - 1):
        store.put("a", str(start_ms), start_ms)
        store.put("b", "other", start_ms)

    assert list(store.fetch_range("a", from_ms, to_ms)) == [(start_ms, str(start_ms)) for start_ms in expected]
    found = sorted(windowed.start_ms for windowed, _ in store.fetch_all(from_ms, to_ms) if windowed.key == "a")
    assert found == expected


def test_should_cut_off_the_end_of_a_window_at_the_end_of_time(open_store: Open) -> None:
    store = open_store()
    store.put("a", "one", JAVA_LONG_MAX - 1)

    assert list(store.fetch_all(0, JAVA_LONG_MAX)) == [(Windowed("a", JAVA_LONG_MAX - 1, JAVA_LONG_MAX), "one")]


def test_should_restore_windows_of_several_segments_in_one_batch(open_store: Open) -> None:
    store = open_store()
    starts_ms = (0, 5 * SEGMENT_MS, 4 * SEGMENT_MS, 3 * SEGMENT_MS, 3 * SEGMENT_MS + 1, 5 * SEGMENT_MS)
    records: list[tuple[bytes | None, bytes | None, int]] = [
        (window_key(b"a", start_ms, 0), b"%d" % index, 0) for index, start_ms in enumerate(starts_ms)
    ]
    store.restore(batch([*records, (window_key(b"a", 4 * SEGMENT_MS, 0), None, 0), (None, b"nobody", 0)]))

    assert list(store.fetch_range("a", 0, JAVA_LONG_MAX)) == [(3 * SEGMENT_MS + 1, "4"), (5 * SEGMENT_MS, "5")]


@pytest.mark.parametrize("retain_duplicates", [False, True])
def test_should_tell_its_context_what_has_expired(open_store: Open, tmp_path: Path, retain_duplicates: bool) -> None:
    expired: list[str] = []
    store = open_store(retain_duplicates)
    store.rebind(replace(context(tmp_path), expired=expired.append))  # as a task does that takes it over
    store.put("a", "new", 2 * RETENTION_MS)
    store.put("a", "kept", RETENTION_MS + 1)
    store.put("a", "late", RETENTION_MS - 1)
    kept = [("a", RETENTION_MS + 1, "kept"), ("a", 2 * RETENTION_MS, "new")]
    assert (expired, everything(store)) == (["windows"], kept)


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("persistent, dropped", [(True, 0), (False, 1)])
def test_should_drop_an_expired_window_of_a_live_segment_in_memory_only(
    tmp_path: Path, persistent: bool, dropped: int, count: int
) -> None:
    """As in Kafka: `RocksDBWindowStore` puts it into the segment, where no read finds it.

    `InMemoryWindowStore` leaves it out.
    """
    expired: list[str] = []
    settings = {"retention_ms": RETENTION_MS, "window_size_ms": SIZE_MS, "persistent": persistent}
    store = window_store("windows", STRING, STRING, **settings).build()  # type: ignore[arg-type]
    store.open(replace(context(tmp_path), expired=expired.append))
    store.put("a", "new", RETENTION_MS)
    for number in range(count):
        store.put(f"k{number}", "late", 0)

    assert (len(expired), everything(store)) == (dropped * count, [("a", RETENTION_MS, "new")])
    store.close()


@pytest.mark.parametrize(
    "retain_duplicates, key",
    [
        (False, b"short"),
        (False, b"customer-1234"),
        (False, window_key(b"a", -1, 0)),
        (False, window_key(b"a", 1, 7)),
        (True, b"short"),
        (True, b"customer-1234"),
        (True, "Größe der Stücke".encode()),
        (True, window_key(b"a", 1, -1)),
    ],
)
def test_should_refuse_a_changelog_key_of_no_window(open_store: Open, retain_duplicates: bool, key: bytes) -> None:
    store = open_store(retain_duplicates)
    records: list[tuple[bytes | None, bytes | None, int]] = [(window_key(b"a", 1, 0), b"one", 0), (key, b"two", 0)]

    with pytest.raises(
        ChangelogOfAnotherKind,
        match=r"store windows is a window store, and its changelog app-store-changelog-0 has records of another kind",
    ) as refused:
        store.restore(batch(records, 5))
    assert f"(offsets 5 to 6, key {key!r})" in str(refused.value)


def test_should_delete_expired_windows_with_the_restored_records_that_expire_them(tmp_path: Path) -> None:
    """The task may be closed without a commit after the restore, and the stored offset would be too high."""
    store = window_store("windows", STRING, STRING, retention_ms=RETENTION_MS, window_size_ms=SIZE_MS).build()
    store.open(context(tmp_path))
    store.restore(batch([(window_key(b"old", 0, 0), b"1", 0)]))
    newest_ms = 4 * RETENTION_MS
    store.restore(batch([(window_key(b"new", newest_ms, 0), b"2", 0)], 1))
    store.close()  # drops the changes that are not committed

    store.open(context(tmp_path))
    assert (committed_offset(store), everything(store)) == (1, [("new", newest_ms, "2")])
    store.close()


def test_should_restore_duplicates_and_put_new_ones_behind_them(open_store: Open) -> None:
    store = open_store(retain_duplicates=True)
    store.restore(
        batch(
            [
                (window_key(b"a", 10, 1), b"one", 0),
                (window_key(b"a", 10, 2), b"two", 0),
                (window_key(b"a", 10, 3), b"three", 0),
                (window_key(b"a", 10, 2), None, 0),
                (window_key(b"b", 10, 7), b"gone", 0),
                (window_key(b"b", 10, 7), None, 0),
                (window_key(b"c", 10, 7), None, 0),
            ]
        )
    )
    store.put("a", "new", 10)
    store.put("a", "newer", 10)

    assert everything(store) == [("a", 10, value) for value in ("new", "newer", "one", "three")]
    assert [value for _, value in store.fetch_range("a", 10, 10)] == ["one", "three", "new", "newer"]


def test_should_delete_whole_segments_from_disk_at_the_commit_after_they_expired(tmp_path: Path) -> None:
    store = window_store("w", STRING, STRING, retention_ms=RETENTION_MS, window_size_ms=SIZE_MS).build()
    on_disk = RocksDBStore("w", window_format(RETENTION_MS, retain_duplicates=False, timestamped=False))

    def put_into(segments: range, *, committed: bool) -> list[bytes]:
        """The keys on disk after the store was closed."""
        store.open(context(tmp_path))
        for segment in segments:
            store.put("a", "x", segment * SEGMENT_MS)
            store.put("b", "x", segment * SEGMENT_MS)
        if committed:
            commit(store)
        store.close()
        on_disk.open(context(tmp_path))
        keys = [key for key, _ in on_disk.scan(None, None)]
        on_disk.close()
        return keys

    def keys_of(segments: range) -> list[bytes]:
        return [
            segment.to_bytes(8, "big") + window_key(key, segment * SEGMENT_MS, 0)
            for segment in segments
            for key in (b"a", b"b")
        ]

    assert put_into(range(3), committed=True) == keys_of(range(3))
    assert put_into(range(2, 6), committed=False) == keys_of(range(3))
    assert put_into(range(2, 3), committed=True) == keys_of(range(3)), "the close dropped the deletion"
    # segment 5 is the last, so that 5 - retention = 3 is the first that can still have a live window
    assert put_into(range(6), committed=True) == keys_of(range(3, 6))


def test_should_have_segments_of_a_minute_at_least(tmp_path: Path) -> None:
    store = window_store("w", STRING, STRING, retention_ms=10, window_size_ms=SIZE_MS).build()
    store.open(context(tmp_path))
    store.put("a", "x", 59_999)
    store.put("a", "y", 60_000)

    assert list(store.fetch_range("a", 0, 100_000)) == [(59_999, "x"), (60_000, "y")]
    commit(store)
    store.close()
    on_disk = RocksDBStore("w", window_format(10, retain_duplicates=False, timestamped=False))
    on_disk.open(context(tmp_path))
    assert [key[:8] for key, _ in on_disk.scan(None, None)] == [bytes(8), bytes(7) + b"\x01"]
    on_disk.close()


def test_should_not_show_an_open_iterator_what_is_put_later(open_store: Open) -> None:
    store = open_store()
    store.put("a", "1", 10)
    store.put("a", "2", SEGMENT_MS)
    windows = store.fetch_range("a", 0, JAVA_LONG_MAX)
    store.put("a", "3", 11)
    store.put("a", "4", SEGMENT_MS + 1)

    assert list(windows) == [(10, "1"), (SEGMENT_MS, "2")]


def test_should_let_an_open_iterator_go_on_when_its_windows_expire(open_store: Open) -> None:
    store = open_store()
    for start_ms in range(100):
        store.put("a", "x", start_ms)
    windows = store.fetch_all(0, 100)
    next(windows)
    store.put("a", "much later", 100 * RETENTION_MS)

    assert len(list(windows)) == 99
    assert everything(store) == [("a", 100 * RETENTION_MS, "much later")]


@pytest.mark.parametrize("start_ms", [-1, JAVA_LONG_MAX + 1])
def test_should_refuse_a_window_outside_of_time(open_store: Open, start_ms: int) -> None:
    with pytest.raises(StreamsRuntimeError, match=f"store windows: no window can start at {start_ms} ms"):
        open_store().put("a", "one", start_ms)


def test_should_say_which_store_got_a_null_key(open_store: Open) -> None:
    store, nobody = open_store(), None
    refused: list[Callable[[], object]] = [
        lambda: store.put(nobody, "x", 1),  # type: ignore[arg-type]
        lambda: store.fetch(nobody, 1),  # type: ignore[arg-type]
        lambda: store.fetch_range(nobody, 1, 2),  # type: ignore[arg-type]
    ]
    for use in refused:
        with pytest.raises(StreamsRuntimeError, match="store windows: key cannot be None"):
            use()


@pytest.mark.parametrize("retain_duplicates", [False, True])
def test_should_raise_invalid_state_store_when_it_is_closed(open_store: Open, retain_duplicates: bool) -> None:
    store = open_store(retain_duplicates)
    store.put("a", "late", RETENTION_MS)
    windows, all_windows = store.fetch_range("a", 0, JAVA_LONG_MAX), store.fetch_all(0, JAVA_LONG_MAX)
    store.close()
    store.close()

    refused: list[Callable[[], object]] = [
        lambda: store.put("a", "x", 1),
        lambda: store.put("a", "x", RETENTION_MS + 1),
        lambda: store.fetch("a", -1),
        lambda: store.fetch("a", RETENTION_MS),
        lambda: store.fetch_range("a", 0, JAVA_LONG_MAX),
        lambda: store.fetch_all(0, JAVA_LONG_MAX),
        lambda: store.restore(batch([(window_key(b"a", RETENTION_MS, int(retain_duplicates)), b"x", 0)])),
        store.flush,
        lambda: next(windows),
        lambda: next(all_windows),
    ]
    for use in refused:
        with pytest.raises(InvalidStateStore, match="store windows is not open"):
            use()
    assert not store.is_open


def test_should_ask_rocksdb_for_no_key_of_a_window_that_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    read = RocksDBStore.get

    def get(self: RocksDBStore, key: bytes) -> bytes | None:
        asked.append(key)
        return read(self, key)

    monkeypatch.setattr(RocksDBStore, "get", get)
    store = RocksDBWindowStore("w", 1_000_000, retain_duplicates=False)
    store.open(context(tmp_path))
    store.put(window_key(b"a", 10, 0), b"1", 10)
    store.commit(None)
    assert (
        store.fetch(window_key(b"a", 10, 0), 10),
        store.fetch(window_key(b"b", 10, 0), 10),
        store.fetch(window_key(b"b", 20, 0), 20),
    ) == (b"1", None, None)
    assert not asked
    store.close()
    store.open(context(tmp_path))  # nothing is known of what is there
    assert (store.fetch(window_key(b"a", 10, 0), 10), store.fetch(window_key(b"b", 10, 0), 10)) == (b"1", None)
    assert len(asked) == 2
    store.restore(batch([(window_key(b"c", 2_000_000, 0), b"3", 0)]))
    assert store.fetch(window_key(b"c", 2_000_000, 0), 2_000_000) == b"3"
    assert len(asked) == 3
    assert store.fetch(window_key(b"c", 2_000_010, 0), 2_000_010) is None
    assert len(asked) == 3
    store.close()
