"""State stores keep the state of processors between records. When a process has ended, the next owner of its tasks
restores their stores from changelogs.

`key_value_store`, `timestamped_key_value_store`, `versioned_key_value_store`, `window_store`,
`timestamped_window_store` and `session_store` make builders of stores. `state_store` defines the protocols of stores. A
store consists of layers. The outer layer has the serdes (`key_value`, `versioned`, `window`, `session`). Below the
outer layer are an optional record cache (`caching`) and the layer `change_logging`. The inner layer keeps bytes on disk
(`rocksdb`, `rocksdb_versioned`, `rocksdb_window`, `rocksdb_session`) or in memory (`in_memory_stores`,
`in_memory_session`).
"""
