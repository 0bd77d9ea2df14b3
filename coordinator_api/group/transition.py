"""The handling of one event: handlers emit records one by one, and each decision sees the state after the last record.

This never touches the durable state of the group: the same records lead the group to the same images once they are
committed. The images are kept until then, because that of a new assignment for thousands of members takes tens of
milliseconds to make. Notes about liveness go to the group's own `Liveness` at once (see there). To
tell the caller when to come back, the records are also applied to a copy of it.
"""

from __future__ import annotations

from coordinator_api.group.image import GroupImage
from coordinator_api.group.limits import GroupLimits
from coordinator_api.group.liveness import InitialDelay, Liveness, RejoinTimeout
from coordinator_api.group.outcome import Outcome, Response
from coordinator_api.group.records import CoordinatorRecord


class GroupTransition:
    """`image`: the state after the records so far. `liveness`: the group's own, for notes."""

    def __init__(self, limits: GroupLimits, image: GroupImage, liveness: Liveness, now_ms: int) -> None:
        self.limits = limits
        self.image = image
        self.liveness = liveness
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.images: list[GroupImage] = []
        """The one after each record."""
        self._preview: Liveness | None = None

    def emit(self, record: CoordinatorRecord) -> None:
        """Add a record. Handlers make their notes about liveness before the first one."""
        before = self.image
        self.image = record.apply(before)
        if self._preview is None:
            self._preview = self.liveness.copy()
        self._preview.applied(record, before, self.image, self.now_ms)
        self.records.append(record)
        self.images.append(self.image)

    def wait(self, timer: InitialDelay | RejoinTimeout) -> None:
        """Note that the rebalance that is being prepared waits for joins until `timer`."""
        self.liveness.join_timer = timer
        if self._preview is not None:
            self._preview.join_timer = timer

    def outcome(self, response: Response) -> Outcome:
        """What was decided, without effects."""
        liveness = self._preview or self.liveness
        return Outcome(tuple(self.records), response, next_timer_ms=liveness.next_timer_ms(self.image))
