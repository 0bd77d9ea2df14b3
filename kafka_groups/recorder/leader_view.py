"""Infers the view of the cluster that the leader had in a rebalance. The inputs of this module are polls before and
after the rebalance, and the result of the rebalance.

Rules: the leader's view lies between the poll before the rebalance and the poll after it. If an internal topic is
missing in the poll before the rebalance, the rebalance created the topic. Between the polls, offsets never decrease. To
try a view, the recorder computes the rebalance with this view. If the result equals the leader's result, the recorder
uses this view, and the recorded line names it. The first tried view is the first poll after all members had joined. The
recorder then tries other views between the polls. If no view gives the leader's result, the recorder uses the first
tried view. The recorded line then names the first difference between the two results. The module does no I/O except
reading the clock.

A leader uses only the sum of a task's end offsets. A member's lag is the sum of the end offsets minus the offset sum
that the member reports. The leader compares the lag with `acceptable.recovery.lag`. So only a few sums of each task are
worth trying. The search tries the lowest and the highest possible sum. The search also tries the sums at which a
member's lag crosses `acceptable.recovery.lag` or is exactly 0.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from assignor.clients.client_state import END_OFFSETS_FAILURE
from assignor.errors import AssignorFault
from assignor.pipeline import assign
from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.protocol.subscription_info import decode_member
from assignor.recording.rebalance import RecordedOutput
from assignor.task_assignors.base import TaskAssignor
from assignor.types import Offsets, TaskId, TopicPartition
from rebalance_analysis.compare import compare_rebalance

_LONGEST_WALK = 5000
_STUCK_AFTER = 60
_STEPS = 12
_MOST_CHANGES = 3
_SHARE_OF_SNAPS = 0.4
_SHARE_OF_TURNING_POINTS = 0.6


@dataclass(frozen=True, slots=True)
class PolledViews:
    """The views of the cluster before and after a rebalance. `since`: the views of polls after all members had joined.
    The last view in `since` was polled after the rebalance. So `since` has at least one view. `before`: the view of the
    last poll before all members had joined; None if there was no such poll. `may_create`: True if the rebalance may
    have created all internal topics. Then it is not known whether the topics existed before the rebalance.
    """

    since: tuple[ClusterView, ...]
    before: ClusterView | None = None
    may_create: bool = False

    @property
    def after(self) -> ClusterView:
        return self.since[-1]


@dataclass(frozen=True, slots=True)
class LeaderView:
    """A view that was tried as the leader's view, and the outcome. `description`: the name of the view; empty for the
    first poll. `differences`: the differences between the leader's result and this project's result with this view;
    empty if the results are equal.
    """

    view: ClusterView
    description: str = ""
    differences: tuple[str, ...] = ()


def leader_view(
    snapshot: RebalanceSnapshot,
    now_ms: int,
    output: RecordedOutput,
    views: PolledViews,
    time_is_left: Callable[[], bool],
    task_assignor: TaskAssignor | None = None,
) -> LeaderView:
    """Finds the leader's view of the cluster. The views of the polls are tried first. Views between the polls are tried
    next, as long as the function `time_is_left` returns True. `snapshot`: the input of the rebalance, without a view of
    the cluster.
    """

    def tried(view: ClusterView, description: str) -> LeaderView:
        if snapshot.configs.rack_aware and view.created_internal_topics is None:
            view = view.with_created(created_topics_of(view, views.after), views.after)
        try:
            result = assign(snapshot.seen(view), now_ms, task_assignor)
            return LeaderView(view, description, compare_rebalance(result, output).differences)
        except AssignorFault as fault:
            return LeaderView(view, description, (str(fault),))

    first: LeaderView | None = None
    seen: list[ClusterView] = []
    for view, description in _polled_views(views):
        if view in seen:
            continue
        seen.append(view)
        found = tried(view, description)
        if not found.differences:
            return found
        first = first or found
        if not time_is_left():
            break
    assert first is not None, "there is always the look after the rebalance"
    for base, description in _topic_variants(views.after, views):
        between = OffsetRange(snapshot, views.before, (*views.since[:-1], base))
        draw = random.Random(",".join(snapshot.members))  # This sequence is repeatable, and is no secret. # noqa: S311
        walked = _walked(between, description, tried, draw, time_is_left)
        if walked is not None:
            return walked
    for base, description in _topic_variants(views.after, views):
        found = tried(
            replace(base, changelog_end_offsets=None, failures=base.failures | {END_OFFSETS_FAILURE}),
            _joined(description, "no end offsets: the leader's own look-up must have failed"),
        )
        if not found.differences:
            return found
    return first


def created_topics_of(view: ClusterView, after: ClusterView) -> frozenset[str]:
    """Returns the internal topics that the rebalance created. `view`: the view of the leader. `after`: the view after
    the rebalance.
    """
    return frozenset(after.existing_internal_topics.keys() - view.existing_internal_topics.keys())


def _polled_views(views: PolledViews) -> Iterator[tuple[ClusterView, str]]:
    for number, polled in enumerate(views.since):
        for view, description in _topic_variants(polled, views):
            yield view, _joined(description, "" if number == 0 else "a later look")
    before = views.before
    if before is not None:
        offsets = before if before.changelog_end_offsets is not None else views.after
        for view, description in _topic_variants(views.after, views):
            yield _with_offsets_of(view, offsets), _joined(description, "offsets of the look before the rebalance")
        yield replace(before, changelog_end_offsets=offsets.changelog_end_offsets), "the look before the rebalance"


def _topic_variants(polled: ClusterView, views: PolledViews) -> Iterator[tuple[ClusterView, str]]:
    """Yields variants of a polled view. The first variant lacks the internal topics that the rebalance may have
    created. If the rebalance may have created internal topics, the second variant is the polled view itself.
    """
    if views.before is not None:
        created = views.after.existing_internal_topics.keys() - views.before.existing_internal_topics.keys()
        yield _without(polled, created), ""
        if created:
            yield polled, "internal topics as existing before"
    elif views.may_create:
        yield _without(polled, polled.existing_internal_topics.keys()), "internal topics as created in this rebalance"
        yield polled, "internal topics as existing before"
    else:
        yield polled, ""


def _walked(
    between: OffsetRange,
    description: str,
    tried: Callable[[ClusterView, str], LeaderView],
    draw: random.Random,
    time_is_left: Callable[[], bool],
) -> LeaderView | None:
    """Searches views between the polls. Returns the first view without differences; None if every tried view has
    differences. First tries views at several points in time. Then starts from the point with the fewest differences,
    and repeatedly changes the offset sums of a few tasks. When no change reduces the differences any more, starts from
    the next point.
    """
    if not between.is_open:
        return None
    description = _joined(description, f"offsets between {between.description}")
    starts: list[tuple[int, int, dict[int, int]]] = []
    for number, sums in enumerate(between.instants()):
        if not time_is_left():
            return None
        found = tried(between.view(sums), description)
        if not found.differences:
            return found
        starts.append((len(found.differences), number, sums))
    starts.sort()
    start, stuck = 0, 0
    fewest, _, current = starts[start]
    for _ in range(_LONGEST_WALK):
        if not time_is_left():
            return None
        sums = between.changed(current, draw)
        found = tried(between.view(sums), description)
        if not found.differences:
            return found
        stuck = 0 if len(found.differences) < fewest else stuck + 1
        if len(found.differences) <= fewest:
            fewest, current = len(found.differences), sums
        if stuck > _STUCK_AFTER:
            start, stuck = (start + 1) % len(starts), 0
            fewest, _, current = starts[start]
    return None


def _without(view: ClusterView, topics: Iterable[str]) -> ClusterView:
    gone = frozenset(topics)
    if not gone:
        return view
    ends = view.changelog_end_offsets
    return replace(
        view,
        existing_internal_topics={k: v for k, v in view.existing_internal_topics.items() if k not in gone},
        changelog_end_offsets=None if ends is None else {k: v for k, v in ends.items() if k not in gone},
    )


def _with_offsets_of(view: ClusterView, other: ClusterView) -> ClusterView:
    ends, theirs = view.changelog_end_offsets, other.changelog_end_offsets or {}
    return replace(
        view,
        changelog_end_offsets=None if ends is None else {topic: theirs.get(topic, of) for topic, of in ends.items()},
        committed_offsets={
            topic: other.committed_offsets.get(topic, of) for topic, of in view.committed_offsets.items()
        },
    )


def _joined(*description: str) -> str:
    return ", ".join(word for word in description if word)


@dataclass(frozen=True, slots=True)
class _TaskRange:
    """The range of a task's offset sum. `partitions`: the task's changelog partitions, each with its lowest and highest
    offset. `turning_points`: the sorted offset sums that the search tries.
    """

    partitions: tuple[tuple[TopicPartition, int, int], ...]
    low: int
    high: int
    turning_points: tuple[int, ...]

    def sum_in(self, view: ClusterView) -> int:
        """Returns the task's offset sum in this view. A sum outside the range is replaced by the nearest sum in the
        range. If the view lacks a topic, the topic's offsets are assumed to be 0.
        """
        known = {**view.committed_offsets, **(view.changelog_end_offsets or {})}
        offsets = (_offset(known, partition.topic, partition.partition) for partition, _, _ in self.partitions)
        return min(max(sum(offsets), self.low), self.high)

    def turning_point_near(self, total: int, draw: random.Random) -> int:
        """Chooses at random one of the two turning points that are next to `total`."""
        index = bisect_left(self.turning_points, total)
        return draw.choice(self.turning_points[max(index - 1, 0) : index + 1])

    def offsets(self, total: int) -> Offsets:
        left = total - self.low
        offsets: dict[TopicPartition, int] = {}
        for partition, low, high in self.partitions:
            more = min(left, high - low)
            offsets[partition] = low + more
            left -= more
        return offsets


class OffsetRange:
    """The offsets that a leader can have read. The offset sum of a task is at least its value in the last poll before
    the rebalance. The offset sum is at most its value in a poll after the rebalance. An OffsetRange contains only the
    tasks whose offsets differ between these polls. The index of a task in the OffsetRange is the key of its offset sum.

    `before`: the view of the last poll before the rebalance; None to begin at offset 0. `since`: the views of later
    polls, oldest first. Only the last view in `since` must contain the internal topics.
    """

    def __init__(self, snapshot: RebalanceSnapshot, before: ClusterView | None, since: Sequence[ClusterView]) -> None:
        self._after = since[-1]
        self.description = (
            "0 and those of now" if before is None else "the look before the rebalance and the one after it"
        )
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
        """Yields the offset sums of all tasks for several points in time, evenly spread between two polls. All sums in
        one dict belong to the same point in time, because the leader also reads all offsets together.
        """
        for earlier, later in pairwise(self._polls):
            for step in range(_STEPS):
                yield {index: total + round((later[index] - total) * step / _STEPS) for index, total in earlier.items()}

    def changed(self, sums: Mapping[int, int], draw: random.Random) -> dict[int, int]:
        """Returns a copy of the offset sums in which a few tasks have a different sum. The new sum is random, or is a
        sum at which a member's lag crosses a limit.
        """
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
        """Returns a copy of the last view. In the copy, the tasks have the given offset sums."""
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
    """Returns, for each task, the offset sums that members report. A reported sum can be one of Kafka's negative
    markers instead of an offset sum. Raises DecodeError.
    """
    sums: dict[TaskId, tuple[int, ...]] = {}
    for member in snapshot.members.values():
        for task, offset_sum in decode_member(member.subscription).info.task_offset_sums.items():
            sums[task] = (*sums.get(task, ()), offset_sum)
    return sums


def _open(
    snapshot: RebalanceSnapshot, before: ClusterView | None, after: ClusterView
) -> dict[TaskId, list[tuple[TopicPartition, int, int]]]:
    """Returns, for each task, its changelog partitions with their lowest and highest offsets. Source topics that serve
    as changelogs are included.
    """
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
