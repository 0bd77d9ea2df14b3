"""Records one group: makes the line of a generation from its record and from polls of the cluster.

The topology is determined again for each generation, for two reasons. Internal topics appear with the first generation,
and each generation may show more tasks. The recorder prints its assumptions about the topology again only when they
change.

`ClusterPolls` polls the cluster periodically. The recorder needs a view of the cluster from just before a rebalance,
but learns of the rebalance only afterwards. The leader read the cluster after all members had joined, and before the
record of the generation was written. So the leader's view lies between a poll before this time and a poll after it.
While the topology is unknown, a poll lists only the topics. If a poll fails, the recorder has no view of that time and
polls again later.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assignor.errors import InputError
from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.cluster import Cluster
from kafka_client.admin.cluster_admin import ClusterAdmin
from kafka_client.cluster_provider import cluster_view
from kafka_client.errors import KafkaClientError
from kafka_client.offsets_topic import GroupRecord
from kafka_groups.described.described_topology import DescribedTopology
from kafka_groups.recorder.choices import GroupChoices, ShownTasks
from kafka_groups.recorder.generations import GroupGenerations, LastSeen, NotStreams
from kafka_groups.recorder.leader_view import LeaderView, PolledViews, created_topics_of, leader_view, reported_sums
from kafka_groups.recorder.rebalance_line import (
    DecodedRebalance,
    LineComparison,
    decoded_rebalance,
    interrupted_documents,
    recorded_document,
    recorded_output,
    snapshot_of,
)

OFFSETS_TIMEOUT_S = 10.0
_KEPT = 64
_WHILE_JOINING_S = 0.05
_JOINING, _PLACING = "PreparingRebalance", "CompletingRebalance"
_QUICK_POLLS_WHILE_PLACING = 10
# a short time-out does no harm: if the state of the group is unknown, polls are only less frequent
_STATE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class _Poll:
    """One poll of the cluster. `at`: the time at which the poll ended. `topics_asked`: the internal topics that the
    poll requested; None if it listed all topics of the cluster. `internal`: the names of the requested topics that
    existed. `view`: the view of the cluster; None if the poll listed only topic names.
    """

    at: float
    topics_asked: frozenset[str] | None
    internal: frozenset[str]
    view: ClusterView | None


@dataclass(slots=True)
class ClusterPolls:
    """Polls the cluster for one group, and keeps the last polls. `definition`: a function that returns the definition
    of the group; the function returns None while the topology is unknown. All times of polls are values of
    `time.monotonic`.
    """

    admin: ClusterAdmin
    group: str
    definition: Callable[[], Awaitable[RebalanceSnapshot | None]]
    interval_s: float
    _polls: deque[_Poll] = field(default_factory=lambda: deque(maxlen=_KEPT))

    async def run(self) -> None:
        """Polls until this call is cancelled. Polls more often while members join. While the group waits for the
        leader's assignments, the first few polls are also more frequent.
        """
        quick_polls = 0
        while True:
            state = ""
            # the asyncio task that reads records reports these errors
            with contextlib.suppress(KafkaClientError, TimeoutError):
                definition = await self.definition()
                if definition is None:
                    topics = frozenset(await self.admin.topics())
                    self.add(time.monotonic(), topics)
                else:
                    await self.poll(definition)
                async with asyncio.timeout(_STATE_TIMEOUT_S):
                    state = (await self.admin.describe_group(self.group)).state
            quick_polls = quick_polls + 1 if state == _PLACING else 0
            is_quick = state == _JOINING or 0 < quick_polls <= _QUICK_POLLS_WHILE_PLACING
            await asyncio.sleep(min(_WHILE_JOINING_S, self.interval_s) if is_quick else self.interval_s)

    def add(self, at: float, topics: frozenset[str]) -> None:
        """Adds a poll that listed only the topic names of the cluster. `at`: the time at which the poll ended."""
        self._polls.append(_Poll(at, None, topics, None))

    async def poll(self, definition: RebalanceSnapshot) -> ClusterView:
        """Polls once. Raises KafkaUnavailable, KafkaRefused."""
        view = await cluster_view(self.admin, definition, offsets_timeout_s=OFFSETS_TIMEOUT_S)
        topics_asked = frozenset(definition.topology.internal_topics)
        self._polls.append(_Poll(time.monotonic(), topics_asked, frozenset(view.existing_internal_topics), view))
        return view

    def before(self, at: float, definition: RebalanceSnapshot, after: ClusterView) -> ClusterView | None:
        """Returns the view of the last poll that ended at or before the time `at`; None if there is no such poll.
        `after`: a later view. If the poll listed only topic names, the details of the topics come from the later view.
        """
        earlier = [poll for poll in self._usable(definition) if poll.at <= at]
        if not earlier:
            return None
        poll = earlier[-1]
        if poll.view is not None:
            return poll.view
        existing = {name: topic for name, topic in after.existing_internal_topics.items() if name in poll.internal}
        return ClusterView(after.cluster, existing)

    def since(self, at: float, definition: RebalanceSnapshot) -> tuple[ClusterView, ...]:
        """Returns the views of polls that ended after the time `at`, oldest first."""
        return tuple(poll.view for poll in self._usable(definition) if poll.at > at and poll.view is not None)

    def _usable(self, definition: RebalanceSnapshot) -> list[_Poll]:
        needed = definition.topology.internal_topics
        return [poll for poll in self._polls if poll.topics_asked is None or needed <= poll.topics_asked]


Report = Callable[[str], None]

_LONGEST_SEARCH_S = 20.0
_LONGEST_SEARCH_AFTER_NONE_S = 1.0
_LATE_MS = 2000
_CLOCK_MARGIN_S = 0.05


@dataclass(frozen=True, slots=True)
class ReadRebalance:
    """A generation whose record was read. `read_at`: the value of `time.monotonic` when the record was read. `read_ms`:
    the time when the record was read, in milliseconds since 1970.

    `is_history`: True if the record was written before the recorder started.
    """

    decoded: DecodedRebalance
    read_at: float
    read_ms: int
    is_history: bool


@dataclass(frozen=True, slots=True)
class PolledRebalance:
    """A generation, with views of the cluster from before and after its rebalance. `polled_ms`: the time at which the
    poll after the rebalance ended.
    """

    read: ReadRebalance
    definition: RebalanceSnapshot
    views: PolledViews
    polled_ms: int


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """The line of a rebalance. `summary`: one sentence with the moved tasks and the cause of the rebalance.
    `interrupted`: the lines of generations that never got an assignment and came directly before this generation.
    """

    document: Mapping[str, object]
    interrupted: tuple[Mapping[str, object], ...]
    differences: tuple[str, ...]
    summary: str


class GroupRecorder:
    """Records the rebalances of one group. `write_from`: the offset from which records get a line. Records with lower
    offsets are read only to learn the tasks of the group.
    """

    def __init__(
        self, choices: GroupChoices, admin: ClusterAdmin, seen: LastSeen | None, poll_interval_s: float, report: Report
    ) -> None:
        self.group = choices.group
        self.generations = GroupGenerations(choices.group, seen)
        self.write_from = 0
        self._choices = choices
        self._admin = admin
        self._report = report
        self._longest_search_s = _LONGEST_SEARCH_S
        self._shown = ShownTasks()
        self._comparison = LineComparison(choices.task_assignor)
        self._topology: DescribedTopology | None = None
        self._reported_assumptions: tuple[str, ...] = ()
        self.polls = ClusterPolls(admin, choices.group, self._definition, poll_interval_s)

    def show(self, decoded: DecodedRebalance) -> None:
        """Reads the group's tasks from a generation that gets no line. Raises DecodeError."""
        self._shown.add(decoded.members)

    def show_again(self, record: GroupRecord) -> None:
        """Reads the group's tasks from a record whose line was written in an earlier run. Raises DecodeError."""
        with contextlib.suppress(NotStreams):
            rebalance = GroupGenerations(self.group).take(record)
            if rebalance is not None:
                self.show(decoded_rebalance(rebalance))

    async def poll(self, read: ReadRebalance) -> PolledRebalance:
        """Reads the state of the cluster for this rebalance. Call this method as soon as the record of the rebalance
        has been read. Raises DecodeError if a member cannot be decoded. Raises InputError if the topology does not fit
        the group. Raises KafkaClientError if the cluster does not answer.
        """
        decoded = read.decoded
        is_first = not self._shown.assigned
        self._shown.add(decoded.members)
        definition = self._definition_for(decoded, await self._partition_counts())
        after = await self.polls.poll(definition)
        polled_ms = int(time.time() * 1000)
        may_create = is_first and not reported_sums(snapshot_of(decoded, definition))  # no member has a task yet
        if read.is_history:
            return PolledRebalance(read, definition, PolledViews((after,), None, may_create), polled_ms)
        joined_at = _joined_at(read)
        before = self.polls.before(joined_at, definition, after)
        since = self.polls.since(joined_at, definition) or (after,)
        return PolledRebalance(read, definition, PolledViews(since, before, may_create), polled_ms)

    def line(self, polled: PolledRebalance) -> RecordedLine:
        """Makes the line of a rebalance. Call this method in a thread, because the search for the leader's view may
        take 20 s.
        """
        decoded, views = polled.read.decoded, polled.views
        snapshot = snapshot_of(decoded, polled.definition)
        now_ms = decoded.now_ms(self._choices.configs)
        internal = {name: topic.partitions for name, topic in views.after.existing_internal_topics.items()}
        chosen = LeaderView(views.since[0])
        if decoded.led_by is None:
            output = recorded_output(decoded, internal, None)
            time_is_left = _seconds(self._longest_search_s)
            chosen = leader_view(snapshot, now_ms, output, views, time_is_left, self._choices.task_assignor)
            # If no view explains the result, the configs are probably wrong, and the next search would also fail. So
            # the next search gets less time.
            self._longest_search_s = _LONGEST_SEARCH_AFTER_NONE_S if chosen.differences else _LONGEST_SEARCH_S
        created = created_topics_of(chosen.view, views.after) if views.before is not None else None
        view = chosen.view
        if self._choices.configs.rack_aware and created is not None and view.created_internal_topics is None:
            view = view.with_created(created, views.after)
        output = recorded_output(decoded, internal, created)
        document = recorded_document(decoded, snapshot.seen(view), output, now_ms, self._note(polled, chosen))
        summary = self._comparison.compare_with_last(document)
        if summary.why:
            document = {**document, "note": f"{summary.why}; {document['note']}"}
        interrupted = () if polled.read.is_history else tuple(interrupted_documents(decoded.rebalance, document))
        return RecordedLine(document, interrupted, chosen.differences, summary.text())

    async def _definition(self) -> RebalanceSnapshot | None:
        """Returns the definition of the group; None while the topology is unknown."""
        if self._topology is None and (self._shown.assigned or self._choices.topology.file is not None):
            with contextlib.suppress(InputError):
                self._topology = self._determined(await self._partition_counts())
        return None if self._topology is None else self._with(self._topology)

    async def _partition_counts(self) -> dict[str, int]:
        return {name: topic.partitions for name, topic in (await self._admin.topics()).items()}

    def _definition_for(self, decoded: DecodedRebalance, counts: Mapping[str, int]) -> RebalanceSnapshot:
        try:
            self._topology = self._determined(counts)
        except InputError:
            self._shown.forget()  # the application may have changed: use only the tasks of this generation
            self._shown.add(decoded.members)
            self._topology = self._determined(counts)
        assumptions = (f"topology: {self._choices.topology.origin}", *self._topology.assumptions)
        if assumptions != self._reported_assumptions:
            for text in assumptions:
                if text not in self._reported_assumptions:
                    self._report(f"{self.group}: {text}")
            self._reported_assumptions = assumptions
        return self._with(self._topology)

    def _determined(self, counts: Mapping[str, int]) -> DescribedTopology:
        return self._choices.topology.topology(self.group, self._shown, counts)

    def _with(self, described: DescribedTopology) -> RebalanceSnapshot:
        return RebalanceSnapshot(
            assignor=self._choices.assignor,
            configs=self._choices.configs,
            application_id=self.group,
            topology=described.topology,
            cluster=Cluster((), {}),
            members={},
        )

    def _note(self, polled: PolledRebalance, chosen: LeaderView) -> str:
        written_ms = polled.read.decoded.rebalance.written_ms
        late_ms = max(polled.polled_ms - written_ms, 0)
        parts = [f"topology: {self._choices.topology.origin}"]
        if polled.read.is_history:
            parts.append(f"history: topics and offsets are those of {_utc(polled.polled_ms)}, not of the rebalance")
        elif late_ms > _LATE_MS:
            parts.append(f"topics and offsets were looked up {late_ms / 1000:.0f} s after the rebalance")
        if polled.views.before is None and not polled.read.is_history:
            parts.append("there was no look at the cluster before the rebalance")
        if chosen.description:
            parts.append(f"taken because the leader's result follows from it: {chosen.description}")
        if polled.read.decoded.has_future_members:
            parts.append("members of a future version: the id that their leader gave them is unknown")
        if chosen.differences:
            parts.append(f"not what Kafka gives on this input: {chosen.differences[0]}")
        return "; ".join(parts)


def _joined_at(read: ReadRebalance) -> float:
    """Returns the time at which the leader began to compute the assignments, as a value of `time.monotonic`. All
    members had joined by then.
    """
    rebalance = read.decoded.rebalance
    began_ms = rebalance.value.state_timestamp_ms
    took_ms = 0 if began_ms is None else max(rebalance.written_ms - began_ms, 0)
    # `late_ms` is 0 if the broker's clock is ahead of the recorder's clock
    late_ms = max(read.read_ms - rebalance.written_ms, 0)
    return read.read_at - (took_ms + late_ms) / 1000 - _CLOCK_MARGIN_S


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _seconds(seconds: float) -> Callable[[], bool]:
    """Returns a function that returns True until the given number of seconds has passed."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until
