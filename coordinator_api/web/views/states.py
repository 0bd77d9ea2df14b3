"""The state of a group as a word, a tone and a shape, so that it can be told apart without colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "busy", "idle", "warn", "bad"]
"""Each has its own shape: disc, half disc, ring, triangle, square."""

_TONES: dict[str, Tone] = {
    "Stable": "good",
    "PreparingRebalance": "busy",
    "CompletingRebalance": "busy",
    "Empty": "idle",
    "Dead": "bad",
}
_CONDITIONS = {
    "MISSING_SOURCE_TOPICS": "waits for source topics",
    "REBALANCE_FAILED": "the last rebalance failed",
    "NO_TASKS": "no member has a task",
    "PAUSED": "paused by an operator",
}


@dataclass(frozen=True, slots=True)
class Badge:
    """`word`: what is read. `more`: a few words that explain it, may be empty."""

    word: str
    tone: Tone
    more: str = ""


def state_badge(state: str, condition: str | None = None, *, draining: bool = False) -> Badge:
    """`condition`: why a Stable group does no work."""
    if condition is not None:
        return Badge(state, "warn", _CONDITIONS.get(condition, condition))
    if draining:
        return Badge(state, "warn", "members are told to stop")
    return Badge(state, _TONES.get(state, "idle"))


UNREADABLE = Badge("Unreadable", "bad", "its log cannot be read")
