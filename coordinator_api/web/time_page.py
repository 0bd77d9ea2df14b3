"""`/ui/groups/{group}/time`: shows the recorded rebalances on a time line, and a comparison of two rebalances. Below
each picture, a table shows the same values.
"""

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Request
from pydantic import BeforeValidator
from starlette.responses import Response

from assignor.errors import AssignorFault
from assignor.types import JAVA_INT_MAX
from coordinator_api.errors import TooManyRequests
from coordinator_api.http.connections import run_in_worker
from coordinator_api.http.dependencies import GroupId, TheCoordinator, compute, computing, named_router, whole_number
from coordinator_api.http.page_computations import compare_two, history_of_group
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.store.repository import HELD
from coordinator_api.views import cause_of, hold_text, outcome_of
from coordinator_api.web.event_streams import group_stream, rebalances_digest
from coordinator_api.web.rendering import page
from rebalance_analysis.history.triggers import TriggerKind
from rebalance_analysis.presentation.comparisons import diff_summary
from rebalance_analysis.presentation.quantities import counted, duration_text, utc

router = named_router(include_in_schema=False)

LIMIT, LEAST, MOST = 20, 2, 80
WIDTH = 900
_LEFT, _RIGHT = 30, WIDTH - 30
_SHAPES = {"stable": "stable", "settled": "stable", "probing": "probing", "error": "failed", "held": "held"}
"""For each outcome of a rebalance, the shape of its symbol on the time line."""

_WORST_FIRST = ("failed", "held", "follow", "probing", "stable")
_APART = 26
"""Rebalances that are nearer to each other on the line share a symbol."""

_MOST_TICKS = 8
_SECONDS = (1, 2, 5, 10, 15, 30)
_STEPS_S = (
    *_SECONDS,
    *(60 * each for each in _SECONDS),
    *(3_600 * each for each in (1, 2, 3, 6, 12)),
    *(86_400 * each for each in (1, 2, 7, 14, 30, 90, 365)),
)
"""The distances of ticks, in seconds."""

ARROWS_SHOWN = 60
_TOP, _STEP = 30, 20
_NOBODY = ""

Pair = tuple[int | None, int | None]
"""The generations of the two rebalances that are compared."""


def _number(sent: str) -> int | None:
    text = sent.strip()
    number = whole_number(text)
    if text and number is None:
        raise ValueError("must be a whole number of at least 0")
    return number


Number = Annotated[int | None, BeforeValidator(_number)]
"""The type of a number in the query of the page's address. An empty value counts as absent, because a form also sends
its empty fields.
"""


@router.get("/ui/groups/{group}/time")
async def time(
    request: Request,
    group_id: GroupId,
    coordinator: TheCoordinator,
    before_generation: Number = None,
    limit: Number = None,
    before: Number = None,
    after: Number = None,
) -> Response:
    """The page of the time line. `before_generation`, `limit`: the parameters that select the shown rebalances.
    `before`, `after`: the generations of the two rebalances to compare.
    """
    limit, pair = max(LEAST, min(limit or LIMIT, MOST)), (before, after)
    digest = rebalances_digest(coordinator.group(group_id).image)
    # Read one more rebalance than the page shows, for the comparison with the oldest shown rebalance.
    listed: list[Any] = list(await coordinator.repository.list_rebalances(group_id, before_generation, limit + 1))
    shown = listed[:limit]
    # Leave out held rebalances that were not carried out, because members never got their assignments.
    carried_out = [each["generation_id"] for each in listed if each["outcome"] != HELD]
    history, no_history = await _made(
        _history(request, coordinator, group_id, carried_out, limit), "see what moved", "What moved is not known: "
    )
    compared, wrong = await _made(
        _compared(request, coordinator, group_id, pair), "compare them", "They cannot be compared: "
    )
    return page(
        request,
        "time",
        group_id=group_id,
        digest=digest,
        line=time_line(shown, history, await _newer_ms(coordinator, group_id, before_generation)),
        addresses=_addresses(shown, len(listed) > limit, before_generation, limit, pair),
        no_history=no_history,
        pair=pair,
        compared=compared,
        wrong=wrong,
        limit=limit,
        page_before=before_generation,
    )


