"""A group's rebalances on a line: a table with the same values stands below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from assignor.story.triggers import TriggerKind
from coordinator_api.web.views.states import cause_in_words
from coordinator_api.web.views.words import duration, plural, utc

WIDTH, LINE_Y = 900, 60
_SHORT_MS = 10_000
_LEFT, _RIGHT = 30, WIDTH - 30
_OUTCOMES = {
    "stable": ("settled", "stable"),
    "follow-up": ("a follow-up was asked for", "follow"),
    "probing": ("next owners have to catch up: a probing rebalance was planned", "probing"),
    "settled": ("another one would have changed nothing", "stable"),
    "error": ("failed: members got an error", "failed"),
}
_WAITS, _NEVER_CARRIED_OUT = ("waits for approval", "held"), ("was never carried out", "held")
_HOLD_ENDS = {
    "approved": "approved by {by}",
    "discarded": "discarded by {by}: every task stayed where it was",
    "time-limit": "carried out when its time limit had passed",
    "hold-ended": "carried out when {by} ended the hold",
    "replaced": "given up, because another rebalance began",
}


@dataclass(frozen=True, slots=True)
class Passed:
    """One rebalance. `took_ms`: until its assignments were computed; None when that is not known. `outcome`: what
    followed, in words. `held`: how its wait for an approval ended, empty when it did not wait. `shape`: of its mark.
    `until_next_ms`: None for the last one. `ownerless`: tasks that it held back, which nobody ran until the next one.
    `moved` and `ownerless`: None when the recording cannot be told. `triggers`: empty when it cannot be told, or
    nothing is known to have changed.
    """

    generation_id: int
    at_ms: int
    cause: str
    triggers: str
    took_ms: int | None
    outcome: str
    held: str
    shape: str
    until_next_ms: int | None
    moved: int | None
    ownerless: int | None
    members: int
    error: str | None
    x: float
    is_before: bool
    is_after: bool


@dataclass(frozen=True, slots=True)
class OwnerlessTime:
    """Time in which tasks had no owner, as far as recordings tell. `words`: which ones, and for how long."""

    x: float
    width: float
    words: str


@dataclass(frozen=True, slots=True)
class TimeLine:
    """`rows`: newest first. `older`, `newest`, `zoom_in`, `zoom_out`: addresses; None where there is nothing."""

    rows: tuple[Passed, ...]
    gaps: tuple[OwnerlessTime, ...]
    from_ms: int
    until_ms: int
    older: str | None
    newest: str | None
    fewer: str | None
    more: str | None
    width: int


def time_line(
    summaries: Sequence[Mapping[str, Any]],
    story: Mapping[str, Any] | None,
    *,
    newer_ms: int | None,
    next_before: int | None,
    page_before: int | None,
    limit: int,
    limits: tuple[int, int],
    pair: tuple[int | None, int | None],
) -> TimeLine:
    """`summaries`: as `GET .../rebalances` lists them. `story`: of `page_computations.tell_history`; None when
    it cannot be told. `newer_ms`: when the rebalance after these began; None when there is none.

    `pair`: the generations of the two that are compared.
    """
    told = {each["generation_id"]: each for each in (story or {"rounds": []})["rounds"]}
    times = [each["now_ms"] for each in summaries]
    from_ms, until_ms = (min(times), max(times)) if times else (0, 0)
    span = max(until_ms - from_ms, 1)
    chosen = _chosen(pair)

    def x(at_ms: int) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * (at_ms - from_ms) / span, 1)

    rows: list[Passed] = []
    gaps: list[OwnerlessTime] = []
    next_ms = newer_ms
    for each in summaries:
        generation, at_ms = each["generation_id"], each["now_ms"]
        round_ = told.get(generation)
        words, shape = _followed(each)
        moved = None if round_ is None else sum(1 for move in round_["moves"] if move["from"] is not None)
        ownerless = None if round_ is None else round_["held_back"]
        until = None if next_ms is None else max(next_ms - at_ms, 0)
        rows.append(
            Passed(
                generation,
                at_ms,
                cause_in_words(each["reason"]),
                "" if round_ is None else round_["words"],
                each.get("took_ms"),
                words,
                hold_in_words(each.get("hold")),
                shape,
                until,
                moved,
                ownerless,
                each["members"],
                each["error"],
                x(at_ms),
                pair[0] == generation,
                pair[1] == generation,
            )
        )
        if ownerless and until is not None:
            end = x(min(at_ms + until, until_ms))
            said = f"After generation {generation}, {_had_no_owner(ownerless, until)}: the rebalance held them back"
            gaps.append(OwnerlessTime(x(at_ms), max(end - x(at_ms), 2), said))
        left, took_ms = 0 if round_ is None else _left_behind(round_), each.get("took_ms")
        if left and took_ms is not None:
            begins = max(x(at_ms - took_ms), _LEFT)
            said = f"Before generation {generation}, {_had_no_owner(left, took_ms)}: their instance was gone"
            gaps.append(OwnerlessTime(begins, max(x(at_ms) - begins, 2), said))
        next_ms = at_ms
    here = {} if page_before is None else {"before_generation": page_before}
    least, most = limits
    return TimeLine(
        tuple(rows),
        tuple(gaps),
        from_ms,
        until_ms,
        None if next_before is None else _address({"before_generation": next_before, "limit": limit, **chosen}),
        None if page_before is None else _address({"limit": limit, **chosen}),
        None if limit <= least else _address({**here, "limit": max(limit // 2, least), **chosen}),
        None if limit >= most or next_before is None else _address({**here, "limit": min(limit * 2, most), **chosen}),
        WIDTH,
    )


def _had_no_owner(tasks: int, ms: int) -> str:
    long = f"{ms}\u00a0ms" if ms < _SHORT_MS else duration(ms)
    return f"{plural(tasks, 'task')} had no owner for {long}"


def _left_behind(round_: Mapping[str, Any]) -> int:
    """Tasks of instances that are gone: from the beginning of the rebalance until it was computed nobody ran them."""
    gone = {trigger["process"] for trigger in round_["triggers"] if trigger["kind"] == TriggerKind.LEFT}
    return sum(1 for move in round_["moves"] if move["from"] in gone)


def hold_in_words(hold: Mapping[str, Any] | None) -> str:
    """`hold`: of a recorded rebalance; None for one that never waited."""
    if hold is None:
        return ""
    if hold["ended"] is None:
        return f"It waits since {utc(hold['since_ms'])}."
    words = _HOLD_ENDS.get(hold["ended"], str(hold["ended"])).format(by=hold["by"] or "somebody")
    why = f", because: {hold['reason']}" if hold["reason"] else ""
    waited = "" if hold["at_ms"] is None else f" It waited {duration(hold['at_ms'] - hold['since_ms'])}."
    return f"Held, then {words}{why}.{waited}"


def _followed(summary: Mapping[str, Any]) -> tuple[str, str]:
    """In words, and the shape of its mark. A summary says `held` for good when another rebalance replaced it."""
    outcome = str(summary["outcome"])
    if outcome == "held":
        return _NEVER_CARRIED_OUT if (summary.get("hold") or {}).get("ended") else _WAITS
    return _OUTCOMES.get(outcome, (outcome, "follow"))


def _chosen(pair: tuple[int | None, int | None]) -> dict[str, int]:
    return {name: each for name, each in zip(("before", "after"), pair, strict=True) if each is not None}


def _address(parameters: Mapping[str, int]) -> str:
    return "?" + urlencode(parameters)
