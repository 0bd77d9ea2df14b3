"""What is promised to be linearizable: the definition of a group, its levers, and its generation. Pure.

A call that begins after another one has ended sees at least its effect, also when the coordinator was killed between
them. Each lever is pulled with a reason of its own, so a description says which pull counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from tests.history.calls import Call, History, Outcome
from tests.history.linearizability import Timed, shortest_witness

Value = tuple[str | None]
"""Of a register."""

NOTHING: Value = (None,)

ANY = "any"
"""A read that says only that the lever is pulled."""

LEVERS: Mapping[str, tuple[str, str, bool]] = {
    "hold": ("hold", "end-hold", True),
    "pause": ("pause", "resume", False),
    "promotion": ("promotion", "end-promotion", False),
    "rejoin_grace": ("rejoin-grace", "end-rejoin-grace", True),
}
"""Name in a description: what pulls it, what ends it, and whether a second pull takes the place of the first."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a call does with a register. `value`: what it writes, or reads. `kind`: write, keep (written only where
    nothing is), end or read.
    """

    kind: str
    value: str | None
    call: Call | None = None

    def __hash__(self) -> int:
        return hash((self.kind, self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and (self.kind, self.value) == (other.kind, other.value)


def after(state: Value, step: Step) -> Value | None:
    """The value of the register after the step; None when it cannot be read in this state."""
    match step.kind:
        case "write":
            return (step.value,)
        case "keep":
            return state if state[0] is not None else (step.value,)
        case "end":
            return NOTHING
        case _:
            fits = state[0] is not None if step.value == ANY else state[0] == step.value
            return state if fits else None


def forgotten_lever(history: History, group: str, lever: str) -> Sequence[Call] | None:
    """Calls that contradict each other about this lever; None for none."""
    return _contradiction(list(_lever_steps(history.calls_of(group), lever)))


def lost_definition(history: History, group: str) -> Sequence[Call] | None:
    """About the definition. Its revision says how many there were, so each is told by revision and by content."""
    return _contradiction(list(_definition_steps(history.calls_of(group, "declare", "describe"))))


def _contradiction(steps: list[Timed[Step]]) -> Sequence[Call] | None:
    read = {each.what.value for each in steps if each.is_read}
    # a write without an answer that nobody read may be left out: it can as well not have happened
    steps = [
        each
        for each in steps
        if each.end_ns is not None or each.what.kind == "end" or ANY in read or each.what.value in read
    ]

    witness = shortest_witness(steps, NOTHING, after)
    return None if witness is None else [each.what.call for each in witness if each.what.call is not None]


def _lever_steps(calls: Sequence[Call], lever: str) -> Iterator[Timed[Step]]:
    pull, end, replaces = LEVERS[lever]
    for call in calls:
        if call.operation == pull:
            kind = "write" if replaces else "keep"
            yield from _write(call, Step(kind, str(call.arguments["tag"]), call))
        elif call.operation == end:
            yield from _write(call, Step("end", None, call))
        elif call.is_answered and call.operation == "describe":
            yield _read(call, call.answer["levers"][lever])
        elif call.is_answered and call.operation == "heartbeat" and lever == "pause":
            yield _read(call, ANY if call.answer["paused"] else None)


def _definition_steps(calls: Sequence[Call]) -> Iterator[Timed[Step]]:
    for call in calls:
        if call.operation == "declare":
            yield from _write(call, Step("write", str(call.arguments["definition"]), call))
        elif call.is_answered:
            yield _read(call, call.answer["definition"])


def _write(call: Call, step: Step) -> Iterator[Timed[Step]]:
    """A refusal changed nothing."""
    if call.outcome is not Outcome.REFUSED:
        yield Timed(step, call.begin_ns, call.end_ns if call.is_answered else None)


def _read(call: Call, value: str | None) -> Timed[Step]:
    return Timed(Step("read", value, call), call.begin_ns, call.end_ns, is_read=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a call says of a number that only rises: it was from `least` to `most`."""

    call: Call
    least: int
    most: int


def went_back(seen: Sequence[Seen]) -> tuple[Call, Call] | None:
    """Two calls, the later of which saw a lower number although it began after the other had ended."""
    ended: list[tuple[int, int, int]] = []  # by end
    highest: Seen | None = None
    ordered = sorted(seen, key=lambda each: each.call.begin_ns)
    for place, each in enumerate(ordered):
        while ended and ended[0][0] < each.call.begin_ns:
            earlier = ordered[heappop(ended)[1]]
            if highest is None or earlier.least > highest.least:
                highest = earlier
        if highest is not None and each.most < highest.least:
            return highest.call, each.call
        heappush(ended, (each.call.end_ns, place, 0))
    return None


def generations_seen(history: History, group: str) -> Iterator[Seen]:
    """Of the group. A join is told the generation that it waits for: the present or the next one."""
    for call in history.calls_of(group):
        if not call.is_answered:
            continue
        match call.operation:
            case "join":
                yield Seen(call, call.answer["generation_id"] - 1, call.answer["generation_id"])
            case "heartbeat" | "describe":
                yield Seen(call, call.answer["generation_id"], call.answer["generation_id"])


def revisions_seen(history: History, group: str) -> Iterator[Seen]:
    for call in history.calls_of(group, "join", "declare", "describe"):
        if call.is_answered and call.answer["revision"] is not None:
            yield Seen(call, call.answer["revision"], call.answer["revision"])


def assignments_seen(history: History, group: str) -> Mapping[str, list[Seen]]:
    """By member: which generation its newest assignment is of. Who has none says nothing of it."""
    found: dict[str, list[Seen]] = {}

    def see(member_id: str, call: Call, generation_id: int | None) -> None:
        if generation_id:
            found.setdefault(member_id, []).append(Seen(call, generation_id, generation_id))

    for call in history.calls_of(group):
        if not call.is_answered:
            continue
        match call.operation:
            case "fetch":
                see(call.arguments["member_id"], call, call.answer.get("generation_id"))
            case "heartbeat":
                for member_id, news in call.answer["members"].items():
                    see(member_id, call, news.get("assignment"))
            case "describe":
                for member in call.answer["members"]:
                    see(member["member_id"], call, member["generation_id"])
    return found
