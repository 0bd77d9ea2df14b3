"""Rebalances of a group that another leader leads, as its leader would report them."""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member
from assignor.recording import parse_rebalance_input, rebalance_document
from tests.coordinator_api.group_members import definition, subscription

NOW_MS = 1_700_000_000_000
FIRST = "11111111-1111-1111-1111-111111111111"
SECOND = "22222222-2222-2222-2222-222222222222"


def new_name() -> str:
    return f"streams-{uuid.uuid4().hex[:12]}"


def reported(
    group_id: str, generation_id: int, members: Mapping[str, Member] | None = None, **changes: object
) -> dict[str, Any]:
    """A rebalance/1 of source kafka with what 4.3.1 decides. `changes`: of its definition."""
    document = definition(**{"partitions": 2, **changes})  # type: ignore[arg-type]
    snapshot = parse_rebalance_input({**document, "leader_process_id": FIRST, "members": {}})
    snapshot = replace(snapshot, members=members or two_members())
    return rebalance_document(
        id=f"{group_id}-{generation_id}",
        group_id=group_id,
        generation_id=generation_id,
        now_ms=NOW_MS,
        source="kafka",
        snapshot=snapshot,
        result=assign(snapshot, NOW_MS),
    )


def two_members() -> dict[str, Member]:
    """The first runs 0_0 and 0_1, the second is new and far behind: a warm-up, and a probing rebalance."""
    return {
        "first-consumer": Member(subscription(FIRST, {"0_0": -2, "0_1": -2}, owned=(0, 1)), "first-client", "i-1"),
        "second-consumer": Member(subscription(SECOND), "second-client", None),
    }
