"""Any sequence of calls gives the same answers from RocksDB, from memory, and from a plain dict."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from streams_runtime import BYTES, KeyValueStore, key_value_store
from tests.examples import share
from tests.streams_runtime.state_stores.surroundings import batch, commit, context

# few and alike keys, so that they meet again; with the bytes at the ends
KEYS = st.binary(min_size=0, max_size=3).map(lambda key: bytes((0, 127, 255)[byte % 3] for byte in key))
VALUES = st.binary(max_size=3)
ENTRIES = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=40)
BOUNDS = st.none() | KEYS


def as_columns(entries: list[tuple[bytes, bytes | None]]) -> tuple[list[bytes], list[bytes | None]]:
    return [key for key, _ in entries], [value for _, value in entries]


CALLS_OF_A_STORE = (
    st.tuples(st.just("put"), KEYS, st.none() | VALUES),
    st.tuples(st.just("put_if_absent"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("put_all"), ENTRIES),
    st.builds(lambda entries: ("put_many", *as_columns(entries)), ENTRIES),
    st.tuples(st.just("get_many"), st.lists(KEYS, max_size=10)),
    st.tuples(st.just("range"), BOUNDS, BOUNDS),
    st.tuples(st.just("reverse_range"), BOUNDS, BOUNDS),
    st.tuples(st.just("prefix_scan"), KEYS),
    st.tuples(st.just("all")),
)
CALLS = st.lists(
    st.one_of(*CALLS_OF_A_STORE, st.tuples(st.just("restore"), ENTRIES.filter(bool)), st.tuples(st.just("commit"))),
    max_size=30,
)
Entries = list[tuple[bytes, bytes]]


class Model:
    """The same calls on a dict. It gives a list where the store gives an iterator."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        present = self.entries.get(key)
        self.entries.setdefault(key, value)
        return present

    def delete(self, key: bytes) -> bytes | None:
        return self.entries.pop(key, None)

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    restore = put_all

    def put_many(self, keys: list[bytes], values: list[bytes | None]) -> None:
        self.put_all(list(zip(keys, values, strict=True)))

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        return list(map(self.get, keys))

    def range(self, start: bytes | None, end: bytes | None) -> Entries:
        return [
            (key, self.entries[key])
            for key in sorted(self.entries)
            if (start is None or key >= start) and (end is None or key <= end)
        ]

    def reverse_range(self, start: bytes | None, end: bytes | None) -> Entries:
        return self.range(start, end)[::-1]

    def prefix_scan(self, prefix: bytes) -> Entries:
        return [entry for entry in self.range(None, None) if entry[0].startswith(prefix)]

    def all(self) -> Entries:
        return self.range(None, None)

    def commit(self) -> None:
        """No answer of the store depends on it."""


def answer_of(store: KeyValueStore[bytes, bytes], name: str, arguments: tuple[object, ...]) -> object:
    if name in ("commit", "restore"):
        commit(store)  # a task is not restored while it has uncommitted changes
    if name == "commit":
        return None
    if name == "restore":
        entries: list[tuple[bytes, bytes | None]] = arguments[0]  # type: ignore[assignment]
        store.restore(batch([(key, value, 0) for key, value in entries]))
        return None
    answer = getattr(store, name)(*arguments)
    return answer if answer is None or isinstance(answer, bytes) else list(answer)


@share(0.6)
@given(CALLS)
def test_should_answer_as_a_dict_does(calls: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as directory:
        on_disk = key_value_store("store", BYTES, BYTES).build()
        in_memory = key_value_store("store", BYTES, BYTES, persistent=False).build()
        model = Model()
        for store in (on_disk, in_memory):
            store.open(context(Path(directory)))
        try:
            for name, *arguments in calls:
                expected = getattr(model, str(name))(*arguments)
                assert answer_of(on_disk, str(name), tuple(arguments)) == expected
                assert answer_of(in_memory, str(name), tuple(arguments)) == expected
            commit(on_disk)
            on_disk.close()
            on_disk.open(context(Path(directory)))
            assert list(on_disk.all()) == list(in_memory.all()) == model.all()
        finally:
            on_disk.close()
            in_memory.close()
