"""A group as a member sees it, small enough to read: the state machine of a coordinator without time and storage.

It gives each task to one member at a time. A task that another member still owns is held back until its owner has
rejoined without it; then another rebalance follows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignor.protocol.consumer_protocol import decode_subscription
from assignor.types import TaskId, TopicPartition
from streams_runtime.membership import calls
from tests.coordinator_api.group.member_bytes import assigned, assignment, partition_of

PREPARING, COMPLETING, STABLE = "PreparingRebalance", "CompletingRebalance", "Stable"


def refusal(code: str) -> calls.CoordinatorError:
    return calls.coordinator_error(code, 409, "")


@dataclass(slots=True)
class ModelMember:
    """`subscription`: its last; `joined`: for the generation that is being prepared; `given`: its last assignment."""

    subscription: bytes
    join_id: str | None = None
    joined: bool = True
    given: bytes | None = None
    given_generation: int = 0
    acknowledged: int = 0

    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(decode_subscription(self.subscription).owned_partitions)


@dataclass(slots=True)
class ModelGroup:
    """`tasks`: all of the group. A caller ends a phase with `close_joins` and `compute`, when they are possible."""

    tasks: tuple[TaskId, ...]
    state: str = STABLE
    generation_id: int = 0
    members: dict[str, ModelMember] = field(default_factory=dict)
    draining: bool = False
    followup: bool = False
    joins: int = 0

    # --- what members call

    def join(self, request: calls.JoinRequest) -> calls.JoinReply:
        if request.member_id is None:
            return self._first_join(request)
        member = self._member(request.member_id)
        repeated = member.subscription == request.subscription and (self.state != PREPARING or member.joined)
        if repeated and self.state != PREPARING:
            return calls.JoinReply(request.member_id, self.generation_id, self.state)
        member.subscription, member.joined = request.subscription, True
        if not repeated:
            self._prepare()
        return calls.JoinReply(request.member_id, self.generation_id + 1, self.state)

    def fetch(self, member_id: str, min_generation: int) -> calls.FetchedAssignment | None:
        member = self._member(member_id)
        if self.state == COMPLETING or (self.state == PREPARING and member.joined):
            return None
        if member.given is not None and member.given_generation >= min_generation:
            if self.state == STABLE:
                member.acknowledged = self.generation_id
                self._follow_up()
            return calls.FetchedAssignment(member.given_generation, member.given, self.followup)
        if self.state == PREPARING:
            raise refusal("REBALANCE_IN_PROGRESS")
        return None

    def heartbeat(self, members: Mapping[str, calls.MemberHeartbeat]) -> calls.ProcessHeartbeatReply:
        news_of = {member_id: self._news(member_id) for member_id in members}
        news = f"{self.generation_id} {sorted((key, repr(value)) for key, value in news_of.items())}"
        return calls.ProcessHeartbeatReply(self.state, self.generation_id, news, news_of)

    def leave(self, member_id: str) -> None:
        if self.members.pop(member_id, None) is not None:
            self._prepare()

    # --- what time does

    def expire(self, member_id: str) -> None:
        self.leave(member_id)

    @property
    def may_close_joins(self) -> bool:
        return self.state == PREPARING and any(member.joined for member in self.members.values())

    def close_joins(self) -> None:
        """Members that have not rejoined are removed."""
        self.members = {key: member for key, member in self.members.items() if member.joined}
        for member in self.members.values():
            member.joined = False
        self.generation_id += 1
        self.state = COMPLETING

    def compute(self) -> None:
        """Store an assignment for everyone."""
        owners = {partition: key for key, member in self.members.items() for partition in member.owned()}
        names = sorted(self.members)
        given: dict[str, list[TaskId]] = {name: [] for name in names}
        self.followup = False
        for number, task in enumerate(self.tasks):
            wanted = names[number % len(names)]
            owner = owners.get(partition_of(task))
            if owner is None or owner == wanted:
                given[wanted].append(task)
            else:
                self.followup = True  # its owner has to give it up first
        for name in names:
            member = self.members[name]
            member.given, member.given_generation = assignment(given[name]), self.generation_id
        self.state = STABLE

    # --- state that tests read

    def tasks_given_to(self, member_id: str) -> frozenset[TaskId]:
        given = self.members[member_id].given
        return frozenset() if given is None else frozenset(assigned(given).active_tasks)

    @property
    def is_settled(self) -> bool:
        return (
            self.state == STABLE
            and not self.followup
            and all(member.acknowledged == self.generation_id for member in self.members.values())
        )

    # --- inside

    def _first_join(self, request: calls.JoinRequest) -> calls.JoinReply:
        for member_id, member in self.members.items():
            if request.join_id is not None and member.join_id == request.join_id:
                return calls.JoinReply(member_id, self.generation_id + member.joined, self.state)
        self.joins += 1
        member_id = f"m{self.joins}"
        self.members[member_id] = ModelMember(request.subscription, request.join_id)
        self._prepare()
        return calls.JoinReply(member_id, self.generation_id + 1, self.state)

    def _member(self, member_id: str) -> ModelMember:
        if member_id not in self.members:
            raise refusal("UNKNOWN_MEMBER_ID")
        return self.members[member_id]

    def _prepare(self) -> None:
        """Ask members that have not joined for the next generation to rejoin, and give up a computation."""
        self.state = PREPARING if self.members else STABLE

    def _follow_up(self) -> None:
        if self.followup and all(member.acknowledged == self.generation_id for member in self.members.values()):
            self._prepare()

    def _news(self, member_id: str) -> calls.HeartbeatNews | calls.CoordinatorError:
        member = self.members.get(member_id)
        if member is None:
            return refusal("UNKNOWN_MEMBER_ID")
        fetchable = self.state != COMPLETING and not (self.state == PREPARING and member.joined)
        return calls.HeartbeatNews(
            rejoin=self.state == PREPARING and not member.joined,
            stop=self.draining,
            assignment_generation=member.given_generation if fetchable and member.given is not None else 0,
        )
