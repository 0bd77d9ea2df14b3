"""A RocksDB store holds back its changes until its task commits. Its task reads them; an abort or a crash drops
them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.serdes import BYTES, STRING
from streams_runtime.state_stores import transaction_buffer
from streams_runtime.state_stores.builders import (
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.rocksdb import Changes, KeepOffset, RocksDBStore
from streams_runtime.state_stores.state_store import ValueAndTimestamp, keeps_offset, read_only
from streams_runtime.state_stores.thread_cache import TaskCache, ThreadCache
from streams_runtime.state_stores.transaction_buffer import TransactionBuffer
from tests.examples import share
from tests.streams_runtime.state_stores.surroundings import SetClock, batch, commit, context, in_another_thread
from tests.streams_runtime.state_stores.test_caching import Contexts
from tests.streams_runtime.state_stores.test_key_value_properties import (
    BOUNDS,
    CALLS_OF_A_STORE,
    ENTRIES,
    KEYS,
    VALUES,
    Entries,
    Model,
    answer_of,
)

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class CountedStore(RocksDBStore):
    """Knows how often and what was written, and fails on demand."""

    def __init__(self) -> None:
        super().__init__("store")
        self.written: list[tuple[list[bytes], object]] = []
        self.error: Exception | None = None

    def write(
        self,
        changes: Changes,
        offset: Any = KeepOffset.KEEP,
        deleted_ranges: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        if self.error is not None:
            raise self.error
        self.written.append((list(changes), offset))
        super().write(changes, offset, deleted_ranges)


@pytest.fixture
def inner() -> CountedStore:
    return CountedStore()


@pytest.fixture
def store(inner: CountedStore, tmp_path: Path) -> Iterator[TransactionBuffer]:
    store = TransactionBuffer(inner)
    store.open(context(tmp_path))
    yield store
    store.close()


def test_should_write_each_key_once_and_its_offset_in_one_batch_at_a_commit(
    store: TransactionBuffer, inner: CountedStore
) -> None:
    for number in range(100):
        store.put(b"a", b"%d" % number)
        store.put(b"b", None)
    store.flush()
    assert inner.written == []
    store.commit(7)
    store.commit(7)  # the offset and the content are on disk
    assert inner.written == [([b"a", b"b"], 7)]
    assert (inner.get(b"a"), inner.get(b"b"), store.committed_offset) == (b"99", None, 7)
    store.commit(8)
    assert inner.written[1:] == [([], 8)]


def test_should_drop_uncommitted_changes_at_a_close(store: TransactionBuffer, tmp_path: Path) -> None:
    store.put(b"a", b"committed")
    store.commit(1)
    store.put(b"a", b"uncommitted")
    store.put(b"b", b"uncommitted")
    store.close()
    store.open(context(tmp_path))
    assert (store.uncommitted_bytes, store.committed_offset) == (0, 1)
    assert (store.get(b"a"), list(store.scan(None, None))) == (b"committed", [(b"a", b"committed")])


def test_should_count_the_bytes_that_a_commit_will_write(store: TransactionBuffer) -> None:
    sizes = [store.uncommitted_bytes]
    for key, value in ((b"a", bytes(1000)), (b"b", bytes(500)), (b"a", bytes(10)), (b"a", None), (b"a", bytes(10))):
        store.put(key, value)
        sizes.append(store.uncommitted_bytes)
    key_bytes = sizes[1] - 1000  # of a key and its place in the buffer
    assert 0 < key_bytes < 1000
    assert sizes[2:] == [2 * key_bytes + size for size in (1500, 510, 500, 510)]
    store.commit(None)
    assert store.uncommitted_bytes == 0


def test_should_let_other_threads_read_uncommitted_changes(store: TransactionBuffer) -> None:
    store.put(b"a", b"committed")
    store.put(b"b", b"committed")
    store.commit(None)
    store.put(b"b", None)
    store.put(b"c", b"held back")
    expected = [(b"a", b"committed"), (b"c", b"held back")]
    values = [b"committed", None, b"held back"]
    assert in_another_thread(lambda: [store.get(key) for key in (b"a", b"b", b"c")]) == values
    assert in_another_thread(lambda: list(store.scan(None, None))) == expected
    assert in_another_thread(lambda: list(store.scan(b"b", b"d"))) == expected[1:]
    assert in_another_thread(lambda: list(store.scan(None, None, reverse=True))) == expected[::-1]
    assert in_another_thread(lambda: list(store.scan(b"a", b"c", reverse=True))) == expected[:1]
    assert in_another_thread(lambda: list(store.scan(b"c", None))) == expected[1:]


@pytest.mark.parametrize("in_ranges", [False, True])
def test_should_show_an_entry_once_if_it_is_moved_and_committed_while_another_thread_reads(
    store: TransactionBuffer, inner: CountedStore, monkeypatch: pytest.MonkeyPatch, in_ranges: bool
) -> None:
    scan, moves = inner.scan_ranges, [True]

    def move_before(*arguments: Any, **options: Any) -> Any:
        if moves and moves.pop():
            store.put(b"a", None)
            store.put(b"b", b"moved")
            store.commit(None)
        return scan(*arguments, **options)

    store.put(b"a", b"moved")
    monkeypatch.setattr(inner, "scan_ranges", move_before)
    read = (
        (lambda: list(store.scan_ranges([(b"a", b"b"), (b"b", b"c")])))
        if in_ranges
        else lambda: list(store.scan(None, None))
    )
    assert in_another_thread(read) == [(b"b", b"moved")]


def test_should_remember_what_it_has_read_even_nothing(store: TransactionBuffer, inner: CountedStore) -> None:
    assert store.get(b"a") is None
    inner.write({b"a": b"past it"})
    assert store.get(b"a") is None
    store.restore(batch([(b"b", b"restored", 0)], first_offset=4))
    assert store.get(b"a") == b"past it", "a restore changes anything"
    assert (inner.written[-1], store.uncommitted_bytes) == (([b"b"], 4), 0)


def test_should_bound_the_memory_of_read_values_that_grow(store: TransactionBuffer) -> None:
    keys = [b"%02d" % number for number in range(100)]
    for value_bytes in (10, store._max_bytes // 50):
        for key in keys:
            store.put(key, bytes(value_bytes))
            store.commit(None)
    assert 0 < sum(len(value or b"") for value in store._clean.values()) <= store._max_bytes


def test_should_keep_what_could_not_be_written(store: TransactionBuffer, inner: CountedStore) -> None:
    store.put(b"a", b"1")
    inner.error = ProcessorStateError("the disk is full")
    with pytest.raises(ProcessorStateError, match="the disk is full"):
        store.commit(1)
    assert (store.get(b"a"), store.committed_offset) == (b"1", None)
    inner.error = None
    store.commit(1)
    assert (inner.get(b"a"), store.committed_offset) == (b"1", 1)


def test_should_find_few_and_many_new_keys_since_the_last_scan_in_order(store: TransactionBuffer) -> None:
    keys = [b"%05d" % number for number in Random(1).sample(range(100_000), 1 + 8 + 9 + 100)]
    for size in (0, 1, 9, 18, 118):
        for key in keys[:size]:
            store.put(key, key)
        expected = [(key, key) for key in sorted(keys[:size])]
        assert list(store.scan(None, None)) == expected
        assert list(store.scan(b"3", b"7", reverse=True)) == [e for e in expected if b"3" <= e[0] < b"7"][::-1]


def test_should_end_iterators_with_uncommitted_changes_when_it_closes(store: TransactionBuffer) -> None:
    store.put(b"a", b"1")
    store.put(b"b", b"1")
    entries = store.scan(None, None)
    next(entries)
    store.close()
    with pytest.raises(InvalidStateStore):
        next(entries)


@pytest.mark.parametrize("transactional", [True, False])
def test_should_write_at_its_share_only_without_transactions(
    inner: CountedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    monkeypatch.setattr(transaction_buffer, "ALL_STORES_BYTES", 0)
    store = TransactionBuffer(inner)
    store.open(replace(context(tmp_path), transactional=transactional))
    store.commit(1)
    value = bytes(10_000)
    for number in range(100):
        store.put(b"%d" % number, value)
    written = [keys for keys, offset in inner.written if offset is KeepOffset.KEEP]
    if transactional:
        assert written == []
        assert store.uncommitted_bytes > 1_000_000
    else:
        assert sum(map(len, written)) > 85, "half of 256 KiB is 12 such values"
        assert max(map(len, written)) <= 13
        assert store.uncommitted_bytes < 256 * 1024
    assert store.committed_offset == 1, "no commit, no offset"
    assert all(store.get(b"%d" % number) == value for number in range(100))
    store.commit(2)
    store.close()


# --- the isolation levels of queries

KINDS: dict[str, Any] = {
    "key-value": key_value_store,
    "timestamped": timestamped_key_value_store,
    "window": window_store,
    "timestamped window": timestamped_window_store,
}


def content_of(store: Any, *, windows: bool) -> dict[str, Any]:
    """All values that another thread finds, by each kind of read."""

    def read() -> dict[str, Any]:
        if windows:
            fetched = {key: store.fetch(key, 5) for key in "abc"}
            assert {key: dict(store.fetch_range(key, 0, 9)).get(5) for key in "abc"} == fetched
            assert {w.key: value for w, value in store.fetch_all(0, 9)} == {k: v for k, v in fetched.items() if v}
            between = [(w.key, value) for w, value in store.fetch_keys("b", "c", 0, 9, reverse=True)]
            assert between == [(key, fetched[key]) for key in "cb" if fetched[key]]
            assert list(store.fetch_range("a", 0, 9, reverse=True)) == list(store.fetch_range("a", 0, 9))
        else:
            fetched = dict(zip("abc", store.get_many(list("abc")), strict=True))
            assert {key: store.get(key) for key in "abc"} == fetched
            assert dict(store.all()) == {key: value for key, value in fetched.items() if value is not None}
            assert list(store.reverse_range("a", "b")) == list(store.range("a", "b"))[::-1]
        return {key: value for key, value in fetched.items() if value is not None}

    return in_another_thread(read)  # type: ignore[return-value]


@pytest.mark.parametrize("caching", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("kind", KINDS)
def test_should_answer_each_query_by_its_isolation_level(tmp_path: Path, kind: str, caching: bool) -> None:
    windows = "window" in kind
    lengths = {"retention_ms": 1000, "window_size_ms": 10} if windows else {}
    store = KINDS[kind]("store", STRING, STRING, caching=caching, **lengths).build()
    cache = TaskCache(ThreadCache(1_000_000), Contexts(SetClock()))
    store.open(replace(context(tmp_path), cache=cache))
    start = (5,) if windows else ()
    old, new = (ValueAndTimestamp(text, 1) if "timestamped" in kind else text for text in ("old", "new"))
    for key in "ab":
        store.put(key, old, *start)
    cache.flush()
    commit(store, 1)
    committed, uncommitted = read_only(store, COMMITTED), read_only(store, UNCOMMITTED)
    before, after = {"a": old, "b": old}, {"b": new, "c": new}
    assert content_of(committed, windows=windows) == content_of(uncommitted, windows=windows) == before
    store.put("a", None, *start)
    store.put("b", new, *start)
    store.put("c", new, *start)
    for flushed in (False, True):
        if flushed:
            cache.flush()
        assert content_of(committed, windows=windows) == before
        assert content_of(uncommitted, windows=windows) == after
    commit(store, 2)
    assert content_of(committed, windows=windows) == content_of(uncommitted, windows=windows) == after
    store.close()
    for closed in (committed, uncommitted):
        with pytest.raises(InvalidStateStore):
            content_of(closed, windows=windows)


def test_should_read_a_store_in_memory_as_it_is() -> None:
    store = key_value_store("store", STRING, STRING, persistent=False).build()
    assert not keeps_offset(store)
    assert read_only(store, COMMITTED) is store


# --- any sequence of calls

CALLS = st.lists(
    st.one_of(
        *CALLS_OF_A_STORE,
        st.tuples(st.just("restore"), ENTRIES.filter(bool)),
        st.tuples(st.just("commit")),
        st.tuples(st.just("abort")),
        st.tuples(
            st.just("scan_while_changing"),
            BOUNDS,
            BOUNDS,
            st.booleans(),
            st.lists(st.none() | st.tuples(KEYS, VALUES), max_size=5),
        ),
    ),
    max_size=30,
)


class TransactionModel(Model):
    """A dict, and the dict of the last commit."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: dict[bytes, bytes] = {}

    def commit(self) -> None:
        self.committed = dict(self.entries)

    def restore(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        self.put_all(entries)
        self.commit()

    def scan_while_changing(
        self, start: bytes | None, end: bytes | None, reverse: bool, changes: list[tuple[bytes, bytes] | None]
    ) -> Entries:
        found = (self.reverse_range if reverse else self.range)(start, end)
        for change in changes:
            self.commit() if change is None else self.put(*change)
        return found


def scan_while_changing(
    store: KeyValueStore[bytes, bytes],
    start: bytes | None,
    end: bytes | None,
    reverse: bool,
    changes: list[tuple[bytes, bytes] | None],
) -> Entries:
    """A scan between whose entries the store is changed or, with None, committed."""
    entries = (store.reverse_range if reverse else store.range)(start, end)
    found: Entries = []
    for change in changes:
        found += islice(entries, 1)
        if change is None:
            commit(store)
        else:
            store.put(*change)
    return [*found, *entries]


@share(0.5)
@given(CALLS, st.booleans())
def test_should_answer_as_a_dict_and_keep_what_was_committed(calls: list[tuple[Any, ...]], transactional: bool) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_buffer, "ALL_STORES_BYTES", 0)
        patch.setattr(transaction_buffer, "LEAST_SHARE_BYTES", 900)  # a handful of entries
        opening = replace(context(Path(directory)), transactional=transactional)
        store, model = KeyValueStore(TransactionBuffer(RocksDBStore("store")), BYTES, BYTES), TransactionModel()
        store.open(opening)
        on_disk: Any = read_only(store, COMMITTED)
        for name, *arguments in [*calls, ("abort",)]:
            if name == "abort":
                if not transactional:  # what was written at the share stays
                    model.committed = dict(on_disk.all())
                store.close()
                store.open(opening)
                model.entries = dict(model.committed)
                assert list(store.all()) == model.all()
            elif name == "scan_while_changing":
                assert scan_while_changing(store, *arguments) == model.scan_while_changing(*arguments)
            else:
                expected = getattr(model, name)(*arguments)
                assert answer_of(store, name, tuple(arguments)) == expected
            if transactional:
                assert dict(on_disk.all()) == model.committed
        store.close()
