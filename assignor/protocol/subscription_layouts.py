"""Reads the subscriptions of a group, those of one layout together.

The members of a group name the same topics, and most have as many tasks as others: their bytes have the same lengths
and counts at the same places. So what one member sent tells where the fields of the others are, and these are unpacked
and made into values with few calls for all of them, member by member as they lie in memory. What differs in any length
or count is read alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from assignor.known_ids import partitions_of_columns, tasks_of_columns
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
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import ProcessId, TaskId, TopicPartition

_MOST_TASKS = 64  # a thread with more has hardly as many as another, and its numbers are read in one go anyway
_MOST_TOPICS = 16
_NO_TAGS: Mapping[str, str] = {}
_NO_SUMS: Mapping[TaskId, int] = {}

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VERSIONS = struct.Struct(">ii")
_INFO_START = struct.Struct(">iiqqi")  # two versions, the process id, the length of the end point
_TASK_SUM = struct.Struct(">iiqh")
_INFO_END = struct.Struct(">bii")

_SUBTOPOLOGY, _PARTITION, _SUM, _NAME = range(4)
"""The fields of an offset sum."""

Row = tuple[Any, ...]
"""The fields of one member."""


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


def usual_members(subscriptions: Iterable[bytes]) -> dict[bytes, MemberFields | UsualSubscription]:
    """`subscriptions`: of one group, different from each other. One whose user data is not usual is read without it;
    one that is not usual is left out.
    """
    by_size: dict[int, list[bytes]] = {}
    for raw in subscriptions:
        by_size.setdefault(len(raw), []).append(raw)
    read = SubscriptionReader().read
    members: dict[bytes, MemberFields | UsualSubscription] = {}
    for of_one_size in by_size.values():
        layout = _layout_of_usual(read, of_one_size[0]) if len(of_one_size) > 1 else None
        together = {} if layout is None else layout.read(of_one_size)
        members.update(together)
        if len(together) < len(of_one_size):
            members.update(_one_by_one(read, [raw for raw in of_one_size if raw not in together]))
    return members


def _one_by_one(
    read: Callable[[bytes], UsualSubscription | None], subscriptions: Iterable[bytes]
) -> Iterator[tuple[bytes, MemberFields | UsualSubscription]]:
    for raw in subscriptions:
        subscription = read(raw)
        if subscription is not None:
            info = usual_subscription_info(subscription.user_data)
            yield raw, subscription if info is None else member_fields(subscription, info)


class _SubscriptionLayout:
    """The fields of one subscription: where they are, and the bytes that it has in common with all of its layout."""

    def __init__(self) -> None:
        self._form = ">"
        self._common_size = 0
        self._common: list[int] = []
        self._places = 0
        self.process_id = self.end_point = self.error_code = self.rack = 0
        self.sums = range(0)
        """Where each has its subtopology; the partition, the sum and the length of the topology's name follow it."""
        self.owned: list[tuple[int, slice]] = []
        """Where the topic is, and where its partitions are."""

    def common(self, size: int) -> None:
        """The next bytes are the same in all."""
        self._common_size += size

    def field(self, *forms: str) -> int:
        """The next fields have any values. Returns the place of the first."""
        self._end_common()
        self._form += "".join(forms)
        first, self._places = self._places, self._places + len(forms)
        return first

    def unread(self, size: int) -> None:
        self._end_common()
        self._form += f"{size}x"

    def _end_common(self) -> None:
        if self._common_size:
            self._form += f"{self._common_size}s"
            self._common.append(self._places)
            self._places, self._common_size = self._places + 1, 0

    def read(self, subscriptions: Sequence[bytes]) -> dict[bytes, MemberFields]:
        """Those of this layout, of which the first is. All have the same size."""
        rows = list(struct.iter_unpack(self._form, b"".join(subscriptions)))
        in_common = list(zip(map(itemgetter(*self._common), rows), map(self._of_sums(_NAME), rows), strict=True))
        if in_common.count(in_common[0]) < len(rows):
            is_alike = [common == in_common[0] for common in in_common]
            rows, subscriptions = list(compress(rows, is_alike)), list(compress(subscriptions, is_alike))
        process_id = slice(self.process_id, self.process_id + 2)
        fields = zip(
            _made_of(ProcessId, map(itemgetter(process_id), rows)),
            _texts(list(map(itemgetter(self.end_point), rows))),
            repeat(_NO_TAGS),
            _texts(list(map(itemgetter(self.rack), rows))),
            self._owned_partitions(rows),
            self._offset_sums(rows),
            repeat(LATEST_SUPPORTED_VERSION),
            repeat(LATEST_SUPPORTED_VERSION),
            map(itemgetter(self.error_code), rows),
        )
        return dict(zip(subscriptions, _made_of(MemberFields, fields), strict=True))

    def _owned_partitions(self, rows: Sequence[Row]) -> Iterable[tuple[TopicPartition, ...]]:
        of_topics: list[list[tuple[TopicPartition, ...]]] = []
        for topic, numbers in self.owned:
            count = numbers.stop - numbers.start
            names = chain.from_iterable([repeat(text_of(row[topic]), count) for row in rows])
            found = iter(partitions_of_columns(names, chain.from_iterable(map(itemgetter(numbers), rows))))
            of_topics.append([tuple(islice(found, count)) for _ in rows])
        if len(of_topics) == 1:
            return of_topics[0]
        return map(tuple, map(chain, *of_topics)) if of_topics else repeat(())

    def _offset_sums(self, rows: Sequence[Row]) -> Iterable[Mapping[TaskId, int]]:
        if not self.sums:
            return repeat(_NO_SUMS)
        subtopologies, partitions, sums = (
            chain.from_iterable(map(self._of_sums(field), rows)) for field in (_SUBTOPOLOGY, _PARTITION, _SUM)
        )
        found = zip(tasks_of_columns(subtopologies, partitions), sums, strict=True)
        count = len(self.sums)
        return [dict(islice(found, count)) for _ in rows]

    def _of_sums(self, field: int) -> itemgetter[Any]:
        """This field of each."""
        sums = self.sums
        return itemgetter(slice(sums.start + field, sums.stop + field, sums.step))


