"""A member as the protocol wants it: one thread, one request at a time, tasks held until an assignment takes them away.

It rejoins with what it really runs, asks again with the same bytes (a first join under the same `join_id`) when an
answer did not come, and drops everything when it hears that it is not a member any more. It is a process of its own,
with one connection, and sends heartbeats either as a member or as a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from assignor.types import TaskId
from coordinator_api.group.events import FetchAssignment, Heartbeat, Join, ProcessHeartbeat
from coordinator_api.group.outcome import (
    AssignmentPending,
    AssignmentReady,
    HeartbeatAnswered,
    JoinAnswered,
    ProcessHeartbeatAnswered,
    Rejected,
    Response,
)
from coordinator_api.group.states import RejectionCode
from tests.coordinator_api.group.member_bytes import MemberState, assigned, subscription
from tests.simulation.leader import END_OFFSET

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 4_000


@dataclass(slots=True)
class SimulatedMember:
    """`waiting_for`: the generation its last join was answered with, until it has its assignment.

    `unanswered`: a join that has to be asked again. `restored`: offset sums of the state on its disk. `connection_id`:
    the connection of its process, None when its heartbeats are those of a member.
    """

    name: str
    group_instance_id: str | None = None
    incarnation: int | None = None
    connection_id: int | None = None
    member_id: str | None = None
    generation_id: int = 0
    running: frozenset[TaskId] = frozenset()
    standbys: frozenset[TaskId] = frozenset()
    restored: dict[TaskId, int] = field(default_factory=dict)
    unique: int = 0
    has_to_join: bool = True
    waiting_for: int | None = None
    unanswered: Join | None = None
    dead: bool = False

    def started_anew(self, incarnation: int | None, connection_id: int | None) -> SimulatedMember:
        """The process again over the same disk; it runs nothing yet. The old one may live on as a zombie."""
        disk = dict.fromkeys((*self.running, *self.standbys), END_OFFSET)
        return SimulatedMember(
            self.name,
            self.group_instance_id,
            incarnation,
            connection_id,
            restored={**self.restored, **disk},
            unique=self.unique,
        )

    def join(self, new_member_id: str) -> Join:
        if self.unanswered is None:
            self.unique = (self.unique + 1) % 128
            state = MemberState(
                process=self.name,
                running=tuple(sorted(self.running)),
                on_disk={**self.restored, **dict.fromkeys(self.standbys, END_OFFSET)},
                unique=self.unique,
                generation=self.generation_id or None,
            )
            self.unanswered = Join(
                subscription(state),
                SESSION_TIMEOUT_MS,
                REBALANCE_TIMEOUT_MS,
                new_member_id,
                self.member_id,
                self.group_instance_id,
                self.incarnation,
                client_id=self.name,
                join_id=None if self.member_id else f"{self.name} {self.incarnation} {new_member_id}",
                leave_on_disconnect=self.connection_id is not None,
            )
        return replace(self.unanswered, new_member_id=new_member_id)

    def heartbeat(self) -> Heartbeat | ProcessHeartbeat:
        assert self.member_id is not None
        own = Heartbeat(self.member_id, self.generation_id, dict.fromkeys(self.running, END_OFFSET))
        return own if self.connection_id is None else ProcessHeartbeat({self.member_id: own}, self.connection_id)

    def fetch(self) -> FetchAssignment:
        assert self.member_id is not None
        assert self.waiting_for is not None
        return FetchAssignment(self.member_id, self.waiting_for)

    def hear(self, response: Response) -> None:
        match response:
            case JoinAnswered(member_id, generation_id):
                self.member_id, self.waiting_for = member_id, generation_id
                self.unanswered, self.has_to_join = None, False
            case HeartbeatAnswered(rejoin=rejoin):
                self.has_to_join = self.has_to_join or rejoin
            case ProcessHeartbeatAnswered(members=members):
                assert self.member_id is not None
                news = members[self.member_id]
                if isinstance(news, Rejected):
                    self._refused(news.code)
                else:
                    self.has_to_join = self.has_to_join or news.rejoin
            case AssignmentReady(generation_id, data):
                self._take(generation_id, bytes(data))
            case AssignmentPending():
                pass
            case Rejected(code):
                self._refused(code)
            case _:
                raise AssertionError(f"{self.name} was answered {response}")

    def _take(self, generation_id: int, data: bytes) -> None:
        assert generation_id >= self.generation_id, (
            f"{self.name} went back from {self.generation_id} to {generation_id}"
        )
        info = assigned(data)
        self.restored |= dict.fromkeys((*self.running, *self.standbys), END_OFFSET)
        self.running = frozenset(info.active_tasks)
        self.standbys = frozenset(info.standby_tasks)
        for task in (*self.running, *self.standbys):
            self.restored.pop(task, None)
        self.generation_id, self.waiting_for = generation_id, None

    def _refused(self, code: RejectionCode) -> None:
        if code is RejectionCode.REBALANCE_IN_PROGRESS:
            self.has_to_join, self.waiting_for = True, None
            return
        self.restored |= dict.fromkeys((*self.running, *self.standbys), END_OFFSET)
        self.running = self.standbys = frozenset()
        self.waiting_for, self.unanswered, self.has_to_join, self.generation_id = None, None, True, 0
        if code is RejectionCode.FENCED_INSTANCE_ID:
            self.dead = True
        elif code is RejectionCode.UNKNOWN_MEMBER_ID:
            self.member_id = None
        else:
            assert code is RejectionCode.ILLEGAL_GENERATION, f"{self.name} was refused: {code}"
