"""The state of a member: the member's phase and ids, the answers on which it has not acted yet, and its unanswered
calls, orders and timers. The module does no I/O.

Heartbeats and joins may overtake each other. So the member's id and epoch are stored with each heartbeat when it is
sent. The member acts on the refusal of a heartbeat only if the member's id and epoch have not changed since the
heartbeat was sent.
Source: `HeartbeatResponseHandler`, which compares generations because heartbeats and joins may overtake each other.
Each call, order and timer has a number, and the event that answers the call, order or timer has the same number. By
this number, the member recognises and ignores an answer for which it no longer waits.
"""

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
    """The phase of a member. In each phase, the member waits for one event:

    PREPARING: waits until the holder has prepared for a rebalance. JOINING: waits for the answer to the join. AWAITING:
    waits until the reply to a heartbeat reports that the assignment is ready. FETCHING: waits for the answer to the
    fetch. CHANGING: waits until the holder has changed its tasks. HOLDING: waits for news of the group. LOSING: waits
    until the holder has dropped all tasks. CLOSING: waits until the holder has closed all tasks. LEAVING: waits for the
    answer to the leave call.
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
"""The longest time that a closing member waits for the answer to its first join. A member cannot leave without its
member id, which is in the answer to the first join.
"""

CallAnswer = JoinReplied | FetchReplied | LeaveReplied | CallRefused | CallUnanswered


@dataclass(slots=True)
class Standing:
    """A member as the group knows it: its ids, generation and reported offsets.

    `member_id`: None while the group does not know the member. `generation_id`: the generation of the present
    assignment. `awaited`: the generation whose assignment the member waits for or has. `epoch`: see `SentHeartbeat`.
    `first_joins`: the number of first joins that the member has begun. `reported`: the offset sums that the member last
    reported to the group. `definition`: the group's definition, from the reply to the last join.
    """

    member_id: str | None = None
    generation_id: int = BEFORE_FIRST_ASSIGNMENT
    epoch: int = 0
    awaited: int = BEFORE_FIRST_ASSIGNMENT
    first_joins: int = 1
    reported: Mapping[TaskId, int] | None = None
    definition: GroupDefinition | None = None

    # --- requests

    def join_request(self, settings: MemberSettings, join_ids: str, subscription: bytes) -> JoinRequest:
        """Returns a join. Each first join has a new join id. A repeated first join has the join id of the first join
        that it repeats. A rejoin has no join id.

        `join_ids`: the prefix of the join ids.
        """
        join_id = f"{join_ids}-{self.first_joins}" if self.member_id is None else None
        return JoinRequest(subscription, settings, self.member_id, join_id)

    def heartbeat(self, offset_sums: Mapping[TaskId, int]) -> SentHeartbeat:
        """Returns the heartbeat to send now. `offset_sums`: the offset sums that the holder reports now."""
        assert self.member_id is not None, "the group knows it"
        body = MemberHeartbeat(self.generation_id, None if offset_sums == self.reported else offset_sums)
        return SentHeartbeat(self.member_id, self.epoch, body, offset_sums)

    # --- changes of state

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
        """Drop the generation, because the group no longer knows this generation, or because the member lost its
        tasks.
        """
        self.epoch += 1
        self.generation_id = BEFORE_FIRST_ASSIGNMENT

    def forget_member(self) -> None:
        """Drop the member id, because the group no longer knows this id. The next join is a first join."""
        self.forget_generation()
        self.member_id = self.reported = None
        self.awaited = BEFORE_FIRST_ASSIGNMENT
        self.first_joins += 1

    # --- which replies to heartbeats the member accepts

    def counts(self, reply: HeartbeatReplied, phase: Phase) -> bool:
        """Returns True if the member can act on this reply now, or can ignore it for ever. Returns False if the
        coordinator has to send the reply again later.
        """
        answer = reply.answer
        if isinstance(answer, HeartbeatNews):
            return True
        if reply.sent.member_id != self.member_id:
            return True  # the member ignores the reply, because the reply is for an earlier member id
        if phase is Phase.JOINING:
            # the answer to the join may give the member a new id or generation, and the refusal concerns only the old
            # ones
            return False
        if isinstance(answer, UnknownMemberId):
            return True
        if reply.sent.epoch != self.epoch:
            return False
        # If the group has a later generation than the member, the coordinator refuses the member's old generation until
        # the member has fetched its new assignment.
        is_behind = (
            phase in (Phase.AWAITING, Phase.FETCHING, Phase.CHANGING)
            or reply.sent.body.generation_id != self.generation_id
        )
        return not (isinstance(answer, IllegalGeneration) and is_behind)


@dataclass(slots=True)
class PendingNews:
    """News on which the member has not acted yet: from the replies to heartbeats, and from the holder of its tasks.

    `refused`: the refusal of a heartbeat. `stop`: True if the coordinator wants the member to end. `lost`: the reason
    why the holder has dropped its tasks without an order. `rejoin_asked`: True if the holder of the tasks or a refusal
    asked for a rejoin. `rejoin_generation`: the generation of the group in the latest reply that asked for a rejoin.
    `assignment_generation`: the latest generation whose assignment the member can fetch.
    """

    refused: CoordinatorError | None = None
    stop: bool = False
    lost: str | None = None
    rejoin_asked: bool = False
    rejoin_generation: int = _NEVER
    assignment_generation: int = BEFORE_FIRST_ASSIGNMENT

    def add(self, news: HeartbeatNews, generation_id: int) -> None:
        """Add the news of a heartbeat's reply. `generation_id`: the generation of the group in this reply."""
        self.stop = self.stop or news.stop
        self.assignment_generation = max(self.assignment_generation, news.assignment_generation)
        if news.rejoin:
            self.rejoin_generation = max(self.rejoin_generation, generation_id)

    def add_refusal(self, error: CoordinatorError) -> None:
        """Add the refusal of a heartbeat. `error`: a refusal for which `Standing.counts` is True."""
        if isinstance(error, RebalanceInProgress):
            self.rejoin_asked = True
        else:
            self.refused = error

    def are_serious(self) -> bool:
        """Returns True if the member has to act at once, even during a rebalance."""
        return self.refused is not None or self.stop or self.lost is not None

    def call_for_action(self, awaited: int) -> bool:
        """Returns True if the member has to act on this news. A request to rejoin is ignored if its generation is
        earlier than `awaited`, because the member has joined since.
        """
        return self.are_serious() or self.rejoin_asked or self.rejoin_generation >= awaited

    def forget_member(self) -> None:
        """Forget the reported generations, because the coordinator reported them for an earlier member id."""
        self.rejoin_generation = _NEVER
        self.assignment_generation = BEFORE_FIRST_ASSIGNMENT


