"""A task's story: where it is, who else could have it, which rules decided, and where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_api.web.views.words import count, duration, plural

LATEST_OFFSET, UNKNOWN_OFFSET_SUM = -2, -3


@dataclass(frozen=True, slots=True)
class ToldCopy:
    """`about`: its thread and its lag, in words; may be empty."""

    role: str
    instance: str
    about: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """An instance that could have it. `lag`: in words."""

    instance: str
    role: str | None
    lag: str
    standing: str
    had_it: bool


@dataclass(frozen=True, slots=True)
class StoryRound:
    """A rebalance, or several in a row in which nothing changed for the task."""

    generations: str
    at_ms: int | None
    change: str
    trigger: str | None
    was: str | None
    copies: tuple[ToldCopy, ...]
    steps: tuple[str, ...]
    notes: tuple[str, ...]
    is_dull: bool


@dataclass(frozen=True, slots=True)
class TaskStoryView:
    """`summary`: sentences. `older`: the story before this generation is on another page; None when there is none."""

    task: str
    generation_id: int
    copies: tuple[ToldCopy, ...]
    summary: tuple[str, ...]
    waiting: str | None
    waits_until_ms: int | None
    candidates: tuple[CandidateRow, ...]
    more_candidates: int
    acceptable_lag: int | None
    steps: tuple[str, ...]
    rounds: tuple[StoryRound, ...]
    older: int | None

    @classmethod
    def of(cls, document: Mapping[str, Any], older: int | None) -> TaskStoryView:
        """`document`: of `http.task_stories.task_story`."""
        waiting, candidates = document["waiting"], document["candidates"]
        return cls(
            document["task"],
            document["generation_id"],
            _copies(document["copies"]),
            tuple(_summary(document)),
            None if waiting is None else _waiting(waiting),
            None if waiting is None else waiting["next_round_ms"],
            tuple(_candidate(each) for each in candidates["listed"]),
            candidates["more"],
            candidates.get("acceptable_lag"),
            tuple(document["steps"]),
            tuple(_round(each) for each in document["rounds"]),
            older,
        )


def _copies(copies: Sequence[Mapping[str, Any]]) -> tuple[ToldCopy, ...]:
    told = []
    for each in copies:
        parts = [each["thread"] or "", _lag(each["lag"]) if each["lag"] is not None else ""]
        parts.append("not handed out yet" if each["held_back"] else "")
        told.append(ToldCopy(each["role"], each["instance"], ", ".join(part for part in parts if part)))
    return tuple(told)


def _lag(lag: int | None) -> str:
    if lag is None:
        return "not known"
    if lag < 0:
        return "runs it" if lag == LATEST_OFFSET else "lag not known"
    return f"{plural(lag, 'record')} behind" if lag else "nothing behind"


def _candidate(each: Mapping[str, Any]) -> CandidateRow:
    lag = each["lag"]
    standing = "has no state to restore" if lag is None else "caught up" if each["caught_up"] else "not caught up"
    return CandidateRow(each["instance"], each["role"], "–" if lag is None else _lag(lag), standing, each["had_it"])


def _summary(document: Mapping[str, Any]) -> list[str]:
    rebalances, moves = document["rebalances"], document["moves"]
    moved = {0: "It never moved", 1: "It moved once"}.get(moves, f"It moved {count(moves)} times")
    among = "one recorded rebalance" if rebalances == 1 else f"last {plural(rebalances, 'recorded rebalance')}"
    told = [f"{moved} in the {among}."]
    if document["warm_up_rounds"]:
        told.append(f"{plural(document['warm_up_rounds'], 'rebalance')} had a warm-up copy of it.")
    if document["without_owner_ms"]:
        told.append(f"It had no owner for at most {duration(document['without_owner_ms'])} between rebalances.")
    if document["without_owner_since_ms"] is not None:
        told.append("It has no owner since the last rebalance.")
    if document["target"] is not None:
        told.append(f"It belongs on {document['target']} once every instance is caught up.")
    if document["differs"]:
        told.append("The recording has it elsewhere than this program places it. The reasons are of this program.")
    if document["unreadable"]:
        told.append(f"{plural(document['unreadable'], 'rebalance')} cannot be run again here, and is left out.")
    return told


_WAITS = {
    "waiting-for-revocation": "It waits until {member} gives it up.",
    "warm-up": "It waits until {instance} has caught up ({lag}).",
    "warm-up-budget-spent": "{instance} waits for its turn at warming up: max.warmup.replicas is used up.",
}


def _waiting(waiting: Mapping[str, Any]) -> str:
    sentence = _WAITS.get(waiting["kind"], "It waits for {instance}.")
    return sentence.format(
        member=waiting["member"] or "its owner", instance=waiting["instance"] or "its owner", lag=_lag(waiting["lag"])
    )


def _round(each: Mapping[str, Any]) -> StoryRound:
    first, last = each["from_generation_id"], each["generation_id"]
    notes = []
    if each["error"] is not None:
        notes.append(f"The rebalance failed: {each['error']}.")
    if each["led_by"] is not None:
        notes.append(f"Led by {each['led_by']}.")
    if each["differs"]:
        notes.append("The recorded placement differs from this program's.")
    if each["not_recorded"]:
        notes.append(f"Not recorded before it: {plural(each['not_recorded'], 'rebalance')}.")
    return StoryRound(
        f"Generation {count(last)}" if first == last else f"Generations {count(first)} to {count(last)}",
        each["now_ms"],
        each["change"],
        each["trigger"],
        each["was"] if each["change"] != "stays" else None,
        _copies(each["copies"]),
        tuple(each["steps"]),
        tuple(notes),
        each["count"] > 1 or each["change"] in ("stays", "not there"),
    )
