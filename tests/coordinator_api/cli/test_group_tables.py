"""What the list of a group's rebalances says of those that waited for approval."""

from __future__ import annotations

from typing import Any

import pytest

from assignor.commands.tables import View
from coordinator_api.cli.group_tables import rebalance_list


@pytest.mark.parametrize(
    ("hold", "words"),
    [
        (None, "stable"),
        ({"ended": None, "by": None, "reason": None}, "stable"),
        ({"ended": "discarded", "by": "olga", "reason": "too early"}, "stable, discarded by olga: too early"),
        ({"ended": "time-limit", "by": None, "reason": None}, "stable, time-limit"),
    ],
)
def test_should_say_how_a_wait_for_approval_ended(hold: dict[str, Any] | None, words: str) -> None:
    line = {"generation_id": 7, "reason": "member-left", "outcome": "stable", "members": 2, "now_ms": 5, "error": None}

    told = rebalance_list({"rebalances": [{**line, "hold": hold}]}, View(width=200, now_ms=10))

    row = told.splitlines()[-1]
    assert f" {words}  " in row
