"""What the leader of a rebalance saw of the cluster, concluded from looks around the rebalance and from its result.

Rules: the leader's view lies between the look before the rebalance and the look after it. Internal topics missing
before were created in the rebalance, and offsets only grow. The first look after all members had joined is preferred.
When this project's own leader decides differently on it, other views in between are tried. The first one on which it
decides as the group's leader did is taken, and the line names it. When there is none, the line keeps the first look and
says how the results differ. Pure, except for the time it takes.
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
class Looks:
    """The cluster around a rebalance. `since`: looks after all members had joined, the last of them after the
    rebalance, never empty. `before`: the last one before that, None when nobody looked then. `may_create`: nothing says
    that internal topics were there before, so the rebalance may have created them all.
    """

    since: tuple[ClusterView, ...]
    before: ClusterView | None = None
    may_create: bool = False

    @property
    def after(self) -> ClusterView:
        return self.since[-1]


@dataclass(frozen=True, slots=True)
class LeaderView:
    """`words`: what was taken instead of the first look, empty for that look. `differences`: between our result on this
    view and the leader's, empty when they are equal.
    """

    view: ClusterView
    words: str = ""
    differences: tuple[str, ...] = ()


def leader_view(
    snapshot: RebalanceSnapshot,
    now_ms: int,
    output: RecordedOutput,
    looks: Looks,
    time_is_left: Callable[[], bool],
    task_assignor: TaskAssignor | None = None,
) -> LeaderView:
    """Try the looks themselves, then views between them while `time_is_left`. `snapshot`: without a view."""

    def tried(view: ClusterView, words: str) -> LeaderView:
        if snapshot.configs.rack_aware and view.created_internal_topics is None:
            view = view.with_created(created_topics_of(view, looks.after), looks.after)
        try:
            result = assign(snapshot.seen(view), now_ms, task_assignor)
            return LeaderView(view, words, compare_rebalance(result, output).differences)
        except AssignorFault as fault:
            return LeaderView(view, words, (str(fault),))

    first: LeaderView | None = None
    seen: list[ClusterView] = []
    for view, words in _looks_themselves(looks):
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
    for base, words in _topic_variants(looks.after, looks):
        between = OffsetRange(snapshot, looks.before, (*looks.since[:-1], base))
        draw = random.Random(",".join(snapshot.members))  # noqa: S311 (drawn to be repeated, not to be secret)
        walked = _walked(between, words, tried, draw, time_is_left)
        if walked is not None:
            return walked
    for base, words in _topic_variants(looks.after, looks):
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


def _looks_themselves(looks: Looks) -> Iterator[tuple[ClusterView, str]]:
    for number, look in enumerate(looks.since):
        for view, words in _topic_variants(look, looks):
            yield view, _joined(words, "" if number == 0 else "a later look")
    before = looks.before
    if before is not None:
        offsets = before if before.changelog_end_offsets is not None else looks.after
        for view, words in _topic_variants(looks.after, looks):
            yield _with_offsets_of(view, offsets), _joined(words, "offsets of the look before the rebalance")
        yield replace(before, changelog_end_offsets=offsets.changelog_end_offsets), "the look before the rebalance"


def _topic_variants(look: ClusterView, looks: Looks) -> Iterator[tuple[ClusterView, str]]:
    """`look` with the internal topics that existed before the rebalance, as far as known."""
    if looks.before is not None:
        created = looks.after.existing_internal_topics.keys() - looks.before.existing_internal_topics.keys()
        yield _without(look, created), ""
        if created:
            yield look, "internal topics as existing before"
    elif looks.may_create:
        yield _without(look, look.existing_internal_topics.keys()), "internal topics as created in this rebalance"
        yield look, "internal topics as existing before"
    else:
        yield look, ""


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
