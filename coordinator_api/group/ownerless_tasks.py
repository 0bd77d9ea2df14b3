"""Which tasks of a group nobody runs, and since when: what "time without owner" counts, worked out from the group's
records.

A task's owner is the member that the last rebalance gave its active copy to, as long as it is in the group and not
away. So a task is without one after its owner has been removed or has left to come back, while a follow-up rebalance
holds it back until its owner has given it up, and after a rebalance that failed. A member that has died counts as an
owner until it is removed.

Known limits: a group that is read from the store anew knows only the tasks that its members have been given. Of a group
that is led elsewhere nothing is known between two reports, so it counts none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from assignor.protocol.shared_assignments import AssignmentParts
from assignor.types import TaskId
from coordinator_api.group.image import GroupImage
from coordinator_api.group.records import (
    CoordinatorRecord,
    GroupDeleted,
    GroupEmptied,
    MemberAway,
    MemberRemoved,
    MemberReplaced,
    MemberSubscribed,
    RebalanceCompleted,
)
from coordinator_api.group.states import GroupState, RebalanceOutcome, RemovalReason
from coordinator_api.group.subscriptions import assigned_tasks

_WENT_BY_THEMSELVES = (RemovalReason.LEFT, RemovalReason.GRACE_ENDED)
_HELD_BACK = (RebalanceOutcome.FOLLOW_UP, RebalanceOutcome.SETTLED, RebalanceOutcome.ERROR)
"""After any other outcome every task has an owner."""


class OwnerlessTasks:
    """Of one group. No two of its methods may run at once."""

    def __init__(self, image: GroupImage, now_ms: int) -> None:
        """`image`: the group as it stands."""
        self._given: dict[str, AssignmentParts] = {}
        self._away: set[str] = set()
        self._since_ms: Mapping[TaskId, int] = {}
        self._went_by_itself = True
        self._counted_until_ms = now_ms
        self.read_again(image, now_ms)

    @property
    def without_owner_since_ms(self) -> Mapping[TaskId, int]:
        """The tasks that nobody runs. A change makes another mapping."""
        return self._since_ms

    def read_again(self, image: GroupImage, now_ms: int) -> None:
        """The group was read from the store. A task that nobody ran may have an owner since, when it is Stable."""
        last = image.last_rebalance
        if image.led_by is not None or (
            image.state is GroupState.STABLE and last is not None and last.end.outcome not in _HELD_BACK
        ):
            self._since_ms = {}
        members = () if image.led_by is not None else tuple(image.members.values())
        given = ((member.member_id, member.last_assignment.assignment) for member in members)
        self._given = {member_id: assignment for member_id, assignment in given if assignment is not None}
        self._away = {member.member_id for member in members if member.is_away}
        self._lose(self._tasks(self._away), now_ms)

    def passed_ms(self, now_ms: int) -> int:
        """The time that has passed since the last call, once for each task that nobody ran in it."""
        passed = len(self._since_ms) * max(now_ms - self._counted_until_ms, 0)
        self._counted_until_ms = max(now_ms, self._counted_until_ms)
        return passed

    def take(self, record: CoordinatorRecord, at_ms: int) -> None:
        """A record was committed at `at_ms`."""
        match record:
            case MemberRemoved(member_id, reason):
                self._went_by_itself = reason in _WENT_BY_THEMSELVES
                self._lose(self._tasks((member_id,)), at_ms)
                self._given.pop(member_id, None)
                self._away.discard(member_id)
            case MemberAway(member_id):
                self._lose(self._tasks((member_id,)), at_ms)
                self._away.add(member_id)
            case MemberSubscribed(member_id) if member_id in self._away:
                self._come_back(member_id)
            case MemberReplaced(_, old_member_id, new_member_id):
                self._come_back(old_member_id)
                if old_member_id in self._given:
                    self._given[new_member_id] = self._given.pop(old_member_id)
            case RebalanceCompleted():
                self._completed(record, at_ms)
            case GroupEmptied() if self._went_by_itself:
                self._since_ms = {}  # the application was stopped
            case GroupDeleted():
                self._since_ms = {}
            case _:
                pass

    def _completed(self, record: RebalanceCompleted, at_ms: int) -> None:
        before = self._given
        self._given = dict(record.assignments.parts)
        self._away &= self._given.keys()
        if record.end.outcome not in _HELD_BACK:
            self._since_ms = {}
        else:
            known = {task for each in before.values() for task in assigned_tasks(each).active} | self._since_ms.keys()
            owned = {task for each in self._given.values() for task in assigned_tasks(each).active}
            self._since_ms = {task: self._since_ms.get(task, at_ms) for task in known - owned}
        self._lose(self._tasks(self._away), at_ms)

    def _come_back(self, member_id: str) -> None:
        if member_id in self._away:
            self._away.discard(member_id)
            back = set(self._tasks((member_id,)))
            self._since_ms = {task: since for task, since in self._since_ms.items() if task not in back}

    def _lose(self, tasks: Iterable[TaskId], at_ms: int) -> None:
        lost = dict.fromkeys(tasks, at_ms)
        if lost:
            self._since_ms = {**lost, **self._since_ms}

    def _tasks(self, member_ids: Iterable[str]) -> list[TaskId]:
        given = (self._given.get(member_id) for member_id in member_ids)
        return [task for each in given if each is not None for task in assigned_tasks(each).active]


def takes_long(record: CoordinatorRecord) -> bool:
    """Whether `take` reads the assignments of all members for it."""
    return isinstance(record, RebalanceCompleted) and record.end.outcome in _HELD_BACK
