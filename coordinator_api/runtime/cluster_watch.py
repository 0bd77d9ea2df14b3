"""Runs two watches for a stable group. `ClusterWatch` finds changed topics. `WarmUpWatch` finds out when all warm-ups
have caught up.

`ClusterWatch` polls the cluster of a stable group if the last rebalance polled this cluster. In other states, no watch
is needed. A rebalance itself polls the cluster, and an empty group needs no rebalance. The interval between two polls
is `cluster.metadata.max.age.ms`. After a failed rebalance or a failed poll, the interval is at most five seconds. If a
poll does not find a topic of the last rebalance, the next interval is at most five seconds. A topic counts as deleted
if two polls in a row do not find the topic. A failed poll does not end the watch. If a topic matches two source
patterns, no rebalance starts, because it would fail and end the application: the group keeps its last assignment.
Source: `Metadata.metadataExpireMs`; `ConsumerCoordinator.onJoinPrepare` for the rebalance after a change.

`WarmUpWatch` polls about once a second, and only while the group waits for its warm-ups
(`group.rebalancing.awaits_warm_ups`). The heartbeats of members report the offsets of their warm-ups. The end offsets
of the changelogs come from the definition, or from the cluster that the definition names. If the lag of a warm-up is
unknown, the warm-up does not count as caught up. A poll that fails is repeated.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from assignor.clients.client_state import EndOffsets, compute_task_lags, end_offset_sums, is_caught_up
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.group_topology import changelog_configs
from assignor.types import TaskId
from coordinator_api.group.events import Event, TopicsSeen, WarmUpsCaughtUp
from coordinator_api.group.image import GroupImage
from coordinator_api.group.rebalancing import awaits_warm_ups
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.runtime.clusters import ClusterStanding
from coordinator_api.runtime.durable_group import DurableGroup
from coordinator_api.runtime.rebalance_runner import RebalanceRunner
from coordinator_api.runtime.telemetry import GroupTelemetry
from coordinator_api.store.store_errors import StoreError

LONGEST_RETRY_MS = 5_000

WARM_UP_POLL_INTERVAL_S = 1.0

HandIn = Callable[[Event], Awaitable[object]]
"""A function that passes an event to the group. The function raises StoreError if the records of the event could not be
committed.
"""


@dataclass(eq=False)
class RepeatedWatch(ABC):
    """Polls repeatedly while `_is_needed` returns True. Call `follow` after each event if the group is Stable now or
    was Stable before the event. `hand_in`: a function that is called with an event. The event contains the result of a
    poll.
    """

    _runner: RebalanceRunner
    _standing: ClusterStanding
    _durable: DurableGroup
    _hand_in: HandIn
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def is_polling(self) -> bool:
        return self._task is not None

    def follow(self) -> None:
        """Start or stop the watch, as the committed state of the group requires."""
        if not self._is_needed(self._durable.image):
            self.stop()
        elif self._task is None:
            self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._delay_s())
            image = self._durable.image
            if self._is_needed(image):
                await self._poll(image)

    @abstractmethod
    def _is_needed(self, image: GroupImage) -> bool: ...

    @abstractmethod
    def _delay_s(self) -> float:
        """Returns the seconds until the next poll."""

    @abstractmethod
    async def _poll(self, image: GroupImage) -> None:
        """Polls once. Never raises."""


@dataclass(eq=False)
class ClusterWatch(RepeatedWatch):
    """Polls the cluster for changed topics."""

    _telemetry: GroupTelemetry
    _max_age_ms: int
    _missed: frozenset[str] = field(default=frozenset(), init=False)

    @property
    def retry_ms(self) -> int:
        """The time to wait for the next poll after a failed poll."""
        return min(self._max_age_ms, LONGEST_RETRY_MS)

    def stop(self) -> None:
        super().stop()
        self._missed = frozenset()
        self._standing.topology_error = None

    def _is_needed(self, image: GroupImage) -> bool:
        last = image.last_rebalance
        return image.state is GroupState.STABLE and last is not None and last.basis.polled_cluster

    def _delay_s(self) -> float:
        last = self._durable.image.last_rebalance
        failed = last is not None and last.end.outcome is RebalanceOutcome.ERROR
        wrong = failed or self._missed or self._standing.error or self._standing.topology_error
        return (self.retry_ms if wrong else self._max_age_ms) / 1000

    async def _poll(self, image: GroupImage) -> None:
        assert image.input_json is not None, "only declared groups have rebalances"
        try:
            # a topic that matched a pattern at the last rebalance is not in the result after it was deleted
            before = dict.fromkeys(_last_topics(image), 0)
            topics = {**before, **await self._runner.topics(image.input_json)}
        except Exception as error:  # a provider may raise any error, and the watch continues
            self._standing.failed(error)
            return
        self._standing.answered()
        self._standing.topology_error = None
        if image is not self._durable.image:
            return
        try:
            await self._hand_in(TopicsSeen(self._without_single_misses(image, topics)))
        except Exception as error:  # for example, the store did not answer; the next poll repeats the event
            self._telemetry.logger.warning("topics_not_handed_in", error=str(error))

    def _without_single_misses(self, image: GroupImage, topics: Mapping[str, int]) -> Mapping[str, int]:
        """Returns `topics` without the topics that are missing for the first time. A topic counts as deleted only after
        two polls in a row did not find it.
        """
        before = _last_topics(image)
        gone = frozenset(topic for topic, partitions in topics.items() if not partitions and before.get(topic))
        missed_once, self._missed = gone - self._missed, gone
        return {topic: partitions for topic, partitions in topics.items() if topic not in missed_once}


def _last_topics(image: GroupImage) -> Mapping[str, int]:
    """Returns the topics of the last rebalance; empty if it had another definition."""
    last = image.last_rebalance
    return last.basis.topics if last is not None and last.definition_revision == image.revision else {}


class WarmUpWatch(RepeatedWatch):
    """Checks repeatedly whether all warm-ups have caught up. Sends the group a `WarmUpsCaughtUp` when all warm-ups have
    caught up.
    """

    def _is_needed(self, image: GroupImage) -> bool:
        return awaits_warm_ups(image)

    def _delay_s(self) -> float:
        return WARM_UP_POLL_INTERVAL_S

    async def _poll(self, image: GroupImage) -> None:
        assert image.input_json is not None, "only declared groups have rebalances"
        sums = self._durable.group.reported_offset_sums()
        if not all(
            task in sums.get(member_id, {})
            for member_id, member in image.members.items()
            for task in member.last_assignment.warm_ups
        ):
            # Some warm-up has no reported offset sum, so not all warm-ups have caught up. A poll of the cluster is not
            # needed.
            return
        try:
            snapshot = await self._runner.seen_now(image.input_json)
        except Exception as error:  # a provider may raise any error, and the watch continues
            self._standing.failed(error)
            return
        caught_up = await asyncio.to_thread(all_caught_up, image, sums, snapshot)
        if caught_up and image is self._durable.image:
            with suppress(StoreError):  # the next poll repeats the event
                await self._hand_in(WarmUpsCaughtUp(image.generation_id))


def all_caught_up(image: GroupImage, sums: Mapping[str, Mapping[TaskId, int]], definition: RebalanceSnapshot) -> bool:
    """Returns whether all warm-ups have caught up. `sums`: for each member, the reported offset sums of its tasks.
    `definition`: the group's definition with the present state of its cluster.
    """
    changelogs = Changelogs(definition)
    acceptable = definition.configs.acceptable_recovery_lag
    return all(
        is_caught_up(lag, acceptable)
        for member in image.members.values()
        if member.last_assignment.warm_ups
        for lag, _ in changelogs.lags_of(member.last_assignment.warm_ups, sums.get(member.member_id, {})).values()
    )


class Changelogs:
    """Computes lags from the end offsets of the definition's changelogs. A changelog that does not exist yet counts as
    empty, as in a rebalance.
    """

    def __init__(self, definition: RebalanceSnapshot) -> None:
        self._definition = definition
        self._changelogs = {each.id: [*changelog_configs(each)] for each in definition.topology.subtopologies}
        self._source_topics = frozenset(definition.topology.source_topics_as_changelogs)
        self._offsets = EndOffsets(definition.changelog_end_offsets, definition.committed_offsets, definition.failures)

    def lags_of(
        self, tasks: Sequence[TaskId], offset_sums: Mapping[TaskId, int]
    ) -> Mapping[TaskId, tuple[int, int | None]]:
        """Returns two numbers for each stateful task: the lag in records, and the sum of the end offsets of its
        changelogs. The lag of a running active task is LATEST_OFFSET (see `TaskLags`). The sum of the end offsets is
        None if it is unknown.
        """
        existing = self._definition.existing_internal_topics
        topics = {
            each: [topic for topic in logged if topic in existing or topic in self._source_topics]
            for each in {task.subtopology for task in tasks}
            if (logged := self._changelogs.get(each))
        }
        stateful = [task for task in tasks if task.subtopology in topics]
        ends = end_offset_sums(stateful, topics, self._source_topics, self._offsets)
        lags = compute_task_lags(offset_sums, ends.by_task)
        known = {task: end if end >= 0 else None for task, end in ends.by_task.items()}
        return {task: (lags.lag_for(task), known.get(task)) for task in stateful}
