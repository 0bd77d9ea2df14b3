"""The functions that make lines of a history by hand, and the histories that `histories.txt` makes of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine
from tests.history.calls import Call, Counts, FaultLine, History, Outcome, TasksLine

GROUP = "words"
SETTINGS: Mapping[str, Any] = {"seed": 0, "heard_within_ms": 2_000}
EXACT = Counts({"cat": 2}, {"cat": 2})
NO_LEVERS: Mapping[str, Any] = {"hold": None, "pause": None, "promotion": None, "rejoin_grace": None, "drained": {}}
_MS = 1_000_000


def call(
    client: str,
    operation: str,
    begin_ms: float,
    end_ms: float,
    answer: Mapping[str, Any] | None = None,
    *,
    outcome: str = Outcome.ANSWERED,
    **arguments: Any,
) -> Call:
    begin_ns, end_ns = round(begin_ms * _MS), round(end_ms * _MS)
    return Call(
        client, GROUP, operation, arguments, begin_ns, end_ns, Outcome(outcome), answer or {}, f"{client} at {begin_ms}"
    )


def joined(
    client: str, member_id: str, at_ms: float, generation_id: int = 1, process: str | None = None, revision: int = 1
) -> Call:
    """`process`: where the client runs; its own name by default."""
    answer = {"member_id": member_id, "generation_id": generation_id, "state": "Stable", "revision": revision}
    return call(client, "join", at_ms, at_ms + 5, answer, member_id=None, process_id=process or client)


def fetched(
    client: str,
    member_id: str,
    at_ms: float,
    generation_id: int,
    active: Sequence[str] = (),
    standby: Sequence[str] = (),
) -> Call:
    digest = f"{sorted(active)} {sorted(standby)}"
    answer = {"generation_id": generation_id, "active": list(active), "standby": list(standby), "digest": digest}
    return call(client, "fetch", at_ms, at_ms + 5, answer, member_id=member_id, min_generation=generation_id)


def heartbeat(
    client: str,
    member_id: str,
    at_ms: float,
    generation_id: int,
    *,
    paused: bool = False,
    code: str | None = None,
    assignment: int = 0,
) -> Call:
    """`code`: what the member is refused with."""
    news = {"code": code} if code else {"rejoin": False, "stop": False, "assignment": assignment}
    answer = {"state": "Stable", "generation_id": generation_id, "paused": paused, "members": {member_id: news}}
    return call(client, "heartbeat", at_ms, at_ms + 5, answer, members={member_id: generation_id})


def described(
    at_ms: float,
    generation_id: int = 1,
    *,
    revision: int = 1,
    definition: str = "first",
    levers: Mapping[str, Any] | None = None,
    held: int | None = None,
    members: Sequence[Sequence[Any]] | None = None,
    took_ms: float = 5,
) -> Call:
    """`members`: by default those that have joined by then in the valid history, without anything else; each as the
    arguments of `_described_member`.
    """
    if members is None:
        members = [("a", "p0", 0), ("b", "p1", 0)] if at_ms > 80 else [("a", "p0", 0)]
    answer = {
        "state": "Stable",
        "generation_id": generation_id,
        "revision": revision,
        "definition": definition,
        "held": held,
        "levers": {**NO_LEVERS, **(levers or {})},
        "members": [_described_member(*each) for each in members],
    }
    return call("ada", "describe", at_ms, at_ms + took_ms, answer)


def _described_member(
    member_id: str, process_id: str, generation_id: int = 1, active: Sequence[str] = (), standby: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "process_id": process_id,
        "generation_id": generation_id,
        "is_away": False,
        "active": list(active),
        "standby": list(standby),
    }


def declared(at_ms: float, definition: str, revision: int, *, outcome: str = Outcome.ANSWERED) -> Call:
    answer = {"revision": revision} if outcome == Outcome.ANSWERED else {}
    return call("ada", "declare", at_ms, at_ms + 5, answer, outcome=outcome, definition=definition)


def pulled(operation: str, at_ms: float, tag: str, *, outcome: str = Outcome.ANSWERED, took_ms: float = 5) -> Call:
    return call("ada", operation, at_ms, at_ms + took_ms, outcome=outcome, tag=tag)


def has(
    client: str, event: str, at_ms: float, member_id: str, generation_id: int, *active: str, task: str = ""
) -> TasksLine:
    """What a thread of the client has from now on."""
    at_ns = round(at_ms * _MS)
    return TasksLine(
        client, GROUP, f"{client}-t0", event, at_ns, member_id, generation_id, active, (), task, f"{client} at {at_ms}"
    )


def owns(instance: str, pid: int, at_ms: float, *active: str) -> OwnershipLine:
    return OwnershipLine(at_ms, OwnershipEvent.ASSIGNED, instance, f"{instance}-t0", "1", pid, 7, active=active)


BUILDERS: Mapping[str, Callable[..., Call | TasksLine]] = {
    each.__name__: each for each in (call, joined, fetched, heartbeat, described, declared, pulled, has)
}


@dataclass(frozen=True, slots=True)
class Case:
    """A history of `histories.txt`. `broken_by`: the places of the lines of the shortest contradiction; None if the
    history is possible.
    """

    name: str
    history: History
    broken_by: list[str] | None


def cases() -> list[Case]:
    """The first one is the valid history with which each other one begins."""
    blocks = [
        [line.strip() for line in block.splitlines() if not line.lstrip().startswith("#")]
        for block in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n")
    ]
    valid = blocks[1][1:-1]
    return [
        Case(
            name,
            _played(steps if steps == valid else [*valid, *steps]),
            None if verdict == "fine" else [place for place in verdict[len("broken by ") :].split(", ") if place],
        )
        for name, *steps, verdict in filter(None, blocks)
    ]


def valid_lines() -> Sequence[Call | TasksLine]:
    """A member, then a second one that gets a task of the first one after that has given it up; a lever, a kill of the
    coordinator in between that nobody sees, and a declaration whose answer was lost.
    """
    valid = cases()[0].history
    return [*valid.calls, *valid.tasks]


def _played(steps: Sequence[str]) -> History:
    lines: list[Call | TasksLine] = []
    ownership: list[OwnershipLine] = []
    faults: list[FaultLine] = []
    counts, settings = EXACT, dict(SETTINGS)
    for step in steps:
        name, *words = step.split()
        values = [_value(word) for word in words if "=" not in word]
        named = {key: _value(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}
        match name:
            case "counts":
                counts = Counts(*values, **named)
            case "owns":
                ownership.append(owns(*values))
            case "fault":
                faults.append(FaultLine(values[0], "p0", 12, 12))
            case "setting":
                settings |= named
            case _:
                lines.append(BUILDERS[name](*values, **named))
    return History(
        tuple(sorted((each for each in lines if isinstance(each, Call)), key=lambda each: each.begin_ns)),
        tuple(sorted((each for each in lines if isinstance(each, TasksLine)), key=lambda each: each.at_ns)),
        (*faults, FaultLine("Python worker killed", "p0", 12, 12)) if ownership else (),
        {GROUP: counts},
        settings,
        {GROUP: ownership},
    )


def _value(word: str) -> Any:
    """The JSON of a word; the word itself if it is not JSON."""
    try:
        return json.loads(word)
    except ValueError:
        return word
