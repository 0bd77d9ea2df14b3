"""Rebalances that waited for approval, on the line of time."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_api.web.time_page import time_line


def hold(ended: str | None) -> dict[str, Any]:
    return {
        "since_ms": 1_000,
        "ended": ended,
        "by": "olga",
        "at_ms": None if ended is None else 126_000,
        "reason": None,
    }


@pytest.mark.parametrize(
    ("outcome", "waited", "words"),
    [
        ("held", hold(None), ("it waits for approval", "held")),
        ("held", hold("replaced"), ("it was never carried out", "held")),
        ("stable", hold("approved"), ("nothing more is due", "stable")),
        ("follow-up", None, ("a member has to give up tasks first, so another rebalance follows", "follow")),
    ],
)
def test_should_tell_what_waits_from_what_was_replaced(
    outcome: str, waited: dict[str, Any] | None, words: tuple[str, str]
) -> None:
    summary = {"generation_id": 7, "now_ms": 5, "reason": "probing-rebalance", "members": 2, "error": None}

    line = time_line(
        [{**summary, "outcome": outcome, "hold": waited}],
        None,
    )

    assert [(each["follows"], each["shape"]) for each in line.rows] == [words]


@pytest.mark.parametrize(
    ("took_ms", "gaps"),
    [
        (400, ["Before generation 7, 2 tasks had no owner for 400\u00a0ms: their instance was gone"]),
        (15_000, ["Before generation 7, 2 tasks had no owner for 15\u00a0s: their instance was gone"]),
        (None, []),
    ],
)
def test_should_draw_the_time_in_which_tasks_of_a_dead_instance_had_no_owner(
    took_ms: int | None, gaps: list[str]
) -> None:
    summary = {"reason": "member-removed", "outcome": "stable", "members": 1, "error": None, "took_ms": took_ms}
    history = {
        "rounds": [
            {
                "generation_id": 7,
                "triggers": [{"kind": "left", "process": "dead"}, {"kind": "joined", "process": "new"}],
                "moves": [
                    {"task": "0_0", "from": "dead", "to": "new"},
                    {"task": "0_1", "from": "dead", "to": "old"},
                    {"task": "0_2", "from": "old", "to": "new"},
                    {"task": "0_3", "from": None, "to": "new"},
                ],
                "held_back": 0,
                "words": "dead is gone",
            }
        ]
    }

    line = time_line(
        [{**summary, "generation_id": 7, "now_ms": 60_000}, {**summary, "generation_id": 6, "now_ms": 0}],
        history,
    )

    assert [gap.text for gap in line.gaps] == gaps
    assert all(gap.width >= 2 and gap.x + gap.width <= line.rows[0]["x"] + 2 for gap in line.gaps)
