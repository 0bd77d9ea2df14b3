"""The words of the group protocol: states, why a round is prepared, how a round ended, why a member went.

State names are Kafka's own, as they are printed. Source: `ClassicGroupState`.
"""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """Where a group stands.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ... ; without members back to
    Empty; a deleted group is Dead for good.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class RebalanceReason(StrEnum):
    """Why a round is prepared."""

    MEMBER_JOINED = "member-joined"
    SUBSCRIPTION_CHANGED = "subscription-changed"
    STATIC_MEMBER_REPLACED = "static-member-replaced"
    MEMBER_LEFT = "member-left"
    MEMBER_REMOVED = "member-removed"
    DEFINITION_CHANGED = "definition-changed"
    FOLLOWUP_REBALANCE = "followup-rebalance"
    PROBING_REBALANCE = "probing-rebalance"
    TOPICS_CHANGED = "topics-changed"
    LED_ELSEWHERE = "led-elsewhere"


class RebalanceOutcome(StrEnum):
    """How a round ended.

    `stable`: nothing more is due. `follow-up`: a task waits to be revoked, the next round starts by itself. `probing`:
    the next round starts at the probing deadline. `settled`: the round asked for an immediate follow-up but decided
    exactly what the round before it decided, from the same input; nothing can change any more, so no follow-up is
    started. `error`: the members got an error assignment; the next PUT or join starts a new round.
    """

    STABLE = "stable"
    FOLLOW_UP = "follow-up"
    PROBING = "probing"
    SETTLED = "settled"
    ERROR = "error"


class RemovalReason(StrEnum):
    """Why a member is not one any more."""

    LEFT = "left"
    SESSION_EXPIRED = "session-expired"
    NEVER_HEARD_FROM = "never-heard-from"
    REBALANCE_TIMEOUT = "rebalance-timeout"
    ASSIGNMENT_NOT_FETCHED = "assignment-not-fetched"


class RejectionCode(StrEnum):
    """Kafka's error names; a comment gives the HTTP status of each. Source: `Errors`."""

    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"  # 404
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"  # 404: drop every task, join anew without a member id
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"  # 409: drop every task, rejoin
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"  # 409: rejoin, keep working
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"  # 409: a newer incarnation took over; stop for good
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"  # 409
    NOT_COORDINATOR = "NOT_COORDINATOR"  # 409: the group is led elsewhere
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"  # 409: the group is led here, not where it was said
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"  # 429
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"  # 422
    INVALID_REQUEST = "INVALID_REQUEST"  # 422
