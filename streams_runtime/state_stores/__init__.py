"""State stores: they keep the state of processors between records, and restore it after a process has ended.

`key_value_store`, `window_store` and their `timestamped_` kinds make builders of stores; `state_store` has the
protocols of stores. A store is made of layers: serdes (`key_value`, `window`), then perhaps a record cache
(`caching`), then `change_logging`, then bytes on disk (`rocksdb`, `rocksdb_window`) or in memory
(`in_memory_key_value`, `in_memory_window`).
"""

from streams_runtime.state_stores.builders import (
    key_value_store,
    timestamped_key_value_store,
    timestamped_window_store,
    window_store,
)
from streams_runtime.state_stores.read_only import read_only_view
from streams_runtime.state_stores.state_store import (
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
