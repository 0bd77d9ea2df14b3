"""Key-value stores, on disk and in memory: the same answers from both. Kafka's: `AbstractKeyValueStoreTest`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streams_runtime import BYTES, LONG, STRING, InvalidStateStore, KeyValueStore, StreamsRuntimeError, key_value_store
from tests.streams_runtime.state_stores.surroundings import batch, commit, context

Store = KeyValueStore[str, int]


@pytest.fixture(params=[True, False], ids=["rocksdb", "in_memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    built: Store = key_value_store("counts", STRING, LONG, persistent=request.param).build()
    built.open(context(tmp_path))
    yield built
    built.close()


def filled(store: Store) -> Store:
    store.put_all([("b", 2), ("d", 4), ("a", 1), ("c", 3)])
    return store


def test_should_refuse_to_put_none_if_absent(store: Store) -> None:
    with pytest.raises(StreamsRuntimeError, match="store counts: put_if_absent needs a value"):
        store.put_if_absent("a", None)  # type: ignore[arg-type]


def test_should_warn_when_a_range_is_the_wrong_way_round(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    assert list(store.range("c", "b")) == []
    assert "store counts: the range is empty because its start lies after its end" in caplog.text


@pytest.mark.parametrize(
    "prefix, expected",
    [
        (b"a", [b"a", b"a\xff", b"a\xff\xff"]),
        (b"a\xff", [b"a\xff", b"a\xff\xff"]),
        (b"\xff\xff", [b"\xff\xff", b"\xff\xff\x00"]),
        (b"", [b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff", b"\xff\xff\x00"]),
    ],
)
def test_should_find_all_keys_with_a_prefix(tmp_path: Path, prefix: bytes, expected: list[bytes]) -> None:
    store = key_value_store("raw", BYTES, BYTES, persistent=False).build()
    store.open(context(tmp_path))
    for key in (b"\xff\xff\x00", b"a\xff\xff", b"b", b"a", b"\xff\xff", b"a\xff", b"\xff"):
        store.put(key, b"")

    assert [key for key, _ in store.prefix_scan(prefix)] == expected


def test_should_read_ranges_longer_than_a_chunk(store: Store) -> None:
    entries = [(f"{number:05}", number) for number in range(1000)]
    store.put_all(list(reversed(entries)))

    assert list(store.all()) == entries
    assert list(store.reverse_range("00100", "00900")) == entries[900:99:-1]


def test_should_not_show_an_open_iterator_what_is_put_later(store: Store) -> None:
    filled(store)
    entries = store.all()
    store.put("aa", 9)
    store.put("zz", 9)

    assert [key for key, _ in entries] == ["a", "b", "c", "d"]
    assert [key for key, _ in store.all()] == ["a", "aa", "b", "c", "d", "zz"]


def test_should_let_an_open_iterator_go_on_when_entries_are_deleted(store: Store) -> None:
    filled(store)
    seen = []
    for key, _ in store.all():
        seen.append(key)
        store.delete(key)

    assert (seen, list(store.all())) == (["a", "b", "c", "d"], [])


def test_should_estimate_the_number_of_entries(store: Store) -> None:
    filled(store)

    assert store.approximate_num_entries() == 4


@pytest.mark.parametrize("value", [None, 1])
def test_should_say_which_store_got_a_null_key(store: Store, value: int | None) -> None:
    nobody: str = None  # type: ignore[assignment]
    refused: list[Callable[[], object]] = [
        lambda: store.put(nobody, value),
        lambda: store.get(nobody),
        lambda: store.delete(nobody),
        lambda: store.put_all([(nobody, value)]),
        lambda: store.put_if_absent(nobody, 1),
    ]
    for use in refused:
        with pytest.raises(StreamsRuntimeError, match="store counts: key cannot be None"):
            use()


def test_should_pass_over_restored_records_without_a_key(store: Store) -> None:
    store.restore(batch([(b"a", LONG.serialize(1), 0), (None, LONG.serialize(2), 0), (None, None, 0)]))

    assert list(store.all()) == [("a", 1)]


def test_should_be_open_between_open_and_close_only(store: Store, tmp_path: Path) -> None:
    assert store.is_open
    store.open(context(tmp_path))
    store.close()
    assert not store.is_open
    store.close()
    assert not store.is_open


def uses(store: Store) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: store.get("a"),
        "put": lambda: store.put("a", 1),
        "put_none": lambda: store.put("a", None),
        "put_if_absent": lambda: store.put_if_absent("a", 1),
        "put_all": lambda: store.put_all([("a", 1)]),
        "delete": lambda: store.delete("a"),
        "range": lambda: store.range("a", "b"),
        "reverse_range": lambda: store.reverse_range("a", "b"),
        "all": lambda: store.all(),
        "prefix_scan": lambda: store.prefix_scan(b"a"),
        "approximate_num_entries": lambda: store.approximate_num_entries(),
        "restore": lambda: store.restore(batch([(b"a", b"1", 0)])),
        "flush": lambda: store.flush(),
    }


@pytest.mark.parametrize("persistent", [True, False], ids=["rocksdb", "in_memory"])
@pytest.mark.parametrize("opened", [True, False], ids=["closed", "never opened"])
def test_should_raise_invalid_state_store_when_it_is_not_open(tmp_path: Path, persistent: bool, opened: bool) -> None:
    store = key_value_store("counts", STRING, LONG, persistent=persistent).build()
    if opened:
        store.open(context(tmp_path))
        store.close()

    answers = {}
    for name, use in uses(store).items():
        try:
            answers[name] = repr(use())
        except InvalidStateStore as error:
            answers[name] = str(error)
    assert answers == dict.fromkeys(uses(store), "store counts is not open")


@pytest.mark.parametrize("size", [3, 32, 100])
def test_should_end_open_iterators_when_it_closes(store: Store, size: int) -> None:
    store.put_all([(f"{number:05}", number) for number in range(size)])
    untouched, begun, backwards = store.all(), store.range("00000", None), store.reverse_range(None, None)
    assert (next(begun), next(backwards)) == (("00000", 0), (f"{size - 1:05}", size - 1))
    store.close()

    for entries in (untouched, begun, backwards):
        with pytest.raises(InvalidStateStore):
            next(entries)


def test_should_stay_open_and_keep_its_content_when_the_task_is_recycled(store: Store, tmp_path: Path) -> None:
    filled(store)
    store.rebind(context(tmp_path))

    assert (store.is_open, store.get("a")) == (True, 1)


def test_should_lose_its_content_at_close_only_in_memory(store: Store, tmp_path: Path) -> None:
    filled(store)
    commit(store)
    store.close()
    store.open(context(tmp_path))

    assert len(list(store.all())) == (4 if store.persistent else 0)


def test_should_take_many_from_any_column(store: Store) -> None:
    store.put_many(pa.array(["a", "b"]), np.array([1, 2]))

    assert store.get_many(("b", "a")) == [2, 1]


def test_should_put_nothing_of_many_of_which_one_cannot_be_put(store: Store) -> None:
    for keys, values, message in (
        (["a", None], [1, 2], "store counts: key cannot be None"),
        (["a", "b"], [1], "store counts: put_many was given 2 keys and 1 values"),
        (["a", "b"], [1, "two"], "required argument is not an integer"),
    ):
        with pytest.raises(Exception, match=message):
            store.put_many(keys, values)  # type: ignore[arg-type]
    assert list(store.all()) == []
