"""Java's integer arithmetic, and the hash codes of the keys that Kafka stores in hash maps.

Source: `hashCode` of `TaskId`, `Subtopology`, `ProcessId` (`UUID`), `TopicPartition`, `HostInfo`, `String`, `Long` and
`Map`; `Objects.hash`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache

from assignor.types import JAVA_INT_MAX, HostInfo, ProcessId, TaskId, TopicPartition, utf16_order

_LONG_MASK = 2**64 - 1


def int16(value: int) -> int:
    """Wraps a number to 16 bits as `Integer.shortValue()` does."""
    return ((value + 0x8000) & 0xFFFF) - 0x8000


def int32(value: int) -> int:
    """Wraps a number to 32 bits as Java's int arithmetic does."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def int64(value: int) -> int:
    """Wraps a number to 64 bits as Java's long arithmetic does."""
    return (value + 2**63) % 2**64 - 2**63


@lru_cache(maxsize=16_384)  # cached, because a topic name is hashed again for every partition of the topic
def string_hash(text: str) -> int:
    """Returns `String.hashCode`, which is computed over UTF-16 code units. Source: `String.hashCode`."""
    units: Iterable[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        raw = utf16_order(text)
        units = (raw[at] << 8 | raw[at + 1] for at in range(0, len(raw), 2))
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFFFFFF
    return int32(code)


def task_hash(task: TaskId) -> int:
    """Source: `TaskId.hashCode`, which adds 0 for the topology name of a task without a topology name."""
    subtopology, partition, topology_name = task
    code = ((31 + subtopology) * 31 + partition) * 31
    if topology_name is not None:
        code += string_hash(topology_name)
    return code if 0 <= code <= JAVA_INT_MAX else int32(code)


def subtopology_hash(subtopology: int) -> int:
    """Source: `TopologyMetadata.Subtopology.hashCode` of a subtopology without a topology name."""
    return int32((31 + subtopology) * 31)


def process_hash(process_id: ProcessId) -> int:
    """Source: `UUID.hashCode`."""
    halves = process_id.high ^ process_id.low
    return int32((halves >> 32) ^ halves)


def topic_partition_hash(topic_partition: TopicPartition) -> int:
    """Source: `TopicPartition.hashCode`."""
    return int32(31 * (31 + topic_partition.partition) + string_hash(topic_partition.topic))


def host_hash(host: HostInfo) -> int:
    """Source: `HostInfo.hashCode`."""
    return int32(31 * string_hash(host.host) + host.port)


_HASH_BY_TYPE: dict[type, Callable[..., int]] = {
    str: string_hash,
    TaskId: task_hash,
    ProcessId: process_hash,
    TopicPartition: topic_partition_hash,
    HostInfo: host_hash,
    int: int32,
}


def java_hash(key: Hashable) -> int:
    """Returns the `hashCode` of a string, task, process, partition, host or Java int. Raises TypeError for a key of an
    unknown type.
    """
    hash_of = _HASH_BY_TYPE.get(type(key))
    if hash_of is None:
        raise TypeError(f"no Java hash code is known for {type(key).__name__}")
    return hash_of(key)


def hash_of_fields(*field_hashes: int) -> int:
    """Returns Java's `Objects.hash` of fields with these hash codes, as int32."""
    code = 1
    for field_hash in field_hashes:
        code = 31 * code + field_hash
    return int32(code)


def string_map_hash(entries: Mapping[str, str]) -> int:
    """Returns Java's `Map.hashCode` of the entries, as int32."""
    return int32(sum(string_hash(key) ^ string_hash(value) for key, value in entries.items()))


def long_hash(value: int) -> int:
    """`Long.hashCode`."""
    unsigned = value & _LONG_MASK
    return int32(unsigned ^ (unsigned >> 32))
