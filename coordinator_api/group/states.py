"""The enumerations of the group protocol: states, reasons, outcomes and refusals.

The names of the states are the names that Kafka prints. Source: `ClassicGroupState`.
"""

from enum import StrEnum


class GroupState(StrEnum):
    """The state of a group.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance -> ... A group that loses its
    last member is Empty again. A deleted group is Dead and stays Dead.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class RebalanceReason(StrEnum):
    """The reason for which a rebalance was started."""

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
    OPERATOR_REQUESTED = "operator-requested"
    INSTANCE_DRAINED = "instance-drained"


class RebalanceOutcome(StrEnum):
    """The outcome of a rebalance.

    `stable`: no other rebalance is due. `follow-up`: a member still has to revoke a task. After `follow-up`, the next
    rebalance starts by itself once all members have fetched their assignments. `probing`: the next rebalance starts at
    the probing deadline. `settled`: the leader asked for an immediate follow-up, but its input and its decision were
    the same as before. After `settled`, no follow-up starts, because a follow-up would change nothing. `error`: the
    members got an error assignment. After an error, a PUT, a join or a change of topics starts a new rebalance.
    """

    STABLE = "stable"
    FOLLOW_UP = "follow-up"
    PROBING = "probing"
    SETTLED = "settled"
    ERROR = "error"


class HoldEnd(StrEnum):
    """The outcome of the wait for approval of a held rebalance.

    After `approved`, `time-limit` and `hold-ended` (the hold was switched off), the rebalance was carried out. After
    `discarded`, every task was kept in place. `replaced`: a new rebalance began before the held rebalance was decided
    on.
    """

    APPROVED = "approved"
    DISCARDED = "discarded"
    TIME_LIMIT = "time-limit"
    HOLD_ENDED = "hold-ended"
    REPLACED = "replaced"


class KeptBecause(StrEnum):
    """The reason why a generation is computed again, with every task of a live owner kept in place."""

    DISCARDED = "discarded"
    TASKS_WITHOUT_OWNER = "tasks-without-owner"


class RemovalReason(StrEnum):
    """The reason for which a member was removed."""

    LEFT = "left"
    SESSION_EXPIRED = "session-expired"
    NEVER_HEARD_FROM = "never-heard-from"
    REBALANCE_TIMEOUT = "rebalance-timeout"
    ASSIGNMENT_NOT_FETCHED = "assignment-not-fetched"
    DISCONNECTED = "disconnected"
    GRACE_ENDED = "grace-ended"


class RejectionCode(StrEnum):
    """Kafka's names of errors. The comments give the HTTP status and the reaction of the client. Source: `Errors`."""

    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"  # 404.
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"  # 404: drop all tasks, and join again without a member id.
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"  # 409: drop all tasks, and rejoin.
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"  # 409: rejoin, and keep working.
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"  # 409: end the process, because a newer incarnation has joined.
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"  # 409.
    NOT_COORDINATOR = "NOT_COORDINATOR"  # 409: another leader leads the group.
    # 409: this coordinator leads the group, or the topology differs.
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"  # 429.
    POLICY_VIOLATION = "POLICY_VIOLATION"  # 429: stop, because a quota of the tenant is reached.
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"  # 422.
    INVALID_REQUEST = "INVALID_REQUEST"  # 422.
