"""Numbers, times, causes and outcomes as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rebalance_analysis.history.wording import duration as exact_duration

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

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
_OUTCOMES = {
    "stable": "nothing more is due",
    "follow-up": "a member has to give up tasks first, so another rebalance follows",
    "probing": "next owners have to catch up, so a probing rebalance is planned",
    "settled": "another rebalance would change nothing",
    "error": "it failed, and members got an error",
    "held": "it waits for approval",
}
_HOLD_ENDS = {
    "approved": "approved by {by}",
    "discarded": "discarded by {by}: every task stayed where it was",
    "time-limit": "carried out when its time limit had passed",
    "hold-ended": "carried out when {by} ended the hold",
    "replaced": "given up, because another rebalance began",
}


def count(number: int | None) -> str:
    """`12 345`, with thin spaces; a dash for what is not known."""
    return "–" if number is None else f"{number:,}".replace(",", "\u202f")


def plural(number: int, one: str) -> str:
    """`1 member`, `2 members`."""
    return f"{count(number)} {one if number == 1 else one + 's'}"


def duration(ms: int) -> str:
    """The two largest units: `2 min 5 s`. A negative one is over: `0 s`. static/countdown.js has the same."""
    left = max(ms, 0)
    parts: list[tuple[int, str]] = []
    for unit_ms, name in _UNITS:
        number, left = divmod(left, unit_ms)
        if number or parts:
            parts.append((number, name))
        if len(parts) == 2:
            break
    return " ".join(f"{number}\u00a0{name}" for number, name in parts if number) or "0\u00a0s"


def utc(at_ms: int) -> str:
    """`2026-11-23 07:23:49 UTC`."""
    return _at(at_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc_iso(at_ms: int) -> str:
    """For `datetime` of a `<time>`."""
    return _at(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")


def _at(at_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a report may have any number
        return datetime.fromtimestamp(0, UTC)


def sentence(text: str) -> str:
    """With a capital letter and a full stop. A name with dots at the beginning, such as that of a config, stays."""
    begins = text if "." in text.partition(" ")[0] else text[:1].upper() + text[1:]
    return begins if begins.endswith((".", "?", "!")) else f"{begins}."


def has_words(query: str, *texts: str) -> bool:
    """Whether each word of the query stands in one of the texts, in whatever case."""
    text = _folded(" ".join(texts))
    return all(word in text for word in _folded(query).split())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def cause_of(reason: str) -> str:
    """`reason`: why a rebalance began: a word of `RebalanceReason`, or a sentence, which stays as it is."""
    return _CAUSES.get(reason, reason)


def outcome_of(outcome: str) -> str:
    """What follows a rebalance. `outcome`: a word of `RebalanceOutcome`."""
    return _OUTCOMES.get(outcome, outcome)


def hold_text(hold: Mapping[str, Any] | None) -> str:
    """How a rebalance's wait for approval ended. `hold`: of a recorded rebalance; None for one that never waited."""
    if hold is None:
        return ""
    if hold["ended"] is None:
        return f"It waits since {utc(hold['since_ms'])}."
    end = _HOLD_ENDS.get(hold["ended"], str(hold["ended"])).format(by=hold["by"] or "somebody")
    why = f", because: {hold['reason']}" if hold["reason"] else ""
    waited = "" if hold["at_ms"] is None else f" It waited {exact_duration(hold['at_ms'] - hold['since_ms'])}."
    return f"Held, then {end}{why}.{waited}"
