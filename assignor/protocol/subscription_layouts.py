"""Reads subscriptions that are laid out as others of their group, with one call for all of their numbers.

The members of a group name the same topics, and most have as many tasks as others: their bytes have the same lengths
and counts at the same places. So what one member sent tells where the fields of the next are. What differs in any
length or count is read by `usual_subscriptions`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from assignor.protocol.consumer_protocol import Subscription
from assignor.protocol.subscription_info import SubscriptionInfo
from assignor.protocol.usual_subscriptions import (
    SubscriptionReader,
    UsualSubscription,
    UsualSubscriptionInfo,
    text_of,
    topics_of,
    usual_subscription_info,
)
from assignor.types import ProcessId, TaskId, TopicPartition

_MOST_TASKS = 64  # a thread with more has hardly the same number as another, and its numbers are read in one go anyway
_MOST_TOPICS = 16
_MOST_LAYOUTS = 64
_NO_TAGS: Mapping[str, str] = {}
_new = tuple.__new__  # what the calls of the named tuples come to: members report thousands

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INFO_START = struct.Struct(">iiqqi")  # two versions, the process id, the length of the end point
_TASK_SUM = struct.Struct(">iiqh")
_INFO_END = struct.Struct(">bii")

# places in what a layout unpacks
_PROCESS_ID = slice(4, 6)
_END_POINT = 7
_FIRST_SUM = 9
_NUMBERS_OF_SUM = 4
_RACK = -1


class MemberFields(NamedTuple):
    """What a group is gathered from, of the Subscription and the SubscriptionInfo of one member."""

    process_id: ProcessId
    user_end_point: str | None
    client_tags: Mapping[str, str]
    rack: str | None
    owned_partitions: tuple[TopicPartition, ...]
    task_offset_sums: Mapping[TaskId, int]
    version: int
    latest_supported_version: int
    error_code: int


def member_fields(
    subscription: Subscription | UsualSubscription, info: SubscriptionInfo | UsualSubscriptionInfo
) -> MemberFields:
    return MemberFields(
        info.process_id,
        info.user_end_point,
        info.client_tags,
        subscription.rack,
        subscription.owned_partitions,
        info.task_offset_sums,
        info.version,
        info.latest_supported_version,
        info.error_code,
    )


class GroupReader:
    """Reads the subscriptions of one group, which are different from each other."""

    __slots__ = ("_layouts", "_read_usual")

    def __init__(self) -> None:
        self._layouts: dict[int, _Layout] = {}
        """By the size of the subscription."""
        self._read_usual = SubscriptionReader().read

    def read(self, data: bytes) -> MemberFields | UsualSubscription | None:
        """Without the user data where that is not usual; None where nothing is."""
        size = len(data)
        layout = self._layouts.get(size)
        fields = None if layout is None else layout.read(data)
        if fields is not None:
            return fields
        subscription = self._read_usual(data)
        if subscription is None:
            return None
        info = usual_subscription_info(subscription.user_data)
        if info is None:
            return subscription
        if layout is None and len(self._layouts) < _MOST_LAYOUTS:
            layout = _layout_of(data)
            if layout is not None:
                self._layouts[size] = layout
        return member_fields(subscription, info)


class _Layout:
    __slots__ = ("_end_of_sums", "_fixed", "_fixed_of", "_owned", "_unpack")

    def __init__(self, data: bytes, fields: list[tuple[str, bool]], sum_count: int, topic_sizes: list[int]) -> None:
        """`fields`: of each the form, and whether all subscriptions of this layout have the same value in it.
        `topic_sizes`: how many partitions of each topic are owned.
        """
        self._unpack = struct.Struct(">" + "".join([form for form, _ in fields])).unpack
        has_value = [is_fixed for form, is_fixed in fields if not form.endswith("x")]
        self._fixed_of = itemgetter(*[at for at, is_fixed in enumerate(has_value) if is_fixed])
        self._fixed = self._fixed_of(self._unpack(data))
        self._end_of_sums = at = _FIRST_SUM + _NUMBERS_OF_SUM * sum_count
        self._owned: list[tuple[int, slice]] = []
        at += 3  # error code, the numbers of tags and of topics
        for size in topic_sizes:
            self._owned.append((at + 1, slice(at + 3, at + 3 + size)))
            at += 3 + size

    def read(self, data: bytes) -> MemberFields | None:
        values = self._unpack(data)
        if self._fixed_of(values) != self._fixed:
            return None
        end_of_sums = self._end_of_sums
        sums: dict[TaskId, int] = {}
        for at in range(_FIRST_SUM, end_of_sums, _NUMBERS_OF_SUM):
            sums[_new(TaskId, (values[at], values[at + 1], None))] = values[at + 2]
        owned: list[TopicPartition] = []
        for topic_at, numbers in self._owned:
            topic = text_of(values[topic_at])
            owned += [_new(TopicPartition, (topic, number)) for number in values[numbers]]
        return _new(
            MemberFields,
            (
                _new(ProcessId, values[_PROCESS_ID]),
                text_of(values[_END_POINT]) or None,
                _NO_TAGS,
                text_of(values[_RACK]) or None,
                tuple(owned),
                sums,
                values[2],
                values[3],
                values[end_of_sums],
            ),
        )


def _layout_of(data: bytes) -> _Layout | None:
    """Of bytes that are usual; None where the layout is not worth it, or where bytes are left over."""
    topics = topics_of(data)
    if topics is None:
        return None
    start = topics[1]
    info_at = start + _INT32.size
    size_of_info: int = _INT32.unpack_from(data, start)[0]
    end_point_size: int = _INFO_START.unpack_from(data, info_at)[-1]
    sum_count: int = _INT32.unpack_from(data, info_at + _INFO_START.size + end_point_size)[0]
    topics_at = info_at + size_of_info
    topic_count: int = _INT32.unpack_from(data, topics_at)[0]
    used = _INFO_START.size + end_point_size + _INT32.size + sum_count * _TASK_SUM.size + _INFO_END.size
    if used != size_of_info or sum_count > _MOST_TASKS or topic_count > _MOST_TOPICS:
        return None
    fixed, varies = True, False
    fields = [
        (f"{start}s", fixed),
        ("i", fixed),
        ("i", fixed),
        ("i", fixed),
        ("q", varies),
        ("q", varies),
        ("i", fixed),
    ]
    fields += [(f"{end_point_size}s", varies), ("i", fixed)]
    fields += [("i", varies), ("i", varies), ("q", varies), ("h", fixed)] * sum_count
    fields += [("x", varies), ("i", varies), ("i", fixed), ("i", fixed)]  # without the unique field
    at = topics_at + _INT32.size
    topic_sizes: list[int] = []
    for _ in range(topic_count):
        name_size: int = _INT16.unpack_from(data, at)[0]
        at += _INT16.size + name_size
        count: int = _INT32.unpack_from(data, at)[0]
        at += _INT32.size * (count + 1)
        if count > _MOST_TASKS:
            return None
        fields += [("h", fixed), (f"{name_size}s", varies), ("i", fixed), *[("i", varies)] * count]
        topic_sizes.append(count)
    rack_size = max(_INT16.unpack_from(data, at + _INT32.size)[0], 0)
    fields += [("4x", varies), ("h", fixed), (f"{rack_size}s", varies)]  # without the generation
    if at + _INT32.size + _INT16.size + rack_size != len(data):
        return None
    return _Layout(data, fields, sum_count, topic_sizes)