class Outstanding:
    """The new effects of a member, and the numbers of the member's unanswered effects. At one time, at most one call,
    one group of orders and one timer are unanswered. `now_ms`: the time of the event that is being handled.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._effects: list[MemberEffect] = []
        self._call = 0
        self.call_is_out = False
        self._failures = 0
        self._timer = 0
        self._order = 0
        self._first_order = 0

    # --- effects

    def want(self, effect: MemberEffect) -> None:
        """Add an effect for which no answer is expected."""
        self._effects.append(effect)

    def taken(self) -> list[MemberEffect]:
        """Remove and return the new effects, in order."""
        effects, self._effects = self._effects, []
        return effects

    def join(self, request: JoinRequest) -> None:
        self._effects.append(SendJoin(self._next_call(), request))

    def fetch(self, member_id: str, min_generation: int) -> None:
        self._effects.append(SendFetch(self._next_call(), member_id, min_generation))

    def leave(self, member_id: str) -> None:
        self._effects.append(SendLeave(self._next_call(), member_id))

    def give(self, *orders: Order) -> None:
        """Give several orders as a group. The group is done when its last order is done, and fails when any of its
        orders fails.
        """
        self._first_order = self._order + 1
        for order in orders:
            self._order += 1
            self._effects.append(GiveOrder(self._order, order))

    def wait(self, after_ms: int) -> None:
        self._timer += 1
        self._effects.append(SetTimer(self._timer, self.now_ms + after_ms))

    def pause(self, unanswered: CallUnanswered) -> None:
        """Set a timer. When the timer ends, the member repeats the call."""
        self._failures += 1
        self.wait(pause_before_repetition_ms(self._failures, unanswered.retry_after_ms, unanswered.chance))

    # --- the open call

    def begin_another_call(self) -> None:
        """Set the number of failures to 0, because the next call is not a repetition."""
        self._failures = 0

    def give_up_call(self) -> None:
        """From now on, ignore the answer to the open call, and the timer after which the call would be repeated."""
        self._call += 1
        self._timer += 1
        self.call_is_out = False

    # --- answers to calls, timers and orders

    def takes_answer(self, answer: CallAnswer) -> bool:
        """Closes the open call and returns True if this is the answer to the open call."""
        if answer.call != self._call or not self.call_is_out:
            return False
        self.call_is_out = False
        return True

    def takes_timer(self, timer: int) -> bool:
        """Removes the timer and returns True if this is the timer that was set last."""
        if timer != self._timer:
            return False
        self._timer += 1
        return True

    def is_last_order(self, number: int) -> bool:
        return number == self._order

    def is_present_order(self, number: int) -> bool:
        """Returns True if the order with this number belongs to the latest group of orders."""
        return number >= self._first_order

    def _next_call(self) -> int:
        self._call += 1
        self._timer += 1
        self.call_is_out = True
        return self._call


class Departure:
    """The end of a member: its reason, and the member's last calls to the coordinator. `MemberMachine` gives up the
    member's tasks before these calls.

    If the group knows the member, the member sends a leave call. If the first join is not answered yet, the member
    waits up to `LAST_JOIN_WAIT_MS` for the answer, because the leave call needs the member id. Source:
    `AbstractCoordinator.maybeLeaveGroup`.

    A method that returns a `Phase` returns the next phase of the member. `end`: the reason of the end, if the member
    ends without an error.
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
        """Record the error that ends the member. Does nothing if an earlier error is recorded."""
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
        """Handle the answer to a call. `phase`: CLOSING or LEAVING."""
        if isinstance(answer, JoinReplied):  # the answer to a first join: the member can leave only with this member id
            self._standing.member_id = answer.reply.member_id
        if phase is not Phase.LEAVING:
            return phase
        return self.leave() if isinstance(answer, JoinReplied) else self.finish()

    def finish(self) -> Phase:
        self._outstanding.want(MemberEnded(None if self._failure is not None else self.end, self._failure))
        return Phase.ENDED
