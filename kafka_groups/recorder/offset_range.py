"""All offsets that a leader can have seen: for each task, a sum between a poll before the rebalance and one after it.
Pure.

A leader uses only the sum of a task's offsets: how far each member is behind it, and whether that is within
`acceptable.recovery.lag`. So only a few sums per task are worth trying: the ends of the range, and those at which some
member is just caught up, or just not.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from assignor.protocol.subscription_info import decode_member
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.types import TaskId, TopicPartition

_STEPS = 12
_MOST_CHANGES = 3
_SHARE_OF_SNAPS = 0.4
_SHARE_OF_TURNING_POINTS = 0.6


@dataclass(frozen=True, slots=True)
class _TaskRange:
    """`partitions`: each with its lowest and highest offset; `turning_points`: sums worth trying, sorted."""

    partitions: tuple[tuple[TopicPartition, int, int], ...]
    low: int
    high: int
    turning_points: tuple[int, ...]

    def sum_in(self, view: ClusterView) -> int:
        """The sum in this view, limited to the range. A topic that the view lacks counts as 0."""
        known = {**view.committed_offsets, **(view.changelog_end_offsets or {})}
        offsets = (_offset(known, partition.topic, partition.partition) for partition, _, _ in self.partitions)
        return min(max(sum(offsets), self.low), self.high)

    def turning_point_near(self, total: int, draw: random.Random) -> int:
        """One of the two turning points next to `total`."""
        index = bisect_left(self.turning_points, total)
        return draw.choice(self.turning_points[max(index - 1, 0) : index + 1])

    def offsets(self, total: int) -> dict[TopicPartition, int]:
        left = total - self.low
        offsets: dict[TopicPartition, int] = {}
        for partition, low, high in self.partitions:
            more = min(left, high - low)
            offsets[partition] = low + more
            left -= more
        return offsets


class OffsetRange:
    """The tasks whose offsets differ between the polls; sums are keyed by their index.

    `before`: None for a range from 0. `since`: later polls, the last of them with the internal topics to take.
    """

    def __init__(self, snapshot: RebalanceSnapshot, before: ClusterView | None, since: Sequence[ClusterView]) -> None:
        self._after = since[-1]
        self.words = "0 and those of now" if before is None else "the look before the rebalance and the one after it"
        reported = reported_sums(snapshot)
        lag = snapshot.configs.acceptable_recovery_lag
        ranges = (
            _range(partitions, reported.get(task, ()), lag)
            for task, partitions in _open(snapshot, before, self._after).items()
        )
        self._tasks = tuple(each for each in ranges if each.low < each.high)
        self._polls = (
            {index: task.low for index, task in enumerate(self._tasks)},
            *({index: task.sum_in(view) for index, task in enumerate(self._tasks)} for view in since),
        )

    @property
    def is_open(self) -> bool:
        return bool(self._tasks)

    def instants(self) -> Iterator[dict[int, int]]:
        """All tasks at one point in time, spread evenly between polls: the leader too read at one time."""
        for earlier, later in pairwise(self._polls):
            for step in range(_STEPS):
                yield {index: total + round((later[index] - total) * step / _STEPS) for index, total in earlier.items()}

    def changed(self, sums: Mapping[int, int], draw: random.Random) -> dict[int, int]:
        """`sums` with a few tasks drawn again, or moved to where a member is just, or just not, caught up."""
        changed = dict(sums)
        if draw.random() < _SHARE_OF_SNAPS:
            for index, task in enumerate(self._tasks):
                if draw.random() < _SHARE_OF_SNAPS:
                    changed[index] = task.turning_point_near(sums[index], draw)
            return changed
        for index in draw.sample(range(len(self._tasks)), min(draw.randint(1, _MOST_CHANGES), len(self._tasks))):
            task = self._tasks[index]
            if draw.random() < _SHARE_OF_TURNING_POINTS:
                changed[index] = draw.choice(task.turning_points)
            else:
                changed[index] = draw.randint(task.low, task.high)
        return changed

    def view(self, sums: Mapping[int, int]) -> ClusterView:
        """The view after the rebalance, with these sums."""
        offsets: dict[TopicPartition, int] = {}
        for index, total in sums.items():
            offsets |= self._tasks[index].offsets(total)
        ends = self._after.changelog_end_offsets
        return replace(
            self._after,
            changelog_end_offsets=None
            if ends is None
            else {
                topic: tuple(offsets.get(TopicPartition(topic, number), end) for number, end in enumerate(of_topic))
                for topic, of_topic in ends.items()
            },
            committed_offsets={
                topic: tuple(
                    None if end is None else offsets.get(TopicPartition(topic, number), end)
                    for number, end in enumerate(of_topic)
                )
                for topic, of_topic in self._after.committed_offsets.items()
            },
        )


def reported_sums(snapshot: RebalanceSnapshot) -> dict[TaskId, tuple[int, ...]]:
    """The offset sums that members report for each task, sentinels included. Raises DecodeError."""
    sums: dict[TaskId, tuple[int, ...]] = {}
    for member in snapshot.members.values():
        for task, offset_sum in decode_member(member.subscription).info.task_offset_sums.items():
            sums[task] = (*sums.get(task, ()), offset_sum)
    return sums


def _open(
    snapshot: RebalanceSnapshot, before: ClusterView | None, after: ClusterView
) -> dict[TaskId, list[tuple[TopicPartition, int, int]]]:
    """The changelog partitions of each task, including source topics that serve as changelog."""
    low_ends = (before.changelog_end_offsets if before is not None else None) or {}
    low_committed = before.committed_offsets if before is not None else {}
    tasks: dict[TaskId, list[tuple[TopicPartition, int, int]]] = {}
    for subtopology in snapshot.topology.subtopologies:
        topics = {
            store.changelog_topic: (low_ends, after.changelog_end_offsets or {}) for store in subtopology.stores
        } | {store.source_topic_as_changelog: (low_committed, after.committed_offsets) for store in subtopology.stores}
        for topic, (lows, highs) in topics.items():
            if topic is None:
                continue
            for number, high in enumerate(highs.get(topic, ())):
                if high is not None:
                    low = min(_offset(lows, topic, number), high)
                    partition = TopicPartition(topic, number)
                    tasks.setdefault(TaskId(subtopology.id, number), []).append((partition, low, high))
    return tasks


def _range(partitions: list[tuple[TopicPartition, int, int]], reported: tuple[int, ...], lag: int) -> _TaskRange:
    low, high = sum(each[1] for each in partitions), sum(each[2] for each in partitions)
    points = {low, high}
    for offset_sum in reported:
        if offset_sum >= 0:
            points.update((offset_sum, offset_sum + 1, offset_sum + lag, offset_sum + lag + 1))
    return _TaskRange(tuple(partitions), low, high, tuple(sorted(point for point in points if low <= point <= high)))


def _offset(offsets: Mapping[str, tuple[int | None, ...]], topic: str, partition: int) -> int:
    of_topic = offsets.get(topic, ())
    return (of_topic[partition] if partition < len(of_topic) else None) or 0
