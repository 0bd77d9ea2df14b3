"""The state of a member: its phase, its identity in the group, the answers that it has yet to act on, and its calls,
orders and timers that are not answered yet. Pure.

Heartbeats and joins overtake each other. So a heartbeat carries the standing in which it was sent, and its refusal
counts while the member is still in it. Source: `HeartbeatResponseHandler`, which compares generations for the same
reason. Each call, order and timer has a number, which the event that answers it names. So the answer to something that
the member has given up meanwhile changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from assignor.types import TaskId
from streams_runtime.membership.calls import (
    CoordinatorError,
    GroupDefinition,
    HeartbeatNews,
    IllegalGeneration,
    JoinReply,
    JoinRequest,
    MemberHeartbeat,
    MemberSettings,
    RebalanceInProgress,
    UnknownMemberId,
    pause_before_repetition_ms,
)
from streams_runtime.membership.member_events import (
    CallRefused,
    CallUnanswered,
    FetchReplied,
    GiveOrder,
    HeartbeatReplied,
    JoinReplied,
    LeaveReplied,
    MemberEffect,
    MemberEnd,
    MemberEnded,
    Order,
    SendFetch,
    SendJoin,
    SendLeave,
    SentHeartbeat,
    SetTimer,
)


class Phase(StrEnum):
    """The phase of a member, by the answer that it waits for.

    PREPARING: its holder to get ready for a rebalance. JOINING: the join. AWAITING: a heartbeat that its assignment is
    there. FETCHING: the assignment. CHANGING: its holder to change its tasks. HOLDING: news. LOSING, CLOSING: its
    holder to drop or to close everything. LEAVING: the last call.
    """

    NEW = "new"
    PREPARING = "preparing"
    JOINING = "joining"
    AWAITING = "awaiting"
    FETCHING = "fetching"
    CHANGING = "changing"
    HOLDING = "holding"
    LOSING = "losing"
    CLOSING = "closing"
    LEAVING = "leaving"
    ENDED = "ended"


BEFORE_FIRST_ASSIGNMENT = 0
_NEVER = -1

LAST_JOIN_WAIT_MS = 2_000
"""The longest wait of a closing member for the answer to its first join, without which it cannot leave."""

CallAnswer = JoinReplied | FetchReplied | LeaveReplied | CallRefused | CallUnanswered


@dataclass(slots=True)
class Standing:
    """`member_id`: None while the group knows no such member. `generation_id`: of the assignment that it works by.
    `awaited`: the generation that it waits for or has. `epoch`: see `SentHeartbeat`. `first_joins`: how many it has
    begun. `reported`: the offset sums that the group knows. `definition`: of the group, by the reply to the last join.
    """

    member_id: str | None = None
    generation_id: int = BEFORE_FIRST_ASSIGNMENT
    epoch: int = 0
    awaited: int = BEFORE_FIRST_ASSIGNMENT
    first_joins: int = 1
    reported: Mapping[TaskId, int] | None = None
    definition: GroupDefinition | None = None

    # --- what it sends

    def join_request(self, settings: MemberSettings, join_ids: str, subscription: bytes) -> JoinRequest:
        """Each first join has an id of its own, and keeps it when it is repeated. A rejoin has none.

        `join_ids`: the beginning of these ids.
        """
        return JoinRequest(
            subscription,
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
            self.member_id,
            settings.group_instance_id,
            settings.incarnation,
            settings.client_id,
            f"{join_ids}-{self.first_joins}" if self.member_id is None else None,
            settings.leave_on_disconnect,
        )

    def heartbeat(self, offset_sums: Mapping[TaskId, int]) -> SentHeartbeat:
        """The heartbeat to send now. `offset_sums`: what the holder reports now."""
        assert self.member_id is not None, "the group knows it"
        body = MemberHeartbeat(self.generation_id, None if offset_sums == self.reported else offset_sums)
        return SentHeartbeat(self.member_id, self.epoch, body, offset_sums)

    # --- what becomes of it

    def joins(self, offset_sums: Mapping[TaskId, int]) -> None:
        self.epoch += 1
        self.reported = offset_sums

    def joined(self, reply: JoinReply) -> None:
        self.member_id = reply.member_id
        self.awaited = reply.generation_id
        self.definition = reply.definition
        self.epoch += 1

    def works_by(self, generation_id: int) -> None:
        self.generation_id = self.awaited = generation_id

    def forget_generation(self) -> None:
        """The group no longer knows this member's generation, or the member gives its tasks up."""
        self.epoch += 1
        self.generation_id = BEFORE_FIRST_ASSIGNMENT

    def forget_member(self) -> None:
        """The group no longer knows this member."""
        self.forget_generation()
        self.member_id = self.reported = None
        self.awaited = BEFORE_FIRST_ASSIGNMENT
        self.first_joins += 1

    # --- which answers count

    def counts(self, reply: HeartbeatReplied, phase: Phase) -> bool:
        """True if the member acts on this reply, or need not. False: the coordinator has to send it again."""
        answer = reply.answer
        if isinstance(answer, HeartbeatNews):
            return True
        if reply.sent.member_id != self.member_id:
            return True  # the reply is for an earlier member id
        if phase is Phase.JOINING:
            return False  # the answer to the join decides
        if isinstance(answer, UnknownMemberId):
            return True
        if reply.sent.epoch != self.epoch:
            return False
        # the group may be ahead: it refuses the generation of a member whose next assignment is on the way
        is_behind = (
            phase in (Phase.AWAITING, Phase.FETCHING, Phase.CHANGING)
            or reply.sent.body.generation_id != self.generation_id
        )
        return not (isinstance(answer, IllegalGeneration) and is_behind)


