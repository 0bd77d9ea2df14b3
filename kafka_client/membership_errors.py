"""What a group coordinator answers a member of a classic group with, other than yes. Source: Kafka's `Errors`."""

from __future__ import annotations

from kafka_client.errors import KafkaClientError, KafkaRefused


class MembershipError(KafkaClientError):
    """Base of the answers that a member lives with; `KafkaRefused` and `KafkaUnavailable` come besides."""


class GroupRebalancing(MembershipError):
    """The group prepares its next generation: join again."""


class StaleGeneration(MembershipError):
    """The group has gone on without this member: join again, under the same member id."""


class UnknownMember(MembershipError):
    """The member is not in the group any more: its session ended, or it was removed. Join anew."""


class FencedInstance(MembershipError):
    """Another member with the same group.instance.id is in its place, for good (KIP-345)."""


class InconsistentProtocol(KafkaRefused):
    """The group's members are of another kind."""


class InvalidSessionTimeout(KafkaRefused):
    """The brokers do not allow a session this short or this long."""
