"""Numbers of a page, and the causes and outcomes of a group's rebalances, as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from rebalance_analysis.presentation.quantities import counted, duration_text, utc

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
    return "–" if number is None else _with_thin_spaces(f"{number:,}")


def plural(number: int, one: str) -> str:
    """`1 member`, `2 members`."""
    return _with_thin_spaces(counted(number, one))


def _with_thin_spaces(text: str) -> str:
    return text.replace(",", "\u202f")


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
    waited = "" if hold["at_ms"] is None else f" It waited {duration_text(hold['at_ms'] - hold['since_ms'])}."
    return f"Held, then {end}{why}.{waited}"
