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
    if state == "Unknown":
        return Badge(state, "warn", "its coordinator does not answer")
    if draining:
        return Badge(state, "warn", "members are told to stop")
    return Badge(state, _TONES.get(state, "idle"))


UNREADABLE = Badge("Unreadable", "bad", "its log cannot be read")


_CAUSES = {
    "member-joined": "a member joined",
    "subscription-changed": "a member's subscription changed",
    "static-member-replaced": "a static member was started again",
    "member-left": "a member left",
    "member-removed": "a member was removed",
    "definition-changed": "the group was declared anew",
    "followup-rebalance": "the rebalance before it asked for a follow-up",
    "probing-rebalance": "a probing rebalance was due",
    "topics-changed": "topics changed",
    "led-elsewhere": "the leader elsewhere did not say why",
    "operator-requested": "an operator asked for it",
    "instance-drained": "an instance is drained",
}


def cause_in_words(reason: str) -> str:
    """`reason`: why a rebalance began: a word of `RebalanceReason`, or a sentence, which stays as it is."""
    return _CAUSES.get(reason, reason)
