"""What is special in memory: its size follows the entries, and other threads read. Kafka's:
`InMemoryKeyValueStoreTest`.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Barrier, Lock, Thread

import pytest

from streams_runtime import BYTES, InvalidStateStore, key_value_store, window_store
from streams_runtime.state_stores.in_memory_stores import (
    InMemoryDuplicatesWindowStore,
    InMemoryKeyValueStore,
    InMemoryWindowStore,
)
from streams_runtime.state_stores.window_keys import window_key
from tests.streams_runtime.state_stores.surroundings import batch, context


def test_should_not_remember_keys_that_came_and_went_between_ranges(tmp_path: Path) -> None:
    store = InMemoryKeyValueStore("store")
    store.open(context(tmp_path))
    assert list(store.scan(None, None)) == []
    for number in range(1000):
        store.put(b"%d" % number, b"x")
        store.put(b"%d" % number, None)

    assert (store.approximate_num_entries(), len(store._added)) == (0, 0)
    store.close()


@pytest.mark.parametrize("kind", [InMemoryWindowStore, InMemoryDuplicatesWindowStore])
def test_should_not_remember_a_start_whose_windows_were_all_deleted(
    kind: type[InMemoryWindowStore], tmp_path: Path
) -> None:
    store = kind("store", 100)
    store.open(context(tmp_path))
    for value in (b"x", None):
        store.restore(batch([(window_key(b"a", 5, int(store._retains_duplicates)), value, 5)]))
    assert store._buckets.between(0, 9) == []


def test_should_raise_when_another_thread_closes_the_store_just_before_a_range_is_read(tmp_path: Path) -> None:
    store = InMemoryKeyValueStore("store")
    store.open(context(tmp_path))
    store.put(b"a", b"x")

    class ClosedWhenReleased(AbstractContextManager[None]):
        def __exit__(self, *_: object) -> None:
            store._lock = Lock()
            store.close()

    store._lock = ClosedWhenReleased()  # type: ignore[assignment]  # the other thread gets the lock next

    with pytest.raises(InvalidStateStore):
        list(store.scan(None, None))


class ClosedWhenChecked(InMemoryKeyValueStore):
    """Another thread closes the store just after a read has seen that it is open."""

    closes = False

    @property
    def is_open(self) -> bool:
        was_open: bool = self.__dict__["is_open"]
        if self.closes:
            self.closes = False
            self.close()
        return was_open

    @is_open.setter
    def is_open(self, value: bool) -> None:
        self.__dict__["is_open"] = value


@pytest.mark.parametrize(
    ("read", "answer"), [(lambda store: store.get(b"a"), b"x"), (lambda store: store.approximate_num_entries(), 1)]
)
def test_should_not_answer_from_the_empty_content_of_a_store_that_another_thread_closes(
    read: Callable[[InMemoryKeyValueStore], object], answer: object, tmp_path: Path
) -> None:
    store = ClosedWhenChecked("store")
    store.open(context(tmp_path))
    store.put(b"a", b"x")
    store.closes = True
    assert (read(store), store.is_open) == (answer, False)


@pytest.mark.parametrize("kind", [InMemoryWindowStore, InMemoryDuplicatesWindowStore])
def test_should_not_answer_from_the_empty_content_of_a_window_store_that_another_thread_closes(
    kind: type[InMemoryWindowStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed_when_checked() -> InMemoryWindowStore:
        store = kind("store", 100)
        store.open(context(tmp_path))
        store.put(window_key(b"a", 5, 0), b"x", 5)
        monkeypatch.setattr(store, "_require_open", store.close)
        return store

    assert closed_when_checked().fetch(window_key(b"a", 5, 0), 5) == b"x"
    for windows in (closed_when_checked().fetch_range(b"a", 0, 9), closed_when_checked().fetch_all(0, 9)):
        with pytest.raises(InvalidStateStore):
            next(windows)


def test_should_let_other_threads_read_while_it_is_written_and_closed(tmp_path: Path) -> None:
    answers: Counter[str] = Counter()
    start = Barrier(4)
    store = key_value_store("store", BYTES, BYTES, persistent=False).build()
    windows = window_store("w", BYTES, BYTES, retention_ms=5_000, window_size_ms=1, persistent=False).build()
    for one in (store, windows):
        one.open(context(tmp_path))
    store.put_all([(b"a-%05d" % number, b"x") for number in range(100)])

    def read_until_closed() -> None:
        start.wait()
        while True:
            try:
                assert len(list(store.prefix_scan(b"a-"))) == 100
                starts = [start_ms for start_ms, _ in windows.fetch_range(b"a", 100, 10_000_000)]
                assert starts == sorted(starts)
                assert all(start_ms >= 100 for start_ms in starts)
                assert all(value == b"x" for _, value in windows.fetch_all(0, 10_000_000))
            except InvalidStateStore:
                answers["invalid state store"] += 1
                return
            except BaseException as error:
                answers[repr(error)] += 1
                return

    readers = [Thread(target=read_until_closed) for _ in range(3)]
    for reader in readers:
        reader.start()
    start.wait()
    for number in range(3000):
        store.put(b"b-%05d" % (number * 7919 % 3000), b"x")
        windows.put(b"a", b"x", number * 7919 % 3000 + number * 100)
    windows.close()
    store.close()
    for reader in readers:
        reader.join()

    assert answers == {"invalid state store": 3}
