"""Rebalances that waited for approval, on the line of time."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_api.web.views.time_line import time_line


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
        ("held", hold(None), ("waits for approval", "held")),
        ("held", hold("replaced"), ("was never carried out", "held")),
        ("stable", hold("approved"), ("settled", "stable")),
        ("follow-up", None, ("a follow-up was asked for", "follow")),
    ],
)
def test_should_tell_what_waits_from_what_was_replaced(
    outcome: str, waited: dict[str, Any] | None, words: tuple[str, str]
) -> None:
    summary = {"generation_id": 7, "now_ms": 5, "reason": "probing-rebalance", "members": 2, "error": None}

    line = time_line(
        [{**summary, "outcome": outcome, "hold": waited}],
        None,
        newer_ms=None,
        next_before=None,
        page_before=None,
        limit=20,
        limits=(5, 80),
        pair=(None, None),
    )

    assert [(each.outcome, each.shape) for each in line.rows] == [words]