@router.get("/ui/groups/{group}/time/events")
async def time_events(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """An event stream that sends the event `changed` when another rebalance has ended or waits for approval."""

    async def digest() -> str:
        return rebalances_digest(coordinator.group(group_id).image)

    return group_stream(request, coordinator, group_id, digest)


async def _newer_ms(coordinator: Coordinator, group_id: str, page_before: int | None) -> int | None:
    """The start time of the rebalance that followed the newest rebalance of this page. The result is None on the first
    page, and if the following rebalance is not recorded.
    """
    if page_before is None or page_before >= JAVA_INT_MAX:
        return None
    newer: list[Any] = list(await coordinator.repository.list_rebalances(group_id, page_before + 1, 1))
    return newer[0]["now_ms"] if newer and newer[0]["generation_id"] == page_before else None


async def _history(
    request: Request, coordinator: Coordinator, group_id: str, generations: list[int], limit: int
) -> dict[str, Any] | None:
    """The history of the page's rebalances; None if the page has no rebalances. Raises StoreError, and the errors of
    `computing` and `run_in_worker`.
    """
    if not generations:
        return None
    # The limit for computations also covers the read of the recordings. A busy service therefore refuses the request
    # before it reads recordings.
    with computing(request, coordinator):
        stored = [(each, await coordinator.recordings.stored(group_id, each)) for each in generations]
        kept = [(generation, packed) for generation, packed in stored if packed is not None]
        before = kept.pop() if len(generations) > limit and kept and kept[-1][0] == generations[-1] else None
        of_group, classes = (group_id, tuple(reversed(kept)), before), coordinator.allowed_assignors.class_paths
        return await run_in_worker(request, coordinator, history_of_group, *of_group, classes)


class CannotCompare(AssignorFault):
    """The two rebalances cannot be compared. The message is a sentence."""


async def _compared(request: Request, coordinator: Coordinator, group_id: str, pair: Pair) -> dict[str, Any] | None:
    """The comparison of the two chosen rebalances; None if no rebalances are chosen. Raises CannotCompare, and the
    errors of `_history`.
    """
    before, after = pair
    if before is None and after is None:
        return None
    if before is None or after is None or before == after:
        raise CannotCompare("Choose two different rebalances: one in the column Before and one in the column After.")
    first, second = [await coordinator.recordings.stored(group_id, each) for each in (before, after)]
    if first is None or second is None:
        missing = before if first is None else after
        raise CannotCompare(f"No rebalance of generation {missing} is recorded: the oldest are dropped.")
    classes = coordinator.allowed_assignors.class_paths
    made = await compute(request, coordinator, compare_two, (before, first), (after, second), classes)
    return {**comparison(made), "pair": (before, after)}


async def _made(
    computation: Awaitable[dict[str, Any] | None], what_for: str, not_made: str
) -> tuple[dict[str, Any] | None, str | None]:
    """Returns a pair of the computation's result and None. If the computation fails, the pair contains None and a
    sentence with the reason. `not_made`: the first part of the sentence, before the reason.
    """
    try:
        return await computation, None
    except TooManyRequests:
        return None, f"The service is busy. Load the page again in a few seconds to {what_for}."
    except CannotCompare as error:
        return None, str(error)
    except AssignorFault as error:
        return None, f"{not_made}{error}"


def _addresses(
    shown: Sequence[Mapping[str, Any]], has_more: bool, page_before: int | None, limit: int, pair: Pair
) -> list[tuple[str, str]]:
    """Returns the links to other parts of the time line: pairs of a label and an address."""
    chosen = {name: each for name, each in zip(("before", "after"), pair, strict=True) if each is not None}
    here = {} if page_before is None else {"before_generation": page_before}
    found: list[tuple[str, Mapping[str, int]]] = []
    if min(limit, len(shown)) > LEAST:
        found.append(("Zoom in", {**here, "limit": max(limit // 2, LEAST)}))
    if limit < MOST and has_more:
        found.append(("Zoom out", {**here, "limit": min(limit * 2, MOST)}))
    if page_before is not None:
        found.append(("Newest", {"limit": limit}))
    if has_more:
        found.append(("Older", {"before_generation": shown[-1]["generation_id"], "limit": limit}))
    return [(name, "?" + urlencode({**parameters, **chosen})) for name, parameters in found]


class OwnerlessTime(NamedTuple):
    """A period in which tasks had no owner, according to the recordings. `text`: a sentence that states how many tasks
    had no owner, and for how long.
    """

    x: float
    width: float
    text: str


class AxisTick(NamedTuple):
    """A round time on the line. `text`: the time of day, or the day at midnight."""

    x: float
    text: str


class Marker(NamedTuple):
    """The symbol of a rebalance, or of `size` rebalances that are near to each other. `shape`: the worst of their
    shapes. `text`: what happened. `label`: the generations. `address`: the address of the line with these rebalances
    alone; empty for one rebalance.
    """

    x: float
    shape: str
    size: int
    text: str
    label: str
    address: str


class TimeLine(NamedTuple):
    """The time line of a group. `markers`: from left to right. `rows`: the rebalances, newest first. Each row has the
    fields of a listed rebalance (`GET .../rebalances`), and more fields:

    - `follows`: the consequence of the rebalance in words.
    - `shape`: the shape of the rebalance's symbol.
    - `x`: the position of the symbol.
    - `until_next_ms`: the time until the next rebalance; None for the newest rebalance.
    - `triggers`: the triggers in words; empty if they are not known.
    - `moved`: the number of moved tasks; None if it is not known.
    - `held_back`: the number of tasks that no member ran until the next rebalance; None if it is not known.
    """

    rows: list[Mapping[str, Any]]
    markers: list[Marker]
    ticks: list[AxisTick]
    gaps: list[OwnerlessTime]
    from_ms: int
    until_ms: int
    width: int


def time_line(
    summaries: Sequence[Mapping[str, Any]], history: Mapping[str, Any] | None, newer_ms: int | None = None
) -> TimeLine:
    """Lays out the time line. `summaries`: the rebalances as `GET .../rebalances` lists them. `history`: the result of
    `page_computations.history_of_group`; None if this result could not be computed. `newer_ms`: the start time of the
    rebalance after the newest shown rebalance; None if there is no later rebalance.
    """
    rounds = {each["generation_id"]: each for each in (history or {"rounds": []})["rounds"]}
    times = [each["now_ms"] for each in summaries]
    from_ms, until_ms = (min(times), max(times)) if times else (0, 0)
    span = max(until_ms - from_ms, 1)

    def x(at_ms: int) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * (at_ms - from_ms) / span, 1)

    rows: list[Mapping[str, Any]] = []
    gaps: list[OwnerlessTime] = []
    next_ms = newer_ms
    for each in summaries:
        generation, at_ms, took_ms = each["generation_id"], each["now_ms"], each.get("took_ms")
        round_ = rounds.get(generation)
        held_back = None if round_ is None else round_["held_back"]
        until_next_ms = None if next_ms is None else max(next_ms - at_ms, 0)
        rows.append(
            {
                **each,
                "took_ms": took_ms,
                "hold": each.get("hold"),
                "follows": _follows(each),
                "shape": _SHAPES.get(each["outcome"], "follow"),
                "x": x(at_ms),
                "until_next_ms": until_next_ms,
                "triggers": "" if round_ is None else round_["words"],
                "moved": None if round_ is None else sum(1 for move in round_["moves"] if move["from"] is not None),
                "held_back": held_back,
            }
        )
        if held_back and until_next_ms is not None:
            end = x(min(at_ms + until_next_ms, until_ms))
            text = f"After generation {generation}, {_without_owner(held_back, until_next_ms)}: "
            gaps.append(OwnerlessTime(x(at_ms), max(end - x(at_ms), 2), text + "the rebalance held them back"))
        left_behind = 0 if round_ is None else _left_behind(round_)
        if left_behind and took_ms is not None:
            begin = max(x(at_ms - took_ms), _LEFT)
            text = f"Before generation {generation}, {_without_owner(left_behind, took_ms)}: their instance was gone"
            gaps.append(OwnerlessTime(begin, max(x(at_ms) - begin, 2), text))
        next_ms = at_ms
    ticks = [AxisTick(x(at_ms), text) for at_ms, text in _ticks(from_ms, until_ms)] if times else []
    return TimeLine(rows, _markers(rows), ticks, gaps, from_ms, until_ms, WIDTH)


def _ticks(from_ms: int, until_ms: int) -> list[tuple[int, str]]:
    """Returns the round times of the period, each with its text. A period shorter than a second has its begin alone."""
    span_s = (until_ms - from_ms) / 1_000
    step_ms = 1_000 * next((each for each in _STEPS_S if span_s <= each * _MOST_TICKS), _STEPS_S[-1])
    times = range(-(-from_ms // step_ms) * step_ms, until_ms + 1, step_ms) or (from_ms,)
    return [(at_ms, _tick_text(utc(at_ms), step_ms)) for at_ms in times]


def _tick_text(time_utc: str, step_ms: int) -> str:
    day, time_of_day = time_utc[:10], time_utc[11:19]
    if time_of_day == "00:00:00" or step_ms >= 86_400_000:
        return day
    return time_of_day if step_ms < 60_000 else time_of_day[:5]


def _markers(rows: Sequence[Mapping[str, Any]]) -> list[Marker]:
    """Returns the symbols of the rebalances. `rows`: newest first."""
    together: list[list[Mapping[str, Any]]] = []
    for row in reversed(rows):
        if together and row["x"] - together[-1][0]["x"] < _APART:
            together[-1].append(row)
        else:
            together.append([row])
    return [_marker(each) for each in together]


def _marker(rows: Sequence[Mapping[str, Any]]) -> Marker:
    """`rows`: oldest first."""
    first, last = rows[0], rows[-1]
    shape = min((row["shape"] for row in rows), key=_WORST_FIRST.index)
    if len(rows) == 1:
        held = f"; {hold_text(first['hold'])}" if first["hold"] else ""
        text = f"Generation {first['generation_id']}: {cause_of(first['reason'])}; {first['follows']}{held}"
        return Marker(first["x"], shape, 1, text, str(first["generation_id"]), "")
    counts = Counter(row["follows"] for row in rows)
    label = f"{first['generation_id']}–{last['generation_id']}"
    text = f"{len(rows)} rebalances, generations {first['generation_id']} to {last['generation_id']}: "
    text += "; ".join(f"{count} × {follows}" for follows, count in counts.most_common())
    shown = {"before_generation": last["generation_id"] + 1, "limit": len(rows)}
    return Marker(first["x"], shape, len(rows), text, label, "?" + urlencode(shown))


def _without_owner(tasks: int, ms: int) -> str:
    long = duration_text(ms).replace(" ", "\u00a0")
    return f"{counted(tasks, 'task')} had no owner for {long}"


def _left_behind(round_: Mapping[str, Any]) -> int:
    """The number of tasks of instances that left. No member ran the tasks of departed instances until the rebalance was
    computed.
    """
    gone = {trigger["process"] for trigger in round_["triggers"] if trigger["kind"] == TriggerKind.LEFT}
    return sum(1 for move in round_["moves"] if move["from"] in gone)


def _follows(summary: Mapping[str, Any]) -> str:
    """Describes the consequence of a rebalance in words. If a rebalance was discarded or replaced while it waited for
    approval, it was never carried out. A rebalance that was never carried out still has the outcome `held`.
    """
    if summary["outcome"] == HELD and (summary.get("hold") or {}).get("ended"):
        return "it was never carried out"
    return outcome_of(str(summary["outcome"]))


class MemberLine(NamedTuple):
    """A member on one side of the picture. `tasks`: the number of the member's active tasks. `still`: on the left side,
    True if the member lost no active task. On the right side, True if the member got no active task.
    """

    name: str
    tasks: int
    y: float
    still: bool


class Arrow(NamedTuple):
    """An arrow of the picture, from a member on the left to a member on the right."""

    text: str
    from_y: float
    to_y: float


def comparison(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Lays out the picture of a comparison. `answer`: the result of `page_computations.compare_two`. Returns `answer`
    with more fields. `left`, `right`: the members on each side. `arrows`: the arrows between the sides. `arrows_more`:
    the number of arrows that are not drawn. `known`, `unknown`: the moves whose reason is known, and the others.
    `summary`: a short text about the comparison. `height`: the height of the picture.
    """
    names: Mapping[str, str] = answer["names"]
    active = [(move["task"], move["active"]) for move in answer["moves"] if move["active"] is not None]
    left = _lines(answer["before"], {name for _, move in active for name in move["from"]}, names)
    right = _lines(answer["after"], {name for _, move in active for name in move["to"]}, names)
    if any(not move["from"] for _, move in active):
        left[_NOBODY] = MemberLine("nobody", 0, _TOP + _STEP * len(left), False)
    if any(not move["to"] for _, move in active):
        right[_NOBODY] = MemberLine("nobody", 0, _TOP + _STEP * len(right), False)
    arrows = [
        Arrow(f"{task}: {left[giver].name} to {right[taker].name}", left[giver].y, right[taker].y)
        for task, move in active
        for giver in move["from"] or [_NOBODY]
        for taker in move["to"] or [_NOBODY]
        if giver in left and taker in right
    ]
    return {
        **answer,
        "summary": diff_summary(answer),
        "known": [move for move in answer["moves"] if answer["why"][move["task"]]],
        "unknown": [move for move in answer["moves"] if not answer["why"][move["task"]]],
        "left": list(left.values()),
        "right": list(right.values()),
        "arrows": arrows[:ARROWS_SHOWN],
        "arrows_more": max(0, len(arrows) - ARROWS_SHOWN),
        "height": _TOP + _STEP * max(len(left), len(right), 1),
    }


def _lines(owners: Mapping[str, list[str]], moving: set[str], names: Mapping[str, str]) -> dict[str, MemberLine]:
    counts = Counter(member for members in owners.values() for member in members)
    return {
        member: MemberLine(names.get(member, member), counts[member], _TOP + _STEP * number, member not in moving)
        for number, member in enumerate(sorted(counts, key=lambda each: (names.get(each, each), each)))
    }
