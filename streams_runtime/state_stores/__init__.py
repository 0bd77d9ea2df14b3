"""State stores keep the state of processors between records. When a process has ended, the next owner of its tasks
restores their stores from changelogs.

`key_value_store`, `timestamped_key_value_store`, `versioned_key_value_store`, `window_store`,
`timestamped_window_store` and `session_store` make builders of stores. `state_store` defines the protocols of stores. A
store consists of layers. The outer layer has the serdes (`key_value`, `versioned`, `window`, `session`). Below the
outer layer are an optional record cache (`caching`) and the layer `change_logging`. The inner layer keeps bytes on disk
(`rocksdb`, `rocksdb_versioned`, `rocksdb_window`, `rocksdb_session`) or in memory (`in_memory_stores`,
`in_memory_session`).
"""

from streams_runtime.state_stores.builders import key_value_store as key_value_store
from streams_runtime.state_stores.builders import session_store as session_store
from streams_runtime.state_stores.builders import timestamped_key_value_store as timestamped_key_value_store
from streams_runtime.state_stores.builders import timestamped_window_store as timestamped_window_store
from streams_runtime.state_stores.builders import versioned_key_value_store as versioned_key_value_store
from streams_runtime.state_stores.builders import window_store as window_store
from streams_runtime.state_stores.key_value import KeyValueStore as KeyValueStore
from streams_runtime.state_stores.key_value import TimestampedKeyValueStore as TimestampedKeyValueStore
from streams_runtime.state_stores.session import SessionStore as SessionStore
from streams_runtime.state_stores.state_store import StateStore as StateStore
from streams_runtime.state_stores.state_store import StoreBuilder as StoreBuilder
from streams_runtime.state_stores.state_store import StoreContext as StoreContext
from streams_runtime.state_stores.state_store import ValueAndTimestamp as ValueAndTimestamp
from streams_runtime.state_stores.state_store import Windowed as Windowed
from streams_runtime.state_stores.versioned import VersionedKeyValueStore as VersionedKeyValueStore
from streams_runtime.state_stores.versioned import VersionedRecord as VersionedRecord
from streams_runtime.state_stores.window import WindowStore as WindowStore
