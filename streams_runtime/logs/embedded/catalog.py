"""Which partitions exist, and their numbers in the file.

Rule: a number is never given again (`deletion`), so what was once read is true, or names a partition that was deleted
since. Who finds that out forgets what is known, and looks again: the topic may have been made anew. Configs may have
been altered since they were read; `all` reads them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from assignor.types import TopicPartition
from streams_runtime.logs.base import TopicDescription
from streams_runtime.logs.embedded.connections import SharedConnection
from streams_runtime.logs.errors import UnknownTopicOrPartition
from streams_runtime.logs.topic_configs import TopicConfigs


class KnownPartition(NamedTuple):
    """`id`: `partitions.id` in the file."""

    id: int
    configs: TopicConfigs


class Catalog:
    """Any thread may use it: the known partitions are replaced as a whole."""

    def __init__(self, connection: SharedConnection) -> None:
        self._connection = connection
        self._known: Mapping[TopicPartition, KnownPartition] = {}

    def find(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KnownPartition]:
        """In the order asked for. Raises UnknownTopicOrPartition, which names the missing ones."""
        asked = list(partitions)
        known = self._known
        if any(partition not in known for partition in asked):
            known = self.all()
        missing = [partition for partition in asked if partition not in known]
        if missing:
            raise UnknownTopicOrPartition(f"there is no partition {', '.join(map(str, missing))}")
        return {partition: known[partition] for partition in asked}

    def forget(self) -> None:
        """The next look-up reads the file."""
        self._known = {}

    def all(self) -> Mapping[TopicPartition, KnownPartition]:
        """All partitions, read from the file again."""
        with self._connection.use() as connection:
            topics = connection.execute("SELECT name, configs FROM topics").fetchall()
            rows = connection.execute("SELECT id, topic, number FROM partitions").fetchall()
        configs = {name: TopicConfigs.of(name, json.loads(text)) for name, text in topics}
        # a topic made between the two reads has no configs here, and is found by the next read
        self._known = {
            TopicPartition(topic, number): KnownPartition(partition_id, configs[topic])
            for partition_id, topic, number in rows
            if topic in configs
        }
        return self._known

    def topics(self) -> dict[str, TopicDescription]:
        with self._connection.use() as connection:
            rows = connection.execute("SELECT name, partitions, configs FROM topics ORDER BY name").fetchall()
        return {name: TopicDescription(name, partitions, json.loads(text)) for name, partitions, text in rows}
