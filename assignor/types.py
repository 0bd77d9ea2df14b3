"""The basic types of a Kafka Streams assignment: tasks, processes, partitions, hosts.

All basic types are named tuples of plain values, so they are hashed and compared in C. The natural order of each type
is Kafka's order. `ProcessId` sorts as Java's signed `UUID.compareTo`. `TopicPartition` sorts as in Kafka for topic
names in ASCII, and Kafka allows only such names.
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum
from typing import NamedTuple

from assignor.errors import InputError

LATEST_OFFSET = -2
"""The value of the offset sum and of the lag of a running active task. Source: `Task.LATEST_OFFSET`."""

UNKNOWN_OFFSET_SUM = -3
"""The value of an unknown offset sum, and of an unknown lag. Source: `SubscriptionInfo.UNKNOWN_OFFSET_SUM`."""

JAVA_LONG_MAX = 2**63 - 1
JAVA_LONG_MIN = -(2**63)
JAVA_INT_MAX = 2**31 - 1
JAVA_INT_MIN = -(2**31)

_TASK_ID = re.compile(r"(?:(?P<name>.+)__)?(?P<subtopology>\d+)_(?P<partition>\d+)\Z", re.ASCII | re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.ASCII | re.IGNORECASE)


class TaskId(NamedTuple):
    """A task: subtopology and partition. The text of a TaskId is `0_3`, or `name__0_3` for a task of a named topology.

    The tuple order is Kafka's order for the tasks of one topology. Source: `TaskId`.
    """

    subtopology: int
    partition: int
    topology_name: str | None = None

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Parses `0_3` or `name__0_3`. Raises InputError if the text is not a task id."""
        match = _TASK_ID.match(text)
        if match is None:
            raise InputError(f"{text!r} is not a task id: expected subtopology_partition, for example 0_3")
        return cls(int(match["subtopology"]), int(match["partition"]), match["name"])

    def __str__(self) -> str:
        plain = f"{self.subtopology}_{self.partition}"
        return plain if self.topology_name is None else f"{self.topology_name}__{plain}"


class ProcessId(NamedTuple):
    """The UUID of an instance (a JVM or a Python process) as two signed 64-bit halves, high half first.

    The tuple order is that of `UUID.compareTo`: both halves are signed, so `ffff…` sorts before `0000…`.
    Source: `ProcessId`.
    """

    high: int
    low: int

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        """Parses a UUID in the canonical 8-4-4-4-12 form. Raises InputError for text in another form."""
        if _UUID.match(text) is None:
            raise InputError(f"{text!r} is not a process id: expected a UUID like 2230ea3e-4048-4d7d-bee0-e650940ec648")
        return cls.from_bytes(bytes.fromhex(text.replace("-", "")))

    @classmethod
    def from_bytes(cls, raw: bytes) -> ProcessId:
        """`raw`: the 16 bytes of the UUID, big-endian."""
        return cls(int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True))

    def to_bytes(self) -> bytes:
        return self.high.to_bytes(8, "big", signed=True) + self.low.to_bytes(8, "big", signed=True)

    def __str__(self) -> str:
        text = self.to_bytes().hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class TopicPartition(NamedTuple):
    """A partition of a topic. The text of a TopicPartition is `topic-3`. Source: `TopicPartition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Offsets = dict[TopicPartition, int]
"""An offset for each partition."""


class HostInfo(NamedTuple):
    """The endpoint of an instance for interactive queries (`application.server`). The text of a HostInfo is
    `host:port`.
    Source: `HostInfo`.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class AssignorErrorCode(IntEnum):
    """The error code inside subscriptions and assignments. Source: `AssignorError`."""

    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1
    VERSION_PROBING = 2
    ASSIGNMENT_ERROR = 3
    SHUTDOWN_REQUESTED = 4


class Role(StrEnum):
    """The role of a copy of a task. A warm-up is a standby that exists only until it has caught up."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARM_UP = "warm-up"


def utf16_order(text: str) -> bytes:
    """Returns a sort key that orders strings as Java does, by UTF-16 code units. ASCII strings have the same order
    without this key.
    """
    return text.encode("utf-16-be", "surrogatepass")
