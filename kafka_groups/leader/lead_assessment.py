"""Whether a group can be led from outside now. Decided before a join, from what the brokers report of the group. Pure.

The first member to join an empty group leads it. A member that joins a group with a living leader gets tasks like any
other, and this project would let them sit idle. The brokers do not tell which member leads, so a group with members is
taken to have a foreign leader, unless our static member is among them. Source: `ClassicGroup.add`,
`maybeElectNewJoinedLeader`; KIP-345.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from kafka_groups.leader.own_member import PROTOCOL, PROTOCOL_TYPE

CLASSIC = "classic"
_PLACING = "CompletingRebalance"


class LeadState(StrEnum):
    """`FREE`: the next member to join leads. `OURS`: our static member is in the group. `LED`: another member leads
    now. `FOREIGN`: not a Kafka Streams group on the classic protocol.
    """

    FREE = "free"
    OURS = "ours"
    LED = "led"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class LeadAssessment:
    """`obstacle`: one line with what prevents leading and what to do, empty when nothing does. `is_placing`: a
    generation has formed and waits for its leader's assignments.
    """

    state: LeadState
    obstacle: str = ""
    is_placing: bool = False


def assess_group(
    group: str,
    group_instance_id: str,
    *,
    group_type: str | None,
    protocol_type: str,
    protocol: str,
    instance_ids: Collection[str | None],
    group_state: str = "",
) -> LeadAssessment:
    """`group_type`: None when the brokers do not tell it. `instance_ids`: of each member, None for dynamic members."""
    if group_type is not None and group_type != CLASSIC:
        return LeadAssessment(LeadState.FOREIGN, _newer_protocol(group, group_type))
    if not instance_ids:
        return LeadAssessment(LeadState.FREE)
    if protocol_type not in ("", PROTOCOL_TYPE) or protocol not in ("", PROTOCOL):
        kind = f"protocol {protocol!r} of type {protocol_type!r}"
        return LeadAssessment(
            LeadState.FOREIGN,
            f"group {group!r} is not a Kafka Streams group: its members speak {kind}, not {PROTOCOL!r} of type "
            f"{PROTOCOL_TYPE!r}; name the application.id of a Kafka Streams application",
        )
    if group_instance_id in instance_ids:
        return LeadAssessment(LeadState.OURS, is_placing=group_state == _PLACING)
    return LeadAssessment(LeadState.LED, _led_by_another(group, len(instance_ids)))


def _led_by_another(group: str, members: int) -> str:
    count = f"{members} member{'s' if members != 1 else ''}"
    return (
        f"group {group!r} has {count}, and one of them leads it: only the first to join an empty group can. Stop its "
        "instances and start this first, or use --wait to join as soon as the group is empty; --join-anyway joins as "
        "a follower, whose tasks stay idle until it leads"
    )


def _newer_protocol(group: str, group_type: str) -> str:
    if group_type == "streams":
        return (
            f"group {group!r} uses group.protocol=streams (KIP-1071), where the brokers place the tasks and no member "
            "leads; run the application with group.protocol=classic"
        )
    return (
        f"group {group!r} is of type {group_type!r}, not {CLASSIC!r}: the brokers assign its partitions and no member "
        "leads; name the application.id of a Kafka Streams application with group.protocol=classic"
    )
