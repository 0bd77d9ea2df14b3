"""Reads the subscriptions that nearly every member sends, with few calls: a group may have ten thousand members.

Both functions read the latest versions only, and answer None for anything else, also for bytes with a mistake in them.
Whoever calls then reads the bytes field by field, which names the mistake. What they do read, they read alike.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from assignor.java import text as java_text
from assignor.known_ids import partitions_of_columns, tasks_of_columns
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import ProcessId, TaskId, TopicPartition

_CONSUMER_PROTOCOL_VERSION = 3
_new = tuple.__new__  # what the calls of the classes below come to
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_START = struct.Struct(">hi")  # version, the number of topics
_END = struct.Struct(">ih")  # generation, the length of the rack
_SMALLEST_TOPIC = _INT16.size + _INT32.size

_INFO_START = struct.Struct(">iiqqi")  # two versions, the process id, the length of the end point
_INFO_END = struct.Struct(">bii")  # unique field, error code, the number of client tags
_TASK_SUM = struct.Struct(">iiqh")  # subtopology, partition, offset sum, the length of the topology's name


class UsualSubscription(NamedTuple):
    """The fields of a `consumer_protocol.Subscription`."""

    topics: tuple[str, ...]
    user_data: bytes
    owned_partitions: tuple[TopicPartition, ...]
    generation_id: int | None
    rack: str | None


class UsualSubscriptionInfo(NamedTuple):
    """The first fields of a `subscription_info.SubscriptionInfo`; the others have their defaults."""

    version: int
    latest_supported_version: int
    process_id: ProcessId
    user_end_point: str | None
    task_offset_sums: dict[TaskId, int]
    unique_field: int
    error_code: int

    @property
    def is_future(self) -> bool:
        return False

    @property
    def client_tags(self) -> Mapping[str, str]:
        return {}


class SubscriptionReader:
    """Reads the subscriptions of one group, whose members nearly all name the same topics: those are decoded once."""

    __slots__ = ("_start", "_topics")

    def __init__(self) -> None:
        self._start = b""
        self._topics: tuple[str, ...] = ()

    def read(self, data: bytes) -> UsualSubscription | None:
        """As `usual_subscription`."""
        if self._start and data.startswith(self._start):
            return _after_topics(data, self._topics, len(self._start))
        found = topics_of(data)
        if found is None:
            return None
        topics, end = found
        self._start, self._topics = data[:end], topics
        return _after_topics(data, topics, end)


def usual_subscription(data: bytes) -> UsualSubscription | None:
    """Version 3, with user data."""
    return SubscriptionReader().read(data)


def topics_of(data: bytes) -> tuple[tuple[str, ...], int] | None:
    """The topics that a subscription begins with, and where they end."""
    try:
        version, topic_count = _START.unpack_from(data)
        if version < _CONSUMER_PROTOCOL_VERSION or not 0 <= topic_count <= len(data):
            return None
        topics: list[str] = []
        at = _START.size
        for _ in range(topic_count):
            topic, at = _topic_at(data, at)
            topics.append(topic)
    except struct.error:
        return None
    return tuple(topics), at


def _after_topics(data: bytes, topics: tuple[str, ...], at: int) -> UsualSubscription | None:
    try:
        start = at + _INT32.size
        at = start + _size_at(data, at, 1)
        user_data = data[start:at]
        owned: list[TopicPartition] = []
        topic_count, at = _size_at(data, at, _SMALLEST_TOPIC), at + _INT32.size
        for _ in range(topic_count):
            topic, at = _topic_at(data, at)
            count = _size_at(data, at, _INT32.size)
            numbers = struct.unpack_from(f">{count}i", data, at + _INT32.size)
            at += _INT32.size * (count + 1)
            owned += partitions_of_columns(repeat(topic), numbers)
        generation_id, rack_size = _END.unpack_from(data, at)
    except struct.error:
        return None
    start = at + _END.size
    at = start + max(rack_size, 0)
    if at > len(data):
        return None
    rack = text_of(data[start:at]) or None if rack_size > 0 else None
    generation = generation_id if generation_id >= 0 else None
    return _new(UsualSubscription, (topics, user_data, tuple(owned), generation, rack))


def usual_subscription_info(data: bytes) -> UsualSubscriptionInfo | None:
    """The latest version, no client tags, no tasks of a topology with a name."""
    try:
        version, latest_supported, high, low, size = _INFO_START.unpack_from(data)
        if version != LATEST_SUPPORTED_VERSION or latest_supported != version:
            return None
        count_at = _INFO_START.size + size
        count: int = _INT32.unpack_from(data, count_at)[0]
        if size < 0 or not 0 <= count <= len(data):
            return None
        rows_at = count_at + _INT32.size
        end_at = rows_at + count * _TASK_SUM.size
        unique_field, error_code, tag_count = _INFO_END.unpack_from(data, end_at)
    except struct.error:
        return None
    if tag_count != 0:
        return None
    offset_sums: dict[TaskId, int] = {}
    if count:
        columns = zip(*_TASK_SUM.iter_unpack(data[rows_at:end_at]), strict=True)
        subtopologies, partitions, sums, name_lengths = columns
        if max(name_lengths) > 0:
            return None
        offset_sums = dict(zip(tasks_of_columns(subtopologies, partitions), sums, strict=True))
    end_point = text_of(data[_INFO_START.size : count_at]) or None if size else None
    process_id = ProcessId(high, low)
    fields = (version, latest_supported, process_id, end_point, offset_sums, unique_field, error_code)
    return _new(UsualSubscriptionInfo, fields)


def _topic_at(data: bytes, at: int) -> tuple[str, int]:
    """A topic's name, and where what follows it begins. Raises struct.error."""
    size: int = _INT16.unpack_from(data, at)[0]
    start = at + _INT16.size
    end = start + size
    if size < 0 or end > len(data):
        raise struct.error
    return text_of(data[start:end]), end


def _size_at(data: bytes, at: int, smallest: int) -> int:
    """How many things of at least `smallest` bytes follow. Raises struct.error when that cannot be."""
    size: int = _INT32.unpack_from(data, at)[0]
    if not 0 <= size * smallest <= len(data) - at - _INT32.size:
        raise struct.error
    return size


@lru_cache(maxsize=1_024)
def text_of(raw: bytes) -> str:
    """Of a topic, a rack or an end point: every member of a group names the same ones."""
    return java_text.from_utf8(raw)
