"""The leader's view of the cluster in a rebalance, concluded from polls around the rebalance and from its result.

Rules: the leader's view lies between the poll before the rebalance and the poll after it. Internal topics that the
former lacks were created in the rebalance, and offsets only grow. The first poll after all members had joined is tried
first. If this project's own leader decides differently on that view, other views in between are tried. The recorder
takes the first view on which its result equals that of the group's leader, and the line names the view. If no view
gives that result, the line keeps the first poll and says how the results differ. Pure, except for the time it takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from assignor.clients.client_state import END_OFFSETS_FAILURE
from assignor.errors import AssignorFault
from assignor.pipeline import assign
from assignor.recording.rebalance import RecordedOutput
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.task_assignors.base import TaskAssignor
from kafka_groups.recorder.offset_range import OffsetRange, reported_sums
from rebalance_analysis.compare import compare_rebalance

_LONGEST_WALK = 5000
_STUCK_AFTER = 60


@dataclass(frozen=True, slots=True)
class PolledViews:
    """The cluster around a rebalance. `since`: polls after all members had joined, the last of them after the
    rebalance, never empty. `before`: the last poll before that, None without one. `may_create`: no fact shows that
    internal topics existed before, so the rebalance may have created them all.
    """

    since: tuple[ClusterView, ...]
    before: ClusterView | None = None
    may_create: bool = False

    @property
    def after(self) -> ClusterView:
        return self.since[-1]


@dataclass(frozen=True, slots=True)
class LeaderView:
    """`words`: names the view if it is not the first poll, empty for that poll. `differences`: between our result on
    this view and the leader's, empty when they are equal.
    """

    view: ClusterView
    words: str = ""
    differences: tuple[str, ...] = ()


def leader_view(
    snapshot: RebalanceSnapshot,
    now_ms: int,
    output: RecordedOutput,
    views: PolledViews,
    time_is_left: Callable[[], bool],
    task_assignor: TaskAssignor | None = None,
) -> LeaderView:
    """Try the polled views themselves, then views between them while `time_is_left`. `snapshot`: without a view."""

    def tried(view: ClusterView, words: str) -> LeaderView:
        if snapshot.configs.rack_aware and view.created_internal_topics is None:
            view = view.with_created(created_topics_of(view, views.after), views.after)
        try:
            result = assign(snapshot.seen(view), now_ms, task_assignor)
            return LeaderView(view, words, compare_rebalance(result, output).differences)
        except AssignorFault as fault:
            return LeaderView(view, words, (str(fault),))

    first: LeaderView | None = None
    seen: list[ClusterView] = []
    for view, words in _polled_views(views):
        if view in seen:
            continue
        seen.append(view)
        found = tried(view, words)
        if not found.differences:
            return found
        first = first or found
        if not time_is_left():
            break
    assert first is not None, "there is always the look after the rebalance"
    for base, words in _topic_variants(views.after, views):
        between = OffsetRange(snapshot, views.before, (*views.since[:-1], base))
        draw = random.Random(",".join(snapshot.members))  # noqa: S311 (drawn to be repeated, not to be secret)
        walked = _walked(between, words, tried, draw, time_is_left)
        if walked is not None:
            return walked
    for base, words in _topic_variants(views.after, views):
        found = tried(
            _without_offsets(base), _joined(words, "no end offsets: the leader's own look-up must have failed")
        )
        if not found.differences:
            return found
    return first


def created_topics_of(view: ClusterView, after: ClusterView) -> frozenset[str]:
    """Internal topics that the rebalance created when `view` is what its leader saw."""
    return frozenset(after.existing_internal_topics.keys() - view.existing_internal_topics.keys())


def has_state(snapshot: RebalanceSnapshot) -> bool:
    """Whether any member reports a task, so that changelogs must have existed before. Raises DecodeError."""
    return bool(reported_sums(snapshot))


def _polled_views(views: PolledViews) -> Iterator[tuple[ClusterView, str]]:
    for number, polled in enumerate(views.since):
        for view, words in _topic_variants(polled, views):
            yield view, _joined(words, "" if number == 0 else "a later look")
    before = views.before
    if before is not None:
        offsets = before if before.changelog_end_offsets is not None else views.after
        for view, words in _topic_variants(views.after, views):
            yield _with_offsets_of(view, offsets), _joined(words, "offsets of the look before the rebalance")
        yield replace(before, changelog_end_offsets=offsets.changelog_end_offsets), "the look before the rebalance"


def _topic_variants(polled: ClusterView, views: PolledViews) -> Iterator[tuple[ClusterView, str]]:
    """`polled` with the internal topics that existed before the rebalance, as far as known."""
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
    words: str,
    tried: Callable[[ClusterView, str], LeaderView],
    draw: random.Random,
    time_is_left: Callable[[], bool],
) -> LeaderView | None:
    """Try one point in time after another, then vary some tasks at a time, starting from the best of them."""
    if not between.is_open:
        return None
    words = _joined(words, f"offsets between {between.words}")
    starts: list[tuple[int, int, dict[int, int]]] = []
    for number, sums in enumerate(between.instants()):
        if not time_is_left():
            return None
        found = tried(between.view(sums), words)
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
        found = tried(between.view(sums), words)
        if not found.differences:
            return found
        stuck = 0 if len(found.differences) < fewest else stuck + 1
        if len(found.differences) <= fewest:
            fewest, current = len(found.differences), sums
        if stuck > _STUCK_AFTER:
            start, stuck = (start + 1) % len(starts), 0
            fewest, _, current = starts[start]
    return None


def _without(view: ClusterView, topics: object) -> ClusterView:
    gone = frozenset(topics)  # type: ignore[call-overload]
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


def _without_offsets(view: ClusterView) -> ClusterView:
    return replace(view, changelog_end_offsets=None, failures=view.failures | {END_OFFSETS_FAILURE})


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)
