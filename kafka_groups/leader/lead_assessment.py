"""Whether a group can be led from outside now: the decision before a join, made of what the brokers tell of the group.

The first to join an empty group leads it; who joins one that has a living leader is handed tasks like any other member,
and they would sit idle. The brokers do not tell who leads, so every group with members has a leader that is not ours,
unless our static member is among them. Source: `ClassicGroup.add`, `maybeElectNewJoinedLeader`; KIP-345.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from kafka_groups.leader.own_member import PROTOCOL, PROTOCOL_TYPE

CLASSIC = "classic"


class LeadState(StrEnum):
    """`FREE`: the next to join leads. `OURS`: our static member is in it. `LED`: someone else leads, for now.
    `FOREIGN`: no group of Kafka Streams on the classic protocol.
    """

    FREE = "free"
    OURS = "ours"
    LED = "led"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class LeadAssessment:
    """`words`: one clear line about what stands in the way and what to do; empty when nothing does."""

    standing: LeadState
    words: str = ""


def assess_group(
    group: str,
    group_instance_id: str,
    *,
    group_type: str | None,
    protocol_type: str,
    protocol: str,
    instance_ids: Collection[str | None],
) -> LeadAssessment:
    """`group_type`: None when the brokers do not tell. `instance_ids`: of every member, None for dynamic ones."""
    if group_type is not None and group_type != CLASSIC:
        return LeadAssessment(LeadState.FOREIGN, _newer_protocol(group, group_type))
    if not instance_ids:
        return LeadAssessment(LeadState.FREE)
    if protocol_type not in ("", PROTOCOL_TYPE) or protocol not in ("", PROTOCOL):
        kind = f"protocol {protocol!r} of type {protocol_type!r}"
        return LeadAssessment(
            LeadState.FOREIGN,
            f"group {group!r} is no group of Kafka Streams: its members speak {kind}, not {PROTOCOL!r} of type "
            f"{PROTOCOL_TYPE!r}; name the application.id of a Kafka Streams application",
        )
    if group_instance_id in instance_ids:
        return LeadAssessment(LeadState.OURS)
    return LeadAssessment(LeadState.LED, _led_by_another(group, len(instance_ids)))


def _led_by_another(group: str, members: int) -> str:
    count = f"{members} member{'s' if members != 1 else ''}"
    return (
        f"group {group!r} has {count} and a leader that is not this program's, and the first to join an empty group "
        "leads it: stop its instances and start this before them, or let --wait do that as soon as the group is empty; "
        "--join-anyway joins as a follower, whose tasks sit idle until it leads"
    )


def _newer_protocol(group: str, group_type: str) -> str:
    if group_type == "streams":
        return (
            f"group {group!r} uses group.protocol=streams (KIP-1071): the brokers place its tasks, there is nothing to "
            "lead; run the application with group.protocol=classic"
        )
    return (
        f"group {group!r} is of type {group_type!r}, not {CLASSIC!r}: the brokers assign its partitions, there is "
        "nothing to lead; name the application.id of a Kafka Streams application with group.protocol=classic"
    )
