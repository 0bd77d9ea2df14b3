"""The enumerations of the group protocol: states, reasons, outcomes and refusals.

The names of the states are the names that Kafka prints. Source: `ClassicGroupState`.
"""

from enum import StrEnum


class GroupState(StrEnum):
    """The state of a group.

    A group with members goes through these states again and again:

        Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance -> ...

    A group becomes Empty again when it loses its last member. A deleted group is Dead and stays Dead.
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

    - `stable`: no other rebalance is due.
    - `follow-up`: a member still has to revoke a task. The next rebalance starts by itself, once all members have
      fetched their assignments.
    - `probing`: the next rebalance starts at the probing deadline.
    - `settled`: no follow-up starts, although the leader asked for one. The input and the decision were the same as
      before, so a follow-up would change nothing.
    - `error`: the members got an error assignment. A PUT, a join or a change of topics starts a new rebalance.
    """

    STABLE = "stable"
    FOLLOW_UP = "follow-up"
    PROBING = "probing"
    SETTLED = "settled"
    ERROR = "error"


class HoldEnd(StrEnum):
    """The outcome of the wait for approval of a held rebalance.

    - `approved`: the rebalance was carried out, because an operator approved it.
    - `time-limit`: the rebalance was carried out, because the time limit of the wait passed.
    - `hold-ended`: the rebalance was carried out, because an operator switched the hold off.
    - `discarded`: every task stayed with its owner, because an operator discarded the rebalance.
    - `replaced`: a new rebalance began during the wait.
    """

    APPROVED = "approved"
    DISCARDED = "discarded"
    TIME_LIMIT = "time-limit"
    HOLD_ENDED = "hold-ended"
    REPLACED = "replaced"


class KeptBecause(StrEnum):
    """The reason why a generation is computed again, without taking a task from a live owner."""

    DISCARDED = "discarded"
    TASKS_WITHOUT_OWNER = "tasks-without-owner"


class RemovalReason(StrEnum):
    """The reason for which a member was removed."""

    LEFT = "left"
    SESSION_EXPIRED = "session-expired"
    NO_REQUEST_SINCE_JOIN = "never-heard-from"
    REBALANCE_TIMEOUT = "rebalance-timeout"
    ASSIGNMENT_NOT_FETCHED = "assignment-not-fetched"
    DISCONNECTED = "disconnected"
    GRACE_ENDED = "grace-ended"


class RejectionCode(StrEnum):
    """Kafka's names of errors, for refused requests. Source: `Errors`.

    Each comment describes the cause, or the reaction of the client. The file `coordinator_api/http/problems.py` maps
    the errors to HTTP status codes.
    """

    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    # The member drops all its tasks, and joins again without a member id.
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    # The member drops all its tasks, and rejoins.
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    # The member rejoins, and keeps processing its tasks.
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    # The process of the member ends, because a newer incarnation has joined.
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    # Another leader leads the group.
    NOT_COORDINATOR = "NOT_COORDINATOR"
    # This coordinator leads the group, or the topology differs.
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    # The process of the member ends, because a quota of the tenant is reached.
    POLICY_VIOLATION = "POLICY_VIOLATION"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    INVALID_REQUEST = "INVALID_REQUEST"
