"""Looks whether the warm-ups of a group have caught up, and tells the group once all of them have.

Rules: it looks about once a second, and only while the group waits for that (`group.promotion`). How far a warm-up has
come is what its member's heartbeats report. The ends of the changelogs are those of the definition, or of the cluster
that it names. A lag that is not known is not caught up, and a look that fails is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from assignor.clients.task_lags import is_caught_up
from assignor.snapshot import RebalanceSnapshot
from assignor.types import TaskId
from coordinator_api.clusters.standing import ClusterStanding
from coordinator_api.group.image import GroupImage
from coordinator_api.group.rebalancing import awaits_warm_ups
from coordinator_api.groups.changelogs import Changelogs
from coordinator_api.groups.rebalance_runner import RebalanceRunner
from coordinator_api.store.errors import StoreError

LOOK_EVERY_S = 1.0

OffsetSums = Callable[[], Mapping[str, Mapping[TaskId, int]]]
"""By member: the offset sums that its last heartbeat reported."""

TellGroup = Callable[[int], Awaitable[object]]
"""Tells the group that all warm-ups of a generation have caught up. Raises StoreError."""


class WarmUpWatch:
    """The watch of one group. Call `follow` after every event."""

    def __init__(
        self, runner: RebalanceRunner, standing: ClusterStanding, offset_sums: OffsetSums, tell: TellGroup
    ) -> None:
        self._runner = runner
        self._standing = standing
        self._offset_sums = offset_sums
        self._tell = tell
        self._image = GroupImage()
        self._task: asyncio.Task[None] | None = None

    def follow(self, image: GroupImage) -> None:
        """Watch, or stop watching, as the state of the group requires."""
        self._image = image
        if not awaits_warm_ups(image):
            self.stop()
        elif self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look()

    async def _look(self) -> None:
        image = self._image
        assert image.input_json is not None, "only declared groups have rebalances"
        sums = self._offset_sums()
        if not _all_report(image, sums):
            return  # nothing is asked of the cluster before that
        try:
            snapshot = await self._runner.seen_now(image.revision, image.input_json)
        except Exception as error:  # whatever a provider raises: the watch goes on
            self._standing.failed(error)
            return
        caught_up = await asyncio.to_thread(all_caught_up, image, sums, snapshot)
        if caught_up and image is self._image:
            with suppress(StoreError):  # the next look tells the group again
                await self._tell(image.generation_id)


def all_caught_up(image: GroupImage, sums: Mapping[str, Mapping[TaskId, int]], definition: RebalanceSnapshot) -> bool:
    """`sums`: as reported. `definition`: with the cluster as it looks now."""
    changelogs = Changelogs(definition)
    acceptable = definition.configs.acceptable_recovery_lag
    return all(
        is_caught_up(lag, acceptable)
        for member in image.members.values()
        if member.last_assignment.warm_ups
        for lag, _ in changelogs.looked(member.last_assignment.warm_ups, sums.get(member.member_id, {})).values()
    )


def _all_report(image: GroupImage, sums: Mapping[str, Mapping[TaskId, int]]) -> bool:
    return all(
        task in sums.get(member_id, {})
        for member_id, member in image.members.items()
        for task in member.last_assignment.warm_ups
    )
