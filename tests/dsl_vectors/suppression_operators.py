"""`suppress` of a table, and how the changelog of its buffer is compared."""

from __future__ import annotations

from typing import Any

from assignor.java.hash_codes import int32
from assignor.java.order import JavaHashSet
from streams_runtime import BufferConfig, KTable, Suppressed, Topology
from streams_runtime.state_stores.time_ordered_change_buffer import TimeOrderedChangeBufferBuilder
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


def buffer_changelogs(topology: Topology, application: str) -> dict[str, ChangesInKafkasOrder]:
    """Of each suppression buffer, by the full name of the changelog."""
    stores = topology.definition().stores.values()
    names = [store.name for store in stores if isinstance(store.supplier, TimeOrderedChangeBufferBuilder)]
    return {f"{application}-{name}-changelog": ChangesInKafkasOrder() for name in names}


class ChangesInKafkasOrder:
    """The records that a commit writes to the changelog of a buffer, as Kafka's driver shows them.

    A commit writes one record for each changed key. This project writes them in the order of the changes, and Kafka in
    the order of a hash set, whose table never shrinks. Kafka leaves the timestamp to the producer, which its driver
    does not have.
    """

    def __init__(self) -> None:
        self._keys: JavaHashSet[bytes] = JavaHashSet(hash_of=_bytes_hash)

    def rows(self, records: list[Any]) -> list[tuple[bytes, bytes | None]]:
        rows: list[tuple[bytes, bytes | None]] = []
        values: dict[bytes, bytes | None] = {}
        for key, value, *_ in records:
            if key in values:  # from the next commit
                rows += self._of_commit(values)
                values = {}
            values[key] = value
        return rows + self._of_commit(values)

    def _of_commit(self, values: dict[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
        for key in values:
            self._keys.add(key)
        ordered = list(self._keys)
        self._keys.clear()
        return [(key, values[key]) for key in ordered]


def _bytes_hash(data: bytes) -> int:
    """`Arrays.hashCode` of Java."""
    code = 1
    for byte in data:
        code = (31 * code + byte - (byte & 0x80) * 2) & 0xFFFFFFFF
    return int32(code)
