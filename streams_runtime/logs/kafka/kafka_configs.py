"""Keys of Kafka's that mean something in another place here, or nothing: what to tell who writes one.

Source: `StreamsConfig`, `ConsumerConfig`, `ProducerConfig` of 4.3.1.
"""

from __future__ import annotations

_SERDES = "serdes are given where a topic or a store is named"
_HANDLERS = "handlers are arguments of Application"
_NO_CACHE = "stores have no record cache here; every update is forwarded"
_NO_CLIENT = "clients are not set up one by one here; it is fixed, or write the key without its prefix"
_STORES = "the kind of a store is chosen by its builder or Materialized, with persistent="

_INSTEAD = {
    "default.key.serde": _SERDES,
    "default.value.serde": _SERDES,
    "windowed.inner.class.serde": "use TimeWindowedSerde",
    "window.size.ms": "use TimeWindowedSerde",
    "cache.max.bytes.buffering": _NO_CACHE,
    "statestore.cache.max.bytes": _NO_CACHE,
    "topology.optimization": "use StreamsBuilder(optimize=True)",
    "default.timestamp.extractor": "use timestamp_extractor= of the source",
    "deserialization.exception.handler": f"{_HANDLERS}: deserialization_exception_handler=",
    "default.deserialization.exception.handler": f"{_HANDLERS}: deserialization_exception_handler=",
    "processing.exception.handler": f"{_HANDLERS}: processing_exception_handler=",
    "production.exception.handler": f"{_HANDLERS}: processing_exception_handler= is asked about sending, too",
    "default.production.exception.handler": f"{_HANDLERS}: processing_exception_handler= is asked about sending, too",
    "max.poll.interval.ms": "use 'rebalance.timeout.ms'",
    "group.instance.id": "use InstanceOptions(incarnation=...), which makes threads static members",
    "default.dsl.store": _STORES,
    "dsl.store.suppliers.class": _STORES,
    "rocksdb.config.setter": "RocksDB's options are fixed",
    "group.protocol": "the coordinator of this project speaks the classic protocol",
}
_CLIENT_PREFIXES = ("consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.", "admin.")
_CLIENT_KEYS = frozenset(("acks", "batch.size", "enable.idempotence", "isolation.level", "retries"))


def kafka_config_hint(key: str) -> str | None:
    """What stands for the key here; None for one that Kafka does not know either, or whose meaning has no place here.

    Without a full stop, to be put behind an error.
    """
    if key in _INSTEAD:
        return _INSTEAD[key]
    if key in _CLIENT_KEYS or key.startswith(_CLIENT_PREFIXES):
        return _NO_CLIENT
    return None
