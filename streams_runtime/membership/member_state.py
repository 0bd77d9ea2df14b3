"""The state of a member: its phase, its identity in the group, the answers that it has not acted on yet, and its calls,
orders and timers that are not answered yet. Pure.

Heartbeats and joins may overtake each other. So each heartbeat is kept with the member's standing at the time when it
was sent, and a refusal counts only if the standing is still the same. Source: `HeartbeatResponseHandler`, which
compares generations because heartbeats and joins may overtake each other. Each call, order and timer has a number, and
the event that answers it has the same number. So an answer to a call, order or timer that the member has given up is
recognised and ignored.
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
    waits for a heartbeat's reply that the assignment is ready. FETCHING: waits for the answer to the fetch. CHANGING:
    waits until the holder has changed its tasks. HOLDING: waits for news of the group. LOSING, CLOSING: waits until the
    holder has dropped or closed all tasks. LEAVING: waits for the answer to the last call.
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
"""Limit of the time for which a closing member waits for the answer to its first join. A member cannot leave without
its member id, which is in the answer to the first join.
"""

CallAnswer = JoinReplied | FetchReplied | LeaveReplied | CallRefused | CallUnanswered


@dataclass(slots=True)
class Standing:
    """The identity of a member in its group.

    `member_id`: None while the group does not know the member. `generation_id`: the generation of the present
    assignment. `awaited`: the generation that the member waits for or has. `epoch`: see `SentHeartbeat`. `first_joins`:
    the number of first joins that were begun. `reported`: the offset sums that the group knows. `definition`: the
    group's definition, from the reply to the last join.
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
        """Returns a join. Each first join has a new join id, which repetitions of the join keep; a rejoin has no join
        id.

        `join_ids`: the prefix of these ids.
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
        """Drop the generation, because the group no longer knows it, or because the member lost its tasks."""
        self.epoch += 1
        self.generation_id = BEFORE_FIRST_ASSIGNMENT

    def forget_member(self) -> None:
        """Drop the member id, because the group no longer knows it. The next join is a first join."""
        self.forget_generation()
        self.member_id = self.reported = None
        self.awaited = BEFORE_FIRST_ASSIGNMENT
        self.first_joins += 1

    # --- replies to act on, replies to ignore

    def counts(self, reply: HeartbeatReplied, phase: Phase) -> bool:
        """True if the member acts on this reply or can ignore it. The result is False if the coordinator has to send
        the reply again.
        """
        answer = reply.answer
        if isinstance(answer, HeartbeatNews):
            return True
        if reply.sent.member_id != self.member_id:
            return True  # the reply is for an earlier member id
        if phase is Phase.JOINING:
            return False  # the answer to the join decides whether the refusal still holds
        if isinstance(answer, UnknownMemberId):
            return True
        if reply.sent.epoch != self.epoch:
            return False
        # The group may be ahead: it refuses the old generation of a member that has not got its next assignment yet.
        is_behind = (
            phase in (Phase.AWAITING, Phase.FETCHING, Phase.CHANGING)
            or reply.sent.body.generation_id != self.generation_id
        )
        return not (isinstance(answer, IllegalGeneration) and is_behind)


@dataclass(slots=True)
class PendingNews:
    """Answers to heartbeats that the member has not acted on yet.

    `refused`: the refusal of a heartbeat. `stop`: True if the coordinator wants the member to end. `lost`: the reason
    why the holder of the tasks has dropped them without an order. `rejoin_asked`: True if the holder of the tasks or a
    refusal asked for a rejoin. `rejoin_generation`: the latest generation of the group in which a reply asked for a
    rejoin. `assignment_generation`: the generation of the latest assignment that the member can fetch.
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
        """True if the member has to stop its present work at once, even a rebalance."""
        return self.refused is not None or self.stop or self.lost is not None

    def call_for_action(self, awaited: int) -> bool:
        """True if the member has to act on these answers. A join into the generation `awaited` has answered earlier
        requests to rejoin.
        """
        return self.are_serious() or self.rejoin_asked or self.rejoin_generation >= awaited

    def forget_member(self) -> None:
        """Forget the generations of the group: the coordinator reported them to an earlier member."""
        self.rejoin_generation = _NEVER
        self.assignment_generation = BEFORE_FIRST_ASSIGNMENT


class Outstanding:
    """The new effects of a member, and the numbers of its unanswered effects: one call, the orders that were given
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

    # --- effects

    def want(self, effect: MemberEffect) -> None:
        """Add an effect that gets no answer."""
        self._effects.append(effect)

    def taken(self) -> list[MemberEffect]:
        """Returns and removes the new effects, in order."""
        effects, self._effects = self._effects, []
        return effects

    def join(self, request: JoinRequest) -> None:
        self._effects.append(SendJoin(self._next_call(), request))

    def fetch(self, member_id: str, min_generation: int) -> None:
        self._effects.append(SendFetch(self._next_call(), member_id, min_generation))

    def leave(self, member_id: str) -> None:
        self._effects.append(SendLeave(self._next_call(), member_id))

    def give(self, *orders: Order) -> None:
        """Give orders together. The orders are done when the last order is done, and fail when any of them fails."""
        self._first_order = self._order + 1
        for order in orders:
            self._order += 1
            self._effects.append(GiveOrder(self._order, order))

    def wait(self, after_ms: int) -> None:
        self._timer += 1
        self._effects.append(SetTimer(self._timer, self.now_ms + after_ms))

    def pause(self, unanswered: CallUnanswered) -> None:
        """Set a timer after which the call is repeated."""
        self._failures += 1
        self.wait(pause_before_repetition_ms(self._failures, unanswered.retry_after_ms, unanswered.chance))

    # --- the open call

    @property
    def call_is_out(self) -> bool:
        return self._call_is_out

    def begin_another_call(self) -> None:
        """Reset the count of failures, because the next call is another call, and not a repetition."""
        self._failures = 0

    def give_up_call(self) -> None:
        """Ignore the answer to the open call, and the pause before its repetition."""
        self._call += 1
        self._timer += 1
        self._call_is_out = False

    # --- answers to calls, timers and orders

    def takes_answer(self, answer: CallAnswer) -> bool:
        """True for the answer to the open call. The call then ends."""
        if answer.call != self._call or not self._call_is_out:
            return False
        self._call_is_out = False
        return True

    def takes_timer(self, timer: int) -> bool:
        """True for the timer that was set last. The timer then ends."""
        if timer != self._timer:
            return False
        self._timer += 1
        return True

    def is_last_order(self, number: int) -> bool:
        return number == self._order

    def is_present_order(self, number: int) -> bool:
        """True for each of the orders that were given together last."""
        return number >= self._first_order

    def _next_call(self) -> int:
        self._call += 1
        self._timer += 1
        self._call_is_out = True
        return self._call


class Departure:
    """The end of a member: its reason, and the last calls. `MemberMachine` gives up the member's tasks before the calls
    of `Departure`.

    A member that the group knows leaves the group. A member whose first join is not answered yet waits for the answer
    for a short time, because it cannot leave without its member id. Source: `AbstractCoordinator.maybeLeaveGroup`.

    Each method that is a step of the departure returns the next phase of the member. `end`: the reason of an end
    without an error.
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
        """End the member with this error, unless it has failed with an earlier error."""
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
