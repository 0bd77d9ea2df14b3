"""The state of a member: its phase, its ids, its pending news, and the calls, orders and timers that are not answered
yet. The module does no I/O.

A heartbeat and a join may overtake each other. So when a heartbeat is sent, the member's id and epoch are stored with
it. If the heartbeat is refused, the member compares the stored values with its present id and epoch. If the stored and
the present values differ, the refusal is outdated.
Source: `HeartbeatResponseHandler`, which compares generations because heartbeats and joins may overtake each other.
Each call, order and timer has a number. The event that answers a call, order or timer has the same number. If the
member no longer waits for an answer, it recognises the answer by this number and ignores it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assignor.types import TaskId
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import calls
from streams_runtime.membership import member_events as events


class Phase(StrEnum):
    """The phase of a member. In each phase, the member waits for one event:

    - `PREPARING`: the member waits until the task holder has prepared for a rebalance.
    - `JOINING`: the member waits for the answer to its join.
    - `AWAITING`: the member waits until the reply to a heartbeat reports that the assignment is ready.
    - `FETCHING`: the member waits for the answer to its fetch of the assignment.
    - `CHANGING`: the member waits until the task holder has revoked and started tasks.
    - `HOLDING`: the member waits for news of the group.
    - `LOSING`: the member waits until the task holder has dropped all tasks.
    - `CLOSING`: the member waits until the task holder has closed all tasks.
    - `LEAVING`: the member waits for the answer to its leave call.
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
"""The longest time that a closing member waits for the answer to its first join. The answer to the first join contains
the member id, and without the member id the member cannot leave.
"""

CallAnswer = events.JoinReplied | events.FetchReplied | events.LeaveReplied | events.CallRefused | events.CallUnanswered


@dataclass(slots=True)
class Standing:
    """The data that the group has about a member: the member's ids, its generation and its reported offsets.

    `member_id`: None while the group does not know the member. `generation_id`: the generation of the present
    assignment. `awaited`: the generation of the assignment for which the member waits; if the member does not wait, the
    generation of its present assignment. `epoch`: see `SentHeartbeat`. `first_joins`: the number of first joins that
    the member has begun. `reported`, `reported_flows`: the offset sums and the flows that the member has last reported
    to the group. `definition`: the group's definition, from the reply to the last join.
    """

    member_id: str | None = None
    generation_id: int = BEFORE_FIRST_ASSIGNMENT
    epoch: int = 0
    awaited: int = BEFORE_FIRST_ASSIGNMENT
    first_joins: int = 1
    reported: Mapping[TaskId, int] | None = None
    reported_flows: Mapping[TaskId, TaskFlow] = field(default_factory=dict)
    definition: calls.GroupDefinition | None = None

    # --- requests

    def join_request(self, settings: calls.MemberSettings, join_ids: str, subscription: bytes) -> calls.JoinRequest:
        """Returns a join request. A rejoin has no join id. Each first join has a new join id. If the member repeats its
        first join, the join id stays the same.

        `join_ids`: a prefix for the join ids.
        """
        join_id = f"{join_ids}-{self.first_joins}" if self.member_id is None else None
        return calls.JoinRequest(subscription, settings, self.member_id, join_id)

    def heartbeat(self, offset_sums: Mapping[TaskId, int], flows: Mapping[TaskId, TaskFlow]) -> events.SentHeartbeat:
        """Returns the data about the member for the next heartbeat. `offset_sums`, `flows`: the present offset sums and
        flows of the task holder.
        """
        assert self.member_id is not None, "the group knows it"
        body = calls.MemberHeartbeat(
            self.generation_id,
            None if offset_sums == self.reported else offset_sums,
            None if flows == self.reported_flows else flows,
        )
        return events.SentHeartbeat(self.member_id, self.epoch, body, offset_sums, flows)

    # --- Methods that change the state.

    def joins(self, offset_sums: Mapping[TaskId, int]) -> None:
        self.epoch += 1
        self.reported = offset_sums

    def joined(self, reply: calls.JoinReply) -> None:
        self.member_id = reply.member_id
        self.awaited = reply.generation_id
        self.definition = reply.definition
        self.epoch += 1

    def works_by(self, generation_id: int) -> None:
        self.generation_id = self.awaited = generation_id

    def forget_generation(self) -> None:
        """Forget the generation, because it is no longer valid, or because the member has lost its tasks."""
        self.epoch += 1
        self.generation_id = BEFORE_FIRST_ASSIGNMENT

    def forget_member(self) -> None:
        """Forget the member id, because the id is no longer valid. The next join is a first join."""
        self.forget_generation()
        self.member_id = self.reported = None
        self.awaited = BEFORE_FIRST_ASSIGNMENT
        self.first_joins += 1

    # --- Replies to heartbeats.

    def counts(self, reply: events.HeartbeatReplied, phase: Phase) -> bool:
        """Returns True if the member can act on this reply now, or can ignore it. Returns False if the coordinator has
        to send the reply again later.
        """
        answer = reply.answer
        if isinstance(answer, calls.HeartbeatNews):
            return True
        if reply.sent.member_id != self.member_id:
            return True  # the reply is for an earlier member id, so the member ignores it
        if phase is Phase.JOINING:
            # The refusal is about the present id and generation. The answer to the join may contain a new id or
            # generation.
            return False
        if isinstance(answer, calls.UnknownMemberId):
            return True
        if reply.sent.epoch != self.epoch:
            return False
        # The group may have a later generation than the member. If the group has a later generation, the coordinator
        # refuses the member's old generation until the member has fetched its new assignment.
        is_behind = (
            phase in (Phase.AWAITING, Phase.FETCHING, Phase.CHANGING)
            or reply.sent.body.generation_id != self.generation_id
        )
        return not (isinstance(answer, calls.IllegalGeneration) and is_behind)


