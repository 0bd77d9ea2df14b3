"""The metadata watch of one group: looks at the group's cluster now and then, and tells the group its topics.

Rules: only a stable group whose last rebalance looked at a cluster is watched, since a rebalance looks for itself and a
group without members needs no rebalance. The watch looks every `cluster.metadata.max.age.ms`, and at least every five
seconds while something is wrong: a rebalance failed, the cluster does not answer, or a topic is gone. A topic counts as
gone when two looks in a row do not find it. A look that fails is tried again; it never ends the watch.
Source: `Metadata.metadataExpireMs`, `ConsumerCoordinator.onJoinPrepare` for what it leads to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from coordinator_api.clusters.standing import ClusterStanding
from coordinator_api.group.image import GroupImage
from coordinator_api.group.states import GroupState, RebalanceOutcome
from coordinator_api.groups.rebalance_runner import RebalanceRunner
from coordinator_api.telemetry import GroupTelemetry

LONGEST_RETRY_MS = 5_000

TellTopics = Callable[[Mapping[str, int]], Awaitable[object]]
"""Hands the topics to the group. Raises StoreError when what follows from them could not be committed."""


class ClusterWatch:
    """The watch of one group. Call `follow` after every event."""

    def __init__(
        self,
        runner: RebalanceRunner,
        standing: ClusterStanding,
        telemetry: GroupTelemetry,
        max_age_ms: int,
        tell: TellTopics,
    ) -> None:
        self._runner = runner
        self._standing = standing
        self._telemetry = telemetry
        self._max_age_ms = max_age_ms
        self._tell = tell
        self._image = GroupImage()
        self._missed: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None

    @property
    def retry_ms(self) -> int:
        """How long to wait for the next look while something is wrong."""
        return min(self._max_age_ms, LONGEST_RETRY_MS)

    @property
    def is_looking(self) -> bool:
        return self._task is not None

    def follow(self, image: GroupImage) -> None:
        """Watch, or stop watching, as the state of the group requires."""
        self._image = image
        if not _is_watched(image):
            self.stop()
        elif self._task is None:
            self._missed = frozenset()
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._delay_ms() / 1000)
            await self._look()

    def _delay_ms(self) -> int:
        last = self._image.last_rebalance
        failed = last is not None and last.end.outcome is RebalanceOutcome.ERROR
        wrong = failed or self._missed or self._standing.error is not None
        return self.retry_ms if wrong else self._max_age_ms

    async def _look(self) -> None:
        image = self._image
        assert image.input_json is not None, "only declared groups have rebalances"
        try:
            topics = await self._runner.topics(image.revision, image.input_json)
        except Exception as error:  # whatever a provider raises: the watch goes on
            self._standing.failed(error)
            return
        self._standing.answered()
        if image is not self._image:
            return
        try:
            await self._tell(self._without_single_misses(image, topics))
        except Exception as error:  # the store did not answer: the next look tells the group again
            self._telemetry.topics_not_told(error)

    def _without_single_misses(self, image: GroupImage, topics: Mapping[str, int]) -> Mapping[str, int]:
        """Without the topics that only this look did not find."""
        before = image.last_rebalance.basis.topics if image.last_rebalance is not None else {}
        gone = frozenset(topic for topic, partitions in topics.items() if not partitions and before.get(topic))
        missed_once, self._missed = gone - self._missed, gone
        return {topic: partitions for topic, partitions in topics.items() if topic not in missed_once}


def _is_watched(image: GroupImage) -> bool:
    last = image.last_rebalance
    return image.state is GroupState.STABLE and last is not None and bool(last.basis.topics)
