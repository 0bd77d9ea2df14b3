"""Hand-made histories: a small valid one to begin with, and the words to break it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.history.calls import Call, Counts, History, Outcome, TasksLine

GROUP = "words"
SETTINGS = {"seed": 0, "heard_within_ms": 2_000}
NO_LEVERS: Mapping[str, Any] = {"hold": None, "pause": None, "promotion": None, "rejoin_grace": None, "drained": {}}
_MS = 1_000_000


def call(
    client: str,
    operation: str,
    begin_ms: float,
    end_ms: float,
    answer: Mapping[str, Any] | None = None,
    *,
    outcome: Outcome = Outcome.ANSWERED,
    **arguments: Any,
) -> Call:
    begin_ns, end_ns = round(begin_ms * _MS), round(end_ms * _MS)
    return Call(client, GROUP, operation, arguments, begin_ns, end_ns, outcome, answer or {}, f"{client} at {begin_ms}")


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
    members: Sequence[Mapping[str, Any]] | None = None,
    took_ms: float = 5,
) -> Call:
    """`members`: by default those that have joined by then in the valid history, without anything else."""
    present = [described_member("a", "p0", 0), *([described_member("b", "p1", 0)] if at_ms > 80 else [])]
    answer = {
        "state": "Stable",
        "generation_id": generation_id,
        "revision": revision,
        "definition": definition,
        "held": held,
        "levers": {**NO_LEVERS, **(levers or {})},
        "members": present if members is None else list(members),
    }
    return call("ada", "describe", at_ms, at_ms + took_ms, answer)


def described_member(
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


def declared(at_ms: float, definition: str, revision: int, *, outcome: Outcome = Outcome.ANSWERED) -> Call:
    answer = {"revision": revision} if outcome is Outcome.ANSWERED else {}
    return call("ada", "declare", at_ms, at_ms + 5, answer, outcome=outcome, definition=definition)


def pulled(operation: str, at_ms: float, tag: str, *, outcome: Outcome = Outcome.ANSWERED, took_ms: float = 5) -> Call:
    return call("ada", operation, at_ms, at_ms + took_ms, outcome=outcome, tag=tag)


def has(
    client: str, event: str, at_ms: float, member_id: str, generation_id: int, *active: str, task: str = ""
) -> TasksLine:
    """What a thread of the client has from now on."""
    at_ns = round(at_ms * _MS)
    return TasksLine(
        client, GROUP, f"{client}-t0", event, at_ns, member_id, generation_id, active, (), task, f"{client} at {at_ms}"
    )


def history(
    *lines: Call | TasksLine, counts: Counts | None = None, failures: Sequence[str] = (), broken_off: str = ""
) -> History:
    return History(
        tuple(sorted((each for each in lines if isinstance(each, Call)), key=lambda each: each.begin_ns)),
        tuple(sorted((each for each in lines if isinstance(each, TasksLine)), key=lambda each: each.at_ns)),
        counts={} if counts is None else {GROUP: counts},
        settings={
            **SETTINGS,
            "failures": [{"group": GROUP, "said": said} for said in failures],
            "broken_off": broken_off,
        },
    )


def valid_lines() -> list[Call | TasksLine]:
    """A member, then a second one that gets a task of the first one after that has given it up; a lever, a kill of the
    coordinator in between that nobody sees, and a declaration whose answer was lost.
    """
    return [
        declared(0, "first", 1),
        joined("p0", "a", 10),
        fetched("p0", "a", 20, 1, ["0_0", "0_1"]),
        has("p0", "assigned", 30, "a", 1, "0_0", "0_1"),
        has("p0", "processed", 40, "a", 1, "0_0", "0_1", task="0_0"),
        heartbeat("p0", "a", 50, 1, assignment=1),
        pulled("hold", 60, "pull 1"),
        described(70, 1, levers={"hold": "pull 1"}),
        joined("p1", "b", 80, 2),
        fetched("p0", "a", 100, 2, ["0_0"], ["0_1"]),
        has("p0", "revoked", 110, "a", 1, "0_0"),
        has("p0", "assigned", 120, "a", 2, "0_0"),
        fetched("p1", "b", 130, 2, [], ["0_0"]),
        declared(140, "second", 0, outcome=Outcome.UNKNOWN),
        fetched("p1", "b", 200, 3, ["0_1"], ["0_0"]),
        has("p1", "assigned", 210, "b", 3, "0_1"),
        heartbeat("p0", "a", 220, 3, assignment=2),
        pulled("end-hold", 230, "pull 2", outcome=Outcome.UNKNOWN),
        described(240, 3, levers={"hold": "pull 1"}),
        described(250, 3, revision=2, definition="second"),
        heartbeat("p1", "b", 260, 3, assignment=3),
    ]