@dataclass(slots=True)
class PendingNews:
    """News on which the member has not acted yet. The news comes from the replies to heartbeats and from the task
    holder.

    `refused`: the error with which the coordinator has refused a heartbeat. `stop`: True if the coordinator wants the
    member to end. `lost`: the reason why the task holder has dropped its tasks without an order. `rejoin_asked`: True
    if the task holder or a refusal has asked for a rejoin. `rejoin_generation`: the highest generation in a reply that
    asked for a rejoin. `assignment_generation`: the highest generation with an assignment that is ready to be fetched.
    """

    refused: calls.CoordinatorError | None = None
    stop: bool = False
    lost: str | None = None
    rejoin_asked: bool = False
    rejoin_generation: int = _NEVER
    assignment_generation: int = BEFORE_FIRST_ASSIGNMENT

    def add(self, news: calls.HeartbeatNews, generation_id: int) -> None:
        """Add the news in a reply to a heartbeat. `generation_id`: the generation of the group in this reply."""
        self.stop = self.stop or news.stop
        self.assignment_generation = max(self.assignment_generation, news.assignment_generation)
        if news.rejoin:
            self.rejoin_generation = max(self.rejoin_generation, generation_id)

    def add_refusal(self, error: calls.CoordinatorError) -> None:
        """Add the refusal of a heartbeat. Call this method only if `Standing.counts` has returned True for the
        refusal.
        """
        if isinstance(error, calls.RebalanceInProgress):
            self.rejoin_asked = True
        else:
            self.refused = error

    def are_serious(self) -> bool:
        """Returns True if the member has to act at once, even during a rebalance."""
        return self.refused is not None or self.stop or self.lost is not None

    def call_for_action(self, awaited: int) -> bool:
        """Returns True if the member has to act on this news. A request to rejoin is ignored if its generation is
        earlier than `awaited`, because the member has joined since this request.
        """
        return self.are_serious() or self.rejoin_asked or self.rejoin_generation >= awaited

    def forget_member(self) -> None:
        """Forget the generations of earlier replies, because these replies were for an earlier member id."""
        self.rejoin_generation = _NEVER
        self.assignment_generation = BEFORE_FIRST_ASSIGNMENT


