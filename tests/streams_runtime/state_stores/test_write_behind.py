"""What a RocksDB store holds back: it is read as if it were written, and nothing of it is lost but in a crash."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from streams_runtime.common.errors import InvalidStateStore, ProcessorStateError
from streams_runtime.serdes import BYTES
from streams_runtime.state_stores import change_logging
from streams_runtime.state_stores.change_logging import WriteBehindStore
from streams_runtime.state_stores.key_value import SerdesKeyValueStore
from streams_runtime.state_stores.rocksdb import RocksDBStore
from tests.examples import share
from tests.streams_runtime.state_stores.surroundings import context, in_another_thread
from tests.streams_runtime.state_stores.test_key_value_properties import CALLS, Model, answer_of


class CountedStore(RocksDBStore):
    """Knows how often and what was written, and fails on demand."""

    def __init__(self) -> None:
        super().__init__("store")
        self.written: list[list[bytes | None]] = []
        self.error: Exception | None = None

    def write(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> None:
        if self.error is not None:
            raise self.error
        self.written.append(list(keys))
        super().write(self.written[-1], values)


@pytest.fixture
def inner() -> CountedStore:
    return CountedStore()


@pytest.fixture
def store(inner: CountedStore, tmp_path: Path) -> Iterator[WriteBehindStore]:
    store = WriteBehindStore(inner)
    store.open(context(tmp_path))
    yield store
    store.close()


def test_should_write_a_key_once_however_often_it_changes(store: WriteBehindStore, inner: CountedStore) -> None:
    for number in range(100):
        store.put(b"a", b"%d" % number)
        store.put(b"b", None)
    assert inner.written == []
    store.flush()
    assert inner.written == [[b"a", b"b"]]
    assert (inner.get(b"a"), inner.get(b"b")) == (b"99", None)


def test_should_let_other_threads_read_what_is_not_written(store: WriteBehindStore, inner: CountedStore) -> None:
    store.put(b"a", b"written")
    store.put(b"b", b"written")
    store.flush()
    store.put(b"b", None)
    store.put(b"c", b"held back")
    expected = [(b"a", b"written"), (b"c", b"held back")]
    assert in_another_thread(lambda: [store.get(key) for key in (b"a", b"b", b"c")]) == [b"written", None, b"held back"]
    assert in_another_thread(lambda: list(store.scan(None, None))) == expected
    assert in_another_thread(lambda: list(store.scan(b"b", b"d"))) == expected[1:]
    assert in_another_thread(lambda: list(store.scan(None, None, reverse=True))) == expected[::-1]
    assert in_another_thread(lambda: list(store.scan(b"a", b"c", reverse=True))) == expected[:1]
    assert in_another_thread(lambda: list(store.scan(b"c", None))) == expected[1:]
    assert len(inner.written) == 1, "only the task's thread writes"
    assert list(store.scan(None, None)) == expected
    assert len(inner.written) == 2


def test_should_remember_what_it_has_read_even_nothing(store: WriteBehindStore, inner: CountedStore) -> None:
    assert store.get(b"a") is None
    inner.write([b"a"], [b"past it"])
    assert store.get(b"a") is None
    store.write([b"b"], [b"restored"])
    assert store.get(b"a") == b"past it", "a restore changes anything"


def test_should_keep_what_could_not_be_written(store: WriteBehindStore, inner: CountedStore) -> None:
    store.put(b"a", b"1")
    inner.error = ProcessorStateError("the disk is full")
    with pytest.raises(ProcessorStateError, match="the disk is full"):
        store.flush()
    assert store.get(b"a") == b"1"
    inner.error = None
    store.flush()
    assert inner.get(b"a") == b"1"


def test_should_be_closed_even_if_the_last_write_fails(inner: CountedStore, tmp_path: Path) -> None:
    store = WriteBehindStore(inner)
    store.open(context(tmp_path))
    store.put(b"a", b"1")
    inner.error = ProcessorStateError("the disk is full")
    with pytest.raises(ProcessorStateError, match="the disk is full"):
        store.close()
    assert not store.is_open
    with pytest.raises(InvalidStateStore):
        store.get(b"a")
    with pytest.raises(InvalidStateStore):
        store.put(b"a", b"1")


def test_should_hold_back_its_share_only(inner: CountedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_logging, "ALL_STORES_BYTES", 0)
    store = WriteBehindStore(inner)
    store.open(context(tmp_path))
    value = bytes(10_000)
    for number in range(100):
        store.put(b"%d" % number, value)
    assert sum(map(len, inner.written)) > 85, "half of 256 KiB is 12 such values"
    assert max(map(len, inner.written)) <= 13
    assert all(store.get(b"%d" % number) == value for number in range(100))
    store.close()


@share(0.5)
@given(CALLS)
def test_should_answer_as_a_dict_however_little_it_may_hold_back(calls: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(change_logging, "ALL_STORES_BYTES", 0)
        patch.setattr(change_logging, "LEAST_SHARE_BYTES", 900)
        store, model = SerdesKeyValueStore(WriteBehindStore(RocksDBStore("store")), BYTES, BYTES), Model()
        store.open(context(Path(directory)))
        for name, *arguments in calls:
            expected = getattr(model, str(name))(*arguments)
            assert answer_of(store, str(name), tuple(arguments)) == expected
        store.close()
        store.open(context(Path(directory)))
        assert list(store.all()) == sorted(model.entries.items())
        store.close()