@dataclass(slots=True)
class PendingNews:
    """Answers to heartbeats that the member has not acted on yet.

    `refused`: the refusal of a heartbeat. `stop`: the coordinator wants the member to end. `lost`: the reason why the
    holder has dropped its tasks by itself. `rejoin_asked`: by the holder, or by a refusal. `rejoin_generation`: the
    latest generation of the group in which the member had to rejoin. `assignment_generation`: of the latest
    assignment that it can fetch.
    """

    refused: CoordinatorError | None = None
    stop: bool = False
    lost: str | None = None
    rejoin_asked: bool = False
    rejoin_generation: int = _NEVER
    assignment_generation: int = BEFORE_FIRST_ASSIGNMENT

    def add(self, news: HeartbeatNews, generation_id: int) -> None:
        """`generation_id`: of the group, in the same reply."""
        self.stop = self.stop or news.stop
        self.assignment_generation = max(self.assignment_generation, news.assignment_generation)
        if news.rejoin:
            self.rejoin_generation = max(self.rejoin_generation, generation_id)

    def add_refusal(self, error: CoordinatorError) -> None:
        """`error`: a refusal that `Standing.counts`."""
        if isinstance(error, RebalanceInProgress):
            self.rejoin_asked = True
        else:
            self.refused = error

    def are_serious(self) -> bool:
        """The member must not go on with what it is doing, a rebalance included."""
        return self.refused is not None or self.stop or self.lost is not None

    def call_for_action(self, awaited: int) -> bool:
        """A join that has reached the generation `awaited` answers every "rejoin" of an earlier one."""
        return self.are_serious() or self.rejoin_asked or self.rejoin_generation >= awaited

    def forget_member(self) -> None:
        """Forget the generations of the group: the coordinator reported them to an earlier member."""
        self.rejoin_generation = _NEVER
        self.assignment_generation = BEFORE_FIRST_ASSIGNMENT