class Outstanding:
    """The new effects of a member, and the numbers of the effects that are not answered yet. The member waits for at
    most one call, one series of orders and one timer at the same time. `now_ms`: the time of the present event.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._effects: list[events.MemberEffect] = []
        self._call = 0
        self.call_is_out = False
        self._failures = 0
        self._timer = 0
        self._order = 0
        self._first_order = 0

    # --- effects

    def want(self, effect: events.MemberEffect) -> None:
        """Add an effect for which the member expects no answer."""
        self._effects.append(effect)

    def taken(self) -> list[events.MemberEffect]:
        """Remove and return the new effects, in order."""
        effects, self._effects = self._effects, []
        return effects

    def join(self, request: calls.JoinRequest) -> None:
        self._effects.append(events.SendJoin(self._next_call(), request))

    def fetch(self, member_id: str, min_generation: int) -> None:
        self._effects.append(events.SendFetch(self._next_call(), member_id, min_generation))

    def leave(self, member_id: str, failure: BaseException | None) -> None:
        self._effects.append(events.SendLeave(self._next_call(), member_id, failure))

    def give(self, *orders: events.Order) -> None:
        """Give one or more orders to the task holder. The orders form a series. The series is done when its last order
        is done. If one of the orders fails, the series fails.
        """
        self._first_order = self._order + 1
        for order in orders:
            self._order += 1
            self._effects.append(events.GiveOrder(self._order, order))

    def wait(self, after_ms: int) -> None:
        self._timer += 1
        self._effects.append(events.SetTimer(self._timer, self.now_ms + after_ms))

    def pause(self, unanswered: events.CallUnanswered) -> None:
        """Set a timer for the repetition of a call that got no usable answer."""
        self._failures += 1
        self.wait(calls.pause_before_repetition_ms(self._failures, unanswered.retry_after_ms, unanswered.chance))

    # --- Methods for the call that waits for its answer.

    def begin_another_call(self) -> None:
        """Set the number of failures to 0. Call this method before each call to the coordinator that is not a
        repetition.
        """
        self._failures = 0

    def give_up_call(self) -> None:
        """Stop waiting for the answer to the present call. The member then ignores the answer to this call, and the
        timer for its repetition.
        """
        self._call += 1
        self._timer += 1
        self.call_is_out = False

    # --- Methods for answers.

    def takes_answer(self, answer: CallAnswer) -> bool:
        """If this is the answer to the present call, stops waiting for the answer and returns True."""
        if answer.call != self._call or not self.call_is_out:
            return False
        self.call_is_out = False
        return True

    def takes_timer(self, timer: int) -> bool:
        """If this is the timer that was set last, removes the timer and returns True."""
        if timer != self._timer:
            return False
        self._timer += 1
        return True

    def is_last_order(self, number: int) -> bool:
        return number == self._order

    def is_present_order(self, number: int) -> bool:
        """Returns True if the order with this number belongs to the latest series of orders."""
        return number >= self._first_order

    def _next_call(self) -> int:
        self._call += 1
        self._timer += 1
        self.call_is_out = True
        return self._call


class Departure:
    """Remembers the reason why a member ends. Also makes the member's last calls to the coordinator. Before the last
    calls of a member, `MemberMachine` gives up the member's tasks.

    If the group knows the member, the member sends a leave call. If the first join is not answered yet, the member
    waits up to `LAST_JOIN_WAIT_MS` for the answer. The answer contains the member id, which the leave call needs.
    Source: `AbstractCoordinator.maybeLeaveGroup`.

    If a method of this class returns a `Phase`, the result is the next phase of the member. `end`: the reason why the
    member ends without an error; None before the end and after an error. `membership`: a member with REMAIN_IN_GROUP
    sends no leave call.
    """

    def __init__(self, standing: Standing, outstanding: Outstanding) -> None:
        self.end: events.MemberEnd | None = None
        self.membership = events.GroupMembershipOperation.LEAVE_GROUP
        self._failure: BaseException | None = None
        self._holder_failure: BaseException | None = None
        self._standing = standing
        self._outstanding = outstanding

    @property
    def is_decided(self) -> bool:
        return self.end is not None or self._failure is not None

    def failed(self, error: BaseException) -> None:
        """Store the error that ends the member. Does nothing if an earlier error is stored."""
        self._failure = self._failure or error

    def holder_failed(self, error: BaseException | None) -> None:
        """Store the error of the task holder. The leave call reports this error, and not a later error of the member,
        which may only follow from the end of the task holder. Does nothing for None, or if an earlier error is stored.
        """
        self._holder_failure = self._holder_failure or error

    def leave(self) -> Phase:
        outstanding = self._outstanding
        if self.membership is events.GroupMembershipOperation.REMAIN_IN_GROUP:
            return self.finish()
        if self._standing.member_id is not None:
            outstanding.give_up_call()
            outstanding.leave(self._standing.member_id, self._holder_failure or self._failure)
        elif outstanding.call_is_out:
            outstanding.wait(LAST_JOIN_WAIT_MS)
        else:
            return self.finish()
        return Phase.LEAVING

    def answered(self, answer: CallAnswer, phase: Phase) -> Phase:
        """Handle the answer to a call. `phase`: the present phase, which is CLOSING or LEAVING."""
        # the answer to a first join contains the member id, which the leave call needs
        if isinstance(answer, events.JoinReplied):
            self._standing.member_id = answer.reply.member_id
        if phase is not Phase.LEAVING:
            return phase
        return self.leave() if isinstance(answer, events.JoinReplied) else self.finish()

    def finish(self) -> Phase:
        self._outstanding.want(events.MemberEnded(None if self._failure is not None else self.end, self._failure))
        return Phase.ENDED
