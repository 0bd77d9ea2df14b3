"""A caller whom a service knows: its name, its right, and the groups that it may see.

Four rights, each of which includes the one before it. A prefix bounds them to groups whose ids begin with it, as
Kafka's ACLs do with the pattern type PREFIXED. Source of the idea: `org.apache.kafka.common.acl`; its operations are
gathered into four here, because a group has few calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Right(StrEnum):
    """What a caller may do.

    reader: look. member: declare a group, join and leave it, report a rebalance. operator: drain, delete and repair
    groups, and replace a running topology. admin: create and revoke tokens.
    """

    READER = "reader"
    MEMBER = "member"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: Right) -> bool:
        """Whether who has this right may do what `other` allows."""
        return _ORDER[self] >= _ORDER[other]


_ORDER = {right: place for place, right in enumerate(Right)}


@dataclass(frozen=True, slots=True)
class Principal:
    """`group_prefix`: what the ids of its groups begin with; empty for every group. It is also the tenant whose quotas
    count.
    """

    name: str
    right: Right
    group_prefix: str = ""

    @property
    def sees_all(self) -> bool:
        """Whether it sees the groups of every tenant."""
        return not self.group_prefix

    def sees(self, group_id: str) -> bool:
        """Whether the group is one of its own."""
        return group_id.startswith(self.group_prefix)

    def may(self, right: Right) -> bool:
        return self.right.includes(right)


ANYBODY = Principal("anybody on this machine", Right.ADMIN)
"""Who calls a service that has no tokens, and listens on loopback only."""
