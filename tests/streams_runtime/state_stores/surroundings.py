"""The context in which these tests open stores: a changelog that is a list, and a clock that the test sets."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from assignor.types import JAVA_LONG_MAX, TaskId, TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.state_stores.caching import CachingStore
from streams_runtime.state_stores.state_store import StateStore, StoreContext, StoreOffset, keeps_offset
from streams_runtime.state_stores.thread_cache import ContextTuple
from streams_runtime.state_stores.window import WindowStore

CHANGELOG = TopicPartition("app-store-changelog", 0)


class Change(NamedTuple):
    store: str
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


@dataclass
class RecordedChanges:
    changes: list[Change] = field(default_factory=list)

    def limits_of(self, store: str) -> RecordLimits:
        return RecordLimits(max_bytes=1_000_000, compacts=False)

    def check_change(
        self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Every change is taken."""

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()) -> None:
        self.changes.append(Change(store, key, value, timestamp_ms, headers))


@dataclass
class SetClock:
    record_timestamp_ms: int = -1
    stream_time_ms: int = -1
    current_system_time_ms: int = -1


def set_flush_listener(
    store: Any, listener: Callable[[Any, Any, Any, ContextTuple], None], *, sends_old_values: bool
) -> bool:
    """Have the listener hear of the changes that the store flushes, as objects. False without a record cache."""
    key_of = store.window_of if isinstance(store, WindowStore) else store.key_serde.deserialize

    def value_of(stored: bytes | None) -> Any:
        return None if stored is None else store._deserialize_value(stored)

    def flushed(key: bytes, new: bytes | None, old: bytes | None, made_by: ContextTuple) -> None:
        listener(key_of(key), value_of(new), value_of(old), made_by)

    cached = store.inner
    if not isinstance(cached, CachingStore) or cached.cache is None:
        return False
    cached.cache.set_flush_listener(flushed, sends_old_values=sends_old_values)
    return True


def context(directory: Path, changes: RecordedChanges | None = None, clock: SetClock | None = None) -> StoreContext:
    return StoreContext(TaskId(0, 0), directory, changes, clock or SetClock(), changelog=CHANGELOG, log_id="a log")


def commit(store: StateStore, offset: int | None = None) -> None:
    """Commits a store as its task does. A store in memory has nothing to commit."""
    if keeps_offset(store):
        store.commit(offset)


def committed_offset(store: StateStore) -> StoreOffset | None:
    assert keeps_offset(store)
    return store.committed_offset


def batch(records: list[tuple[bytes | None, bytes | None, int]], first_offset: int = 0) -> RecordBatch:
    """Of keys, values and timestamps."""
    return RecordBatch(
        CHANGELOG,
        range(first_offset, first_offset + len(records)),
        [timestamp_ms for _, _, timestamp_ms in records],
        [key for key, _, _ in records],
        [value for _, value, _ in records],
    )


def as_batch(changes: list[Change]) -> RecordBatch:
    """The changelog as it would be read again."""
    return batch([(change.key, change.value, change.timestamp_ms) for change in changes])


def everything(store: Any) -> list[tuple[str, int, str]]:
    return sorted((windowed.key, windowed.start_ms, value) for windowed, value in store.fetch_all(0, JAVA_LONG_MAX))


def in_another_thread(call: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as other:
        return other.submit(call).result()
