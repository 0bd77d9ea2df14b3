"""What a fused loop has written and the producer does not have yet: columns, by partition.

Rule: whoever sends to a partition in another way gives the producer its rows first, so that records keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assignor.types import TopicPartition
from streams_runtime.logs.partitioner import positive_hash

_HOT_KEYS = 100_000

AddRow = tuple[Callable[[bytes | None], None], Callable[[bytes | None], None], Callable[[int], None]]
"""Adds a key, a value and a timestamp; one is called after the other."""


class PartitionRows:
    """Lists of the same length. They stay the same objects, because loops know their `append`.

    `order`: notes this partition with its first row, behind those that have got one before; None: nobody asks.
    """

    __slots__ = ("_order", "add", "keys", "partition", "timestamps_ms", "values")

    def __init__(self, partition: TopicPartition, order: dict[TopicPartition, None] | None = None) -> None:
        self.partition = partition
        self._order = order
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        add_key = self.keys.append if order is None else self._add_key_in_order
        self.add: AddRow = (add_key, self.values.append, self.timestamps_ms.append)

    def _add_key_in_order(self, key: bytes | None) -> None:
        self._note()
        self.keys.append(key)

    def _note(self) -> None:
        if self._order is not None:
            self._order[self.partition] = None

    def extend(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps_ms: Sequence[int]
    ) -> None:
        self._note()
        self.keys += keys
        self.values += values
        self.timestamps_ms += timestamps_ms

    def clear(self) -> None:
        self.keys.clear()
        self.values.clear()
        self.timestamps_ms.clear()


class TopicRows:
    """Which partition takes a row. `by_key`: what `place` has found. `keyless`: the next partition for no key."""

    __slots__ = ("_keyless", "_partitions", "by_key")

    def __init__(self, partitions: Sequence[PartitionRows], keyless: Callable[[], int]) -> None:
        self._partitions = partitions
        self._keyless = keyless
        self.by_key: dict[bytes | None, AddRow] = {}

    def extend(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], times_ms: Sequence[int], keyless: int
    ) -> None:
        """Rows for columns of the same length, in their order. `keyless`: how many have no key."""
        partitions = self._partitions
        if len(partitions) == 1:
            for _ in range(keyless):  # the other topics of the task take their turns with it
                self._keyless()
            partitions[0].extend(keys, values, times_ms)
            return
        by_key, place = self.by_key, self.place
        for key, value, timestamp_ms in zip(keys, values, times_ms, strict=True):
            add_key, add_value, add_time = by_key.get(key) or place(key)
            add_key(key)
            add_value(value)
            add_time(timestamp_ms)

    def place(self, key: bytes | None) -> AddRow:
        partitions = self._partitions
        if key is None:
            return partitions[self._keyless() % len(partitions)].add
        if len(self.by_key) >= _HOT_KEYS:
            self.by_key.clear()
        add = self.by_key[key] = partitions[positive_hash(key) % len(partitions)].add
        return add