def _made_of(kind: type[Any], rows: Iterable[Row]) -> Iterable[Any]:
    """A named tuple of each row, without a call in Python."""
    return map(tuple.__new__, repeat(kind), rows)


def _texts(column: Sequence[bytes]) -> Iterable[str | None]:
    return [text_of(raw) or None for raw in column] if column[0] else repeat(None)


def _layout_of_usual(read: Callable[[bytes], UsualSubscription | None], data: bytes) -> _SubscriptionLayout | None:
    subscription = read(data)
    info = None if subscription is None else usual_subscription_info(subscription.user_data)
    return None if info is None else _layout_of(data)


def _layout_of(data: bytes) -> _SubscriptionLayout | None:
    """Of bytes that are usual; None where the layout is not worth it, or where bytes are left over."""
    topics = topics_of(data)
    if topics is None:
        return None
    start = topics[1]
    info_at = start + _INT32.size
    size_of_info: int = _INT32.unpack_from(data, start)[0]
    end_point_size: int = _INFO_START.unpack_from(data, info_at)[-1]
    sum_count: int = _INT32.unpack_from(data, info_at + _INFO_START.size + end_point_size)[0]
    at = info_at + size_of_info
    topic_count: int = _INT32.unpack_from(data, at)[0]
    used = _INFO_START.size + end_point_size + _INT32.size + sum_count * _TASK_SUM.size + _INFO_END.size
    if used != size_of_info or sum_count > _MOST_TASKS or topic_count > _MOST_TOPICS:
        return None
    layout = _SubscriptionLayout()
    layout.common(info_at + _VERSIONS.size)
    layout.process_id = layout.field("q", "q")
    layout.common(_INT32.size)
    layout.end_point = layout.field(f"{end_point_size}s")
    layout.common(_INT32.size)
    first_sum = layout.field(*["i", "i", "q", "h"] * sum_count)
    layout.sums = range(first_sum, first_sum + 4 * sum_count, 4)
    layout.unread(1)  # the unique field
    layout.error_code = layout.field("i")
    layout.common(2 * _INT32.size)  # the numbers of tags and of topics
    at += _INT32.size
    for _ in range(topic_count):
        name_size: int = _INT16.unpack_from(data, at)[0]
        at += _INT16.size + name_size
        count: int = _INT32.unpack_from(data, at)[0]
        at += _INT32.size * (count + 1)
        if count > _MOST_TASKS:
            return None
        layout.common(_INT16.size)
        topic = layout.field(f"{name_size}s")
        layout.common(_INT32.size)
        first = layout.field(*["i"] * count)
        layout.owned.append((topic, slice(first, first + count)))
    rack_size = max(_INT16.unpack_from(data, at + _INT32.size)[0], 0)
    layout.unread(_INT32.size)  # the generation
    layout.common(_INT16.size)
    layout.rack = layout.field(f"{rack_size}s")
    return layout if at + _INT32.size + _INT16.size + rack_size == len(data) else None
