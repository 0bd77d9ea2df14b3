"""What the list of a group's rebalances says of those that waited for approval."""

from __future__ import annotations

from typing import Any

import pytest

from assignor.commands.tables import View
from coordinator_api.cli.rebalance_commands import rebalance_list


@pytest.mark.parametrize(
    ("hold", "words"),
    [
        ({"ended": None, "by": None, "reason": None}, "It waits since 1970-01-01 00:00:01 UTC."),
        (
            {"ended": "discarded", "by": "olga", "reason": "too early"},
            "Held, then discarded by olga: every task stayed where it was, because: too early.",
        ),
        ({"ended": "time-limit", "by": None, "reason": None}, "Held, then carried out when its time limit had passed."),
    ],
)
def test_should_say_how_a_wait_for_approval_ended(hold: dict[str, Any], words: str) -> None:
    line = {"generation_id": 7, "reason": "member-left", "outcome": "stable", "members": 2, "now_ms": 5, "error": None}

    told = rebalance_list(
        {"rebalances": [{**line, "hold": {**hold, "since_ms": 1_000, "at_ms": None}}, line]}, View(width=200, now_ms=10)
    )

    waited, other = told.splitlines()[1:]
    assert f" {words}  " in waited
    assert other.split() == ["7", "member-left", "stable", "2", "-", "0s"]
