"""State stores: what processors keep between records, and how it outlives a process.

Made by `key_value_store`, `window_store` and their `timestamped_` kinds; used through the protocols of `base`.
Each is layers around each other: serdes (`key_value`, `timestamped`, `window`), `change_logging`, and bytes on disk
(`rocksdb`, `rocksdb_window`) or in memory (`in_memory_key_value`, `in_memory_window`).
"""

from streams_runtime.state_stores.base import (
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlyWindowStore,
    StateStore,
    StoreBuilder,
    StoreContext,
    TimestampedKeyValueStore,
    ValueAndTimestamp,
    Windowed,
    WindowStore,
)
from streams_runtime.state_stores.builders import (
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.read_only import read_only_view

__all__ = [
    "KeyValueStore",
    "ReadOnlyKeyValueStore",
    "ReadOnlyWindowStore",
    "StateStore",
    "StoreBuilder",
    "StoreContext",
    "TimestampedKeyValueStore",
    "ValueAndTimestamp",
    "WindowStore",
    "Windowed",
    "key_value_store",
    "read_only_view",
    "timestamped_key_value_store",
    "timestamped_window_store",
    "window_store",
]
