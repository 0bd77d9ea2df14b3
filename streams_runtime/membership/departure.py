"""How a member ends: why, and its last calls. What it does with its tasks before that is decided in `member_machine`.

A member that the group knows leaves it. One whose first join is on its way waits a short time for the answer, without
which it cannot leave. Source: `AbstractCoordinator.maybeLeaveGroup`.
"""

from __future__ import annotations

from streams_runtime.membership.member_events import JoinReplied, MemberEnd, MemberEnded
from streams_runtime.membership.member_standing import Phase, Standing
from streams_runtime.membership.outstanding import CallAnswer, Outstanding

LAST_JOIN_WAIT_MS = 2_000
"""How long a closing member waits for the answer to its first join, without which it cannot leave."""


class Departure:
    """Each step gives the phase that the member is in after it. `end`, `failure`: why it ends; the failure counts."""

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
