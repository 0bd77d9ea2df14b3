"""The errors of the Kafka client, all subclasses of `KafkaClientError`.

- `KafkaUnavailable`: no broker answered in time. The caller may try again later.
- `KafkaRefused`: the brokers refuse the request until the user changes something. The subclasses of `KafkaRefused` are
  `TopicHasOtherPartitions`, `InconsistentProtocol` and `InvalidSessionTimeout`.
- `UnknownTopic`: the topic or the partition does not exist.
- `MembershipError`: the group coordinator tells a member to rejoin or to end. The subclasses of `MembershipError` are
  `GroupRebalancing`, `StaleGeneration`, `UnknownMember` and `FencedInstance`.
- `NotNow`: one try failed, and `connections.call` tries again.

The message of each error is one line with the address, the request, and advice about the cause. Commands print the
message unchanged.
"""

from typing import ClassVar

from assignor.errors import AssignorFault, Unavailable


class KafkaClientError(AssignorFault):
    """Base of all errors of this package. `retriable`: True if the same request may succeed later. `code`: Kafka's
    error code; None if no broker answered.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class KafkaUnavailable(KafkaClientError, Unavailable):
    """A request to the cluster did not succeed within `default.api.timeout.ms`, in spite of retries."""

    retriable: ClassVar[bool] = True


class NotNow(KafkaClientError):
    """A try failed, for example because a partition has no leader at present. A later try may succeed. The error's
    message gives the reason.

    `connections.call` catches NotNow and tries again, so callers of `ClusterAdmin` never see NotNow.
    """

    retriable: ClassVar[bool] = True


class KafkaRefused(KafkaClientError):
    """The brokers refused the request because of its credentials, rights, version or values.

    The error's message says what the user has to change. `code`: Kafka's error code; None if the connection itself was
    refused.
    """


class TopicHasOtherPartitions(KafkaRefused):
    """A topic to be created exists with another number of partitions."""


class UnknownTopic(KafkaClientError):
    """The topic does not exist, or it has no partition with the requested number."""


class MembershipError(KafkaClientError):
    """Base class of the errors with which the group coordinator tells a member of a classic group to rejoin or to
    end.
    """


class GroupRebalancing(MembershipError):
    """The group is preparing its next generation, so the member has to join again. Source: REBALANCE_IN_PROGRESS."""


class StaleGeneration(MembershipError):
    """The group is in a later generation, so the member has to join again with its member id. Source:
    ILLEGAL_GENERATION.
    """


class UnknownMember(MembershipError):
    """The coordinator does not know this member, because the member's session expired or the member was removed. The
    member has to join as a new member.

    Source: UNKNOWN_MEMBER_ID.
    """


class FencedInstance(MembershipError):
    """Another member with the same group.instance.id has replaced this member for good (KIP-345).

    Source: FENCED_INSTANCE_ID.
    """


class InconsistentProtocol(KafkaRefused):
    """The other members of the group use another protocol type, or support none of this member's protocols. Source:
    INCONSISTENT_GROUP_PROTOCOL.
    """


class InvalidSessionTimeout(KafkaRefused):
    """The brokers do not allow a session time-out of this length. Source: INVALID_SESSION_TIMEOUT."""
