"""Any sequence of calls gives the same windows from RocksDB, from memory, and from a dict that forgets nothing."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_runtime.serdes import BYTES
from streams_runtime.state_stores import transaction_buffer
from streams_runtime.state_stores.builders import window_store
from streams_runtime.state_stores.window import WindowStore
from streams_runtime.state_stores.window_keys import window_key
from tests.streams_runtime.state_stores.surroundings import batch, commit, context

RETENTION_MS = 150_000
KEYS = st.sampled_from([b"", b"a", b"a\0", b"a" + bytes(12), b"b"])
VALUES = st.binary(max_size=2)
STARTS_MS = st.integers(0, 12).map(lambda third: third * 25_000) | st.integers(0, 600_000)
RESTORED = st.lists(st.tuples(KEYS, STARTS_MS, st.integers(1, 3), st.none() | VALUES), min_size=1, max_size=20)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.none() | VALUES, STARTS_MS),
        st.tuples(st.just("restore"), RESTORED),
        st.tuples(st.just("fetch"), KEYS, STARTS_MS),
        st.tuples(st.just("fetch_range"), KEYS, STARTS_MS, STARTS_MS),
        st.tuples(st.just("fetch_all"), STARTS_MS, STARTS_MS),
        st.tuples(st.just("fetch_keys"), st.none() | KEYS, st.none() | KEYS, STARTS_MS, STARTS_MS),
        st.tuples(st.just("commit")),
    ),
    max_size=30,
)
Restored = list[tuple[bytes, int, int, bytes | None]]


class Model:
    """Windows by key and start, each with its values by sequence number. Answers leave out expired windows."""

    def __init__(self, retain_duplicates: bool) -> None:
        self.retain_duplicates = retain_duplicates
        self.windows: dict[tuple[bytes, int], dict[int, bytes]] = {}
        self.observed_ms = -1
        self.sequence = 0

    def is_live(self, start_ms: int) -> bool:
        return start_ms > self.observed_ms - RETENTION_MS

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> None:
        if self.retain_duplicates and value is None:
            return
        self.observed_ms = max(self.observed_ms, start_ms)
        if self.retain_duplicates:
            self.sequence += 1
            if self.is_live(start_ms):
                self.sequence = max(self.sequence, 1 + max(self.windows.get((key, start_ms), {}), default=0))
        self.set(key, start_ms, self.sequence, value)

    def restore(self, records: Restored) -> None:
        for key, start_ms, sequence, value in records:
            self.observed_ms = max(self.observed_ms, start_ms)
            self.set(key, start_ms, sequence, value)

    def set(self, key: bytes, start_ms: int, sequence: int, value: bytes | None) -> None:
        values = self.windows.setdefault((key, start_ms), {})
        if value is None:
            values.pop(sequence, None)
        elif self.is_live(start_ms):
            values[sequence] = value

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        return next((value for _, value in reversed(self.fetch_range(key, start_ms, start_ms))), None)

    def fetch_range(self, key: bytes, from_ms: int, to_ms: int) -> list[tuple[int, bytes]]:
        return [
            (start_ms, values[sequence])
            for (one, start_ms), values in sorted(self.windows.items(), key=lambda window: window[0])
            if one == key and from_ms <= start_ms <= to_ms and self.is_live(start_ms)
            for sequence in sorted(values)
        ]

    def fetch_all(self, from_ms: int, to_ms: int) -> list[tuple[bytes, int, bytes]]:
        keys = {key for key, _ in self.windows}
        return sorted((key, *window) for key in keys for window in self.fetch_range(key, from_ms, to_ms))

    def fetch_keys(
        self, first: bytes | None, last: bytes | None, from_ms: int, to_ms: int
    ) -> list[tuple[bytes, int, bytes]]:
        return [
            window
            for window in self.fetch_all(from_ms, to_ms)
            if (first is None or first <= window[0]) and (last is None or window[0] <= last)
        ]

    def commit(self) -> None:
        """No answer of the store depends on it."""


def answer_of(store: WindowStore[bytes, bytes], name: str, arguments: list[object]) -> object:
    if name in ("commit", "restore"):
        commit(store)  # a task is not restored while it has uncommitted changes
    if name == "commit":
        return None
    if name == "restore":
        records: Restored = arguments[0]  # type: ignore[assignment]
        store.restore(batch([(window_key(key, start, sequence), value, 0) for key, start, sequence, value in records]))
        return None
    answer = getattr(store, name)(*arguments)
    if name in ("put", "fetch"):
        return answer
    windows = list(answer)
    assert list(getattr(store, name)(*arguments, reverse=True)) == windows[::-1]
    if name == "fetch_range":
        return windows
    # in what order is the store's own
    return sorted((windowed.key, windowed.start_ms, value) for windowed, value in windows)


@given(CALLS, st.booleans(), st.sampled_from([500, 256 * 1024]), st.booleans())
@example(
    [("put", b"a\0", b"", 0), ("fetch", b"a", 0)], True, 500, False
)  # a longer key that begins with the one asked for
def test_should_have_the_windows_of_a_plain_dict(
    calls: list[tuple[object, ...]], retain_duplicates: bool, memory_bytes: int, transactional: bool
) -> None:
    on_disk, in_memory = (
        window_store(
            "w",
            BYTES,
            BYTES,
            retention_ms=RETENTION_MS,
            window_size_ms=10,
            retain_duplicates=retain_duplicates,
            persistent=persistent,
        ).build()
        for persistent in (True, False)
    )
    model = Model(retain_duplicates)
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_buffer, "ALL_STORES_BYTES", 0)
        patch.setattr(transaction_buffer, "LEAST_SHARE_BYTES", memory_bytes)
        on_disk.open(replace(context(Path(directory)), transactional=transactional))
        in_memory.open(context(Path(directory)))
        try:
            for name, *given_arguments in calls:
                arguments = list(given_arguments)
                if name == "restore" and not retain_duplicates:
                    arguments = [[(key, start, 0, value) for key, start, _, value in arguments[0]]]  # type: ignore[attr-defined]
                expected = getattr(model, str(name))(*arguments)
                assert answer_of(on_disk, str(name), arguments) == expected
                assert answer_of(in_memory, str(name), arguments) == expected
        finally:
            on_disk.close()
            in_memory.close()
