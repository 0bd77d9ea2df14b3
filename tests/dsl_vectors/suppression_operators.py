"""`suppress` of a table, and how the changelog of its buffer is compared."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from assignor.java.hash_codes import int32
from assignor.java.order import JavaHashSet
from streams_runtime import BufferConfig, KTable, Suppressed, Topology
from streams_runtime.common.records import Headers
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.state_stores.state_store import ChangeLogger, StoreContext
from streams_runtime.state_stores.time_ordered_change_buffer import (
    InMemoryTimeOrderedKeyValueChangeBuffer,
    TimeOrderedChangeBufferBuilder,
)
from tests.dsl_vectors.dsl_operators import DslMaker, on
from tests.dsl_vectors.operators import Operator, Options


@on(KTable, "suppress")
def suppress(_maker: DslMaker, operator: Operator, table: KTable[Any, Any]) -> Any:
    options = Options("suppress", operator["buffer"])
    shuts_down = options.get("full") == "shutDown"
    config = BufferConfig(options.get("maxRecords"), options.get("maxBytes"), shut_down_when_full=shuts_down)
    options.check_all_used()
    if operator["until"] == "windowCloses":
        suppressed = Suppressed.until_window_closes(config)
    else:
        suppressed = Suppressed.until_time_limit(operator["time_ms"], config)
    return table.suppress(suppressed, name=operator.name)


def log_buffers_in_kafkas_order(topology: Topology) -> None:
    """Changes the suppression buffers of a topology: each writes the changes of a commit in Kafka's order."""
    topology.builder = topology.builder.with_suppliers(_in_kafkas_order)


def _in_kafkas_order(supplier: object) -> object:
    if not isinstance(supplier, TimeOrderedChangeBufferBuilder):
        return supplier
    return _BuilderInKafkasOrder(**{each.name: getattr(supplier, each.name) for each in fields(supplier) if each.init})


def buffer_changelogs(topology: Topology, application: str) -> frozenset[str]:
    """Returns the full names of the changelogs of all suppression buffers."""
    stores = topology.definition().stores.values()
    names = [store.name for store in stores if isinstance(store.supplier, TimeOrderedChangeBufferBuilder)]
    return frozenset(f"{application}-{name}-changelog" for name in names)


class _BuilderInKafkasOrder(TimeOrderedChangeBufferBuilder[Any, Any]):
    def build(self) -> InMemoryTimeOrderedKeyValueChangeBuffer:
        return _BufferInKafkasOrder(self.name, self.key_serde, self.value_serde)


class _BufferInKafkasOrder(InMemoryTimeOrderedKeyValueChangeBuffer):
    _in_kafkas_order: _ChangesInKafkasOrder | None = None

    def rebind(self, context: StoreContext) -> None:
        if context.changes is not None:
            self._in_kafkas_order = _ChangesInKafkasOrder(context.changes)
            context = replace(context, changes=self._in_kafkas_order)
        super().rebind(context)

    def log_changes(self) -> None:
        super().log_changes()
        if self._in_kafkas_order is not None:
            self._in_kafkas_order.send()


class _ChangesInKafkasOrder(ChangeLogger):
    """Sends the changes of a commit in Kafka's order.

    A commit writes one record for each changed key. This project writes them in the order of the changes, and Kafka in
    the order of a hash set, whose table never shrinks.
    """

    def __init__(self, changes: ChangeLogger) -> None:
        self._changes = changes
        self._keys: JavaHashSet[bytes] = JavaHashSet(hash_of=_bytes_hash)
        self._of_commit: dict[bytes, tuple[str, bytes | None, int, Headers]] = {}

    def limits_of(self, store: str) -> RecordLimits:
        return self._changes.limits_of(store)

    def check_change(
        self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        self._changes.check_change(store, key, value, timestamp_ms, headers)

    def log_change(self, store: str, key: bytes, value: bytes | None, timestamp_ms: int, headers: Headers = ()) -> None:
        self._keys.add(key)
        self._of_commit[key] = store, value, timestamp_ms, headers

    def send(self) -> None:
        for key in self._keys:
            store, value, timestamp_ms, headers = self._of_commit[key]
            self._changes.log_change(store, key, value, timestamp_ms, headers)
        self._keys.clear()
        self._of_commit.clear()


def _bytes_hash(data: bytes) -> int:
    """`Arrays.hashCode` of Java."""
    code = 1
    for byte in data:
        code = (31 * code + byte - (byte & 0x80) * 2) & 0xFFFFFFFF
    return int32(code)
