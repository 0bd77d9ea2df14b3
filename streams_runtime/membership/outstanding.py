"""Calls, orders and timers of a member that are not answered yet: one call, the orders that it gave together, and one
timer; and the last calls of a member that ends.

Each has a number, which the event that answers it names. So the answer to something that the member has given up
meanwhile changes nothing.
"""

from __future__ import annotations

from streams_runtime.membership.call_answers import pause_before_repetition_ms
from streams_runtime.membership.calls import JoinRequest
from streams_runtime.membership.member_events import (
    CallRefused,
    CallUnanswered,
    FetchReplied,
    GiveOrder,
    JoinReplied,
    LeaveReplied,
    MemberEffect,
    MemberEnd,
    MemberEnded,
    Order,
    SendFetch,
    SendJoin,
    SendLeave,
    SetTimer,
)
from streams_runtime.membership.member_standing import Phase, Standing

LAST_JOIN_WAIT_MS = 2_000
"""How long a closing member waits for the answer to its first join, without which it cannot leave."""

CallAnswer = JoinReplied | FetchReplied | LeaveReplied | CallRefused | CallUnanswered


class Outstanding:
    """Collects what the member wants done. `now_ms`: the time of the event that is being handled."""

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
        """One that is not answered."""
        self._effects.append(effect)

    def taken(self) -> list[MemberEffect]:
        """What was wanted since the last time, in that order."""
        effects, self._effects = self._effects, []
        return effects

    def join(self, request: JoinRequest) -> None:
        self._effects.append(SendJoin(self._next_call(), request))

    def fetch(self, member_id: str, min_generation: int) -> None:
        self._effects.append(SendFetch(self._next_call(), member_id, min_generation))

    def leave(self, member_id: str) -> None:
        self._effects.append(SendLeave(self._next_call(), member_id))

    def give(self, *orders: Order) -> None:
        """The answer to the last of them counts, and the failure of any."""
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
        """Its answer does not count any more, nor does the pause before its repetition."""
        self._call += 1
        self._timer += 1
        self._call_is_out = False

    # --- what is answered

    def takes_answer(self, answer: CallAnswer) -> bool:
        """Whether it is that of the call that is out, which now is not out any more."""
        if answer.call != self._call or not self._call_is_out:
            return False
        self._call_is_out = False
        return True

    def takes_timer(self, timer: int) -> bool:
        """Whether it is the one that was set last, which is now over."""
        if timer != self._timer:
            return False
        self._timer += 1
        return True

    def is_last_order(self, number: int) -> bool:
        return number == self._order

    def is_present_order(self, number: int) -> bool:
        """One of those that were given together last."""
        return number >= self._first_order

    def _next_call(self) -> int:
        self._call += 1
        self._timer += 1
        self._call_is_out = True
        return self._call


class Departure:
    """How a member ends: why, and its last calls. `MemberMachine` decides what it does with its tasks before that.

    A member that the group knows leaves it. One whose first join is on its way waits a short time for the answer,
    without which it cannot leave. Source: `AbstractCoordinator.maybeLeaveGroup`.

    Each step returns the phase that the member is in after it. `end`, `failure`: why it ends; the failure counts.
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