class Outstanding:
    """The effects that the member wants, and those that are not answered yet: one call, the orders that it gave
    together, and one timer. `now_ms`: the time of the event that is being handled.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._effects: list[MemberEffect] = []
        self._call = 0
        self._call_is_out = False
        self._failures = 0
        self._timer = 0
        self._order = 0
        self._first_order = 0

    # --- what the member wants done

    def want(self, effect: MemberEffect) -> None:
        """Add an effect that gets no answer."""
        self._effects.append(effect)

    def taken(self) -> list[MemberEffect]:
        """The effects since the last call, in their order."""
        effects, self._effects = self._effects, []
        return effects

    def join(self, request: JoinRequest) -> None:
        self._effects.append(SendJoin(self._next_call(), request))

    def fetch(self, member_id: str, min_generation: int) -> None:
        self._effects.append(SendFetch(self._next_call(), member_id, min_generation))

    def leave(self, member_id: str) -> None:
        self._effects.append(SendLeave(self._next_call(), member_id))

    def give(self, *orders: Order) -> None:
        """Give orders together: they are done when the last one is, and fail when any one does."""
        self._first_order = self._order + 1
        for order in orders:
            self._order += 1
            self._effects.append(GiveOrder(self._order, order))

    def wait(self, after_ms: int) -> None:
        self._timer += 1
        self._effects.append(SetTimer(self._timer, self.now_ms + after_ms))

    def pause(self, unanswered: CallUnanswered) -> None:
        """Before the call is repeated."""
        self._failures += 1
        self.wait(pause_before_repetition_ms(self._failures, unanswered.retry_after_ms, unanswered.chance))

    # --- what is under way

    @property
    def call_is_out(self) -> bool:
        return self._call_is_out

    def begin_another_call(self) -> None:
        """The next failure of a call is its first one."""
        self._failures = 0

    def give_up_call(self) -> None:
        """Ignore the answer to the call that is out, and the pause before its repetition."""
        self._call += 1
        self._timer += 1
        self._call_is_out = False

    # --- what is answered

    def takes_answer(self, answer: CallAnswer) -> bool:
        """True for the answer to the call that is out, which it ends."""
        if answer.call != self._call or not self._call_is_out:
            return False
        self._call_is_out = False
        return True

    def takes_timer(self, timer: int) -> bool:
        """True for the timer that was set last, which it ends."""
        if timer != self._timer:
            return False
        self._timer += 1
        return True

    def is_last_order(self, number: int) -> bool:
        return number == self._order

    def is_present_order(self, number: int) -> bool:
        """True for an order of those that were last given together."""
        return number >= self._first_order

    def _next_call(self) -> int:
        self._call += 1
        self._timer += 1
        self._call_is_out = True
        return self._call


class Departure:
    """The end of a member: its reason, and the last calls. `MemberMachine` gives up the tasks before that.

    A member that the group knows leaves it. A member whose first join is on its way waits a short time for the answer,
    without which it cannot leave. Source: `AbstractCoordinator.maybeLeaveGroup`.

    Each step returns the next phase of the member. `end`: the reason of an end without an error.
    """

    def __init__(self, standing: Standing, outstanding: Outstanding) -> None:
        self.end: MemberEnd | None = None
        self._failure: BaseException | None = None
        self._standing = standing
        self._outstanding = outstanding

    @property
    def is_decided(self) -> bool:
        return self.end is not None or self._failure is not None

    def failed(self, error: BaseException) -> None:
        """The first error is the one that counts."""
        self._failure = self._failure or error

    def leave(self) -> Phase:
        outstanding = self._outstanding
        if self._standing.member_id is not None:
            outstanding.give_up_call()
            outstanding.leave(self._standing.member_id)
        elif outstanding.call_is_out:
            outstanding.wait(LAST_JOIN_WAIT_MS)
        else:
            return self.finish()
        return Phase.LEAVING

    def answered(self, answer: CallAnswer, phase: Phase) -> Phase:
        """`phase`: CLOSING or LEAVING."""
        if isinstance(answer, JoinReplied):  # of a first join: only now the member can leave
            self._standing.member_id = answer.reply.member_id
        if phase is not Phase.LEAVING:
            return phase
        return self.leave() if isinstance(answer, JoinReplied) else self.finish()

    def finish(self) -> Phase:
        self._outstanding.want(MemberEnded(None if self._failure is not None else self.end, self._failure))
        return Phase.ENDED
