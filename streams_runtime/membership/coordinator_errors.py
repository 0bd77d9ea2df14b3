"""The errors of a coordinator: problem+json (RFC 9457) whose `code` is Kafka's error name.

The names, and what a member does about each, are Kafka's: `UNKNOWN_MEMBER_ID` and `ILLEGAL_GENERATION` take its tasks
away, `REBALANCE_IN_PROGRESS` asks for a rejoin, `FENCED_INSTANCE_ID` and `FENCED_MEMBER_EPOCH` end the member.
Source: `Errors`.
"""

from __future__ import annotations

from typing import ClassVar

from assignor.errors import AssignorFault, InputError, Unavailable


class CoordinatorError(AssignorFault):
    """The coordinator refused the call. `code`: Kafka's error name; `status`: of HTTP; `detail`: its explanation."""

    known_code: ClassVar[str] = ""

    def __init__(self, code: str, status: int, detail: str) -> None:
        super().__init__(f"{code} ({status}): {detail}" if detail else f"{code} ({status})")
        self.code = code
        self.status = status
        self.detail = detail


class GroupIdNotFound(CoordinatorError):
    known_code = "GROUP_ID_NOT_FOUND"


class UnknownMemberId(CoordinatorError):
    known_code = "UNKNOWN_MEMBER_ID"


class IllegalGeneration(CoordinatorError):
    known_code = "ILLEGAL_GENERATION"


class RebalanceInProgress(CoordinatorError):
    known_code = "REBALANCE_IN_PROGRESS"


class FencedInstanceId(CoordinatorError):
    known_code = "FENCED_INSTANCE_ID"


class FencedMemberEpoch(CoordinatorError):
    known_code = "FENCED_MEMBER_EPOCH"


class GroupMaxSizeReached(CoordinatorError):
    known_code = "GROUP_MAX_SIZE_REACHED"


class NotLetIn(CoordinatorError, InputError):
    """Without the coordinator's bearer token: a mistake of whoever called, and the group was not even asked."""

    known_code = "SASL_AUTHENTICATION_FAILED"


class GroupRunsAnotherTopology(CoordinatorError):
    """The group has living members, and they run another topology than the one declared. The detail says how the two
    differ, who declared the other, and what to do.
    """

    known_code = "INCONSISTENT_GROUP_PROTOCOL"


class CoordinatorUnavailable(Unavailable):
    """The coordinator gave no usable answer: it was not reachable, went away during the call, was starting, stopping or
    overloaded. The call can be tried again. `retry_after_s`: not before this time, if the coordinator said so."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


_KNOWN: dict[str, type[CoordinatorError]] = {
    error.known_code: error
    for error in (
        GroupIdNotFound,
        UnknownMemberId,
        IllegalGeneration,
        RebalanceInProgress,
        FencedInstanceId,
        FencedMemberEpoch,
        GroupMaxSizeReached,
        NotLetIn,
        GroupRunsAnotherTopology,
    )
}


def coordinator_error(code: str, status: int, detail: str) -> CoordinatorError:
    """An error of the class that belongs to the code, or of `CoordinatorError` when no class does."""
    return _KNOWN.get(code, CoordinatorError)(code, status, detail)
