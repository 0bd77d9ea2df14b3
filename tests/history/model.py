"""What the service and its members promise, by name, and which lines of a history contradict each other. Pure.

Source of the promises: docs/promises.md. A promise that no line can break is none: `judged` counts what each rests on.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.ownership.ownership_history import overlaps, ownership_intervals
from tests.history.calls import Call, FaultLine, History, TasksLine
from tests.history.placement import (
    changed_assignments,
    given_twice,
    handed_out_too_early,
    not_as_given,
    not_described,
    sent_away,
    worked_on_others,
)
from tests.history.registers import (
    LEVERS,
    Seen,
    assignments_seen,
    forgotten_lever,
    generations_seen,
    lost_definition,
    revisions_seen,
    went_back,
)

KILLS = frozenset({"executor killed", "Python worker killed", "coordinator killed", "broker killed"})
"""The faults that end a process at once."""

Lines = Sequence[Call | TasksLine | FaultLine]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`lines`: few that cannot all be true. `said`: in words, where lines do not say it."""

    group: str
    lines: Lines
    said: str = ""


@dataclass(frozen=True, slots=True)
class Promise:
    """`broken`: the contradictions of one group. `rests_on`: how many lines of it could have shown one."""

    name: str
    broken: Callable[[History, str], Iterator[Contradiction]]
    rests_on: Callable[[History, str], int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one promise, over all groups."""

    promise: str
    rests_on: int
    contradictions: tuple[Contradiction, ...]

    @property
    def shortest(self) -> Contradiction | None:
        return min(self.contradictions, key=lambda each: len(each.lines), default=None)


def judged(history: History) -> list[Judgement]:
    """Every promise, in the order of the report."""
    return [
        Judgement(
            promise.name,
            sum(promise.rests_on(history, group) for group in history.groups),
            tuple(each for group in history.groups for each in promise.broken(history, group)),
        )
        for promise in PROMISES
    ]


def _every(find: Callable[[History, str], Iterator[Lines]]) -> Callable[[History, str], Iterator[Contradiction]]:
    def broken(history: History, group: str) -> Iterator[Contradiction]:
        for lines in find(history, group):
            yield Contradiction(group, lines)

    return broken


def _one(find: Callable[[History, str], Lines | None]) -> Callable[[History, str], Iterator[Contradiction]]:
    def broken(history: History, group: str) -> Iterator[Contradiction]:
        lines = find(history, group)
        if lines is not None:
            yield Contradiction(group, lines)

    return broken


def _rises(find: Callable[[History, str], Iterator[Seen]]) -> Callable[[History, str], Iterator[Contradiction]]:
    return _one(lambda history, group: went_back(list(find(history, group))))


def _assignments_rise(history: History, group: str) -> Iterator[Contradiction]:
    for seen in assignments_seen(history, group).values():
        lines = went_back(seen)
        if lines is not None:
            yield Contradiction(group, lines)


def _lever(lever: str) -> Promise:
    pull, end, _ = LEVERS[lever]
    return Promise(
        f"the lever {lever.replace('_', ' ')} is as it was set",
        _one(lambda history, group: forgotten_lever(history, group, lever)),
        _calls(pull, end, "describe", *(["heartbeat"] if lever == "pause" else [])),
    )


def _forgotten_drains(history: History, group: str) -> Iterator[Lines]:
    """A drained process is not drained any more, although a member of it was there all the time and nobody ended it."""
    ends = history.calls_of(group, "end-drain")
    described = [call for call in history.calls_of(group, "describe") if call.is_answered]
    for earlier, later in _following(described):
        members = {each["member_id"] for each in later.answer["members"]}
        for process_id in earlier.answer["levers"]["drained"]:
            stays = any(
                each["process_id"] == process_id and each["member_id"] in members for each in earlier.answer["members"]
            )
            ended = any(
                end.arguments["process_id"] == process_id
                and end.begin_ns < later.end_ns
                and (end.end_ns > earlier.begin_ns or not end.is_answered)
                for end in ends
            )
            if process_id not in later.answer["levers"]["drained"] and stays and not ended:
                yield earlier, later


def _drains_not_taken(history: History, group: str) -> Iterator[Lines]:
    """A drain that was answered, and not ended, is not in the next description, which has a member of that process."""
    ends = history.calls_of(group, "end-drain")
    described = [call for call in history.calls_of(group, "describe") if call.is_answered]
    for drain in history.calls_of(group, "drain"):
        if not drain.is_answered:
            continue
        process_id = drain.arguments["process_id"]
        before = [call for call in described if call.end_ns < drain.begin_ns]
        later = next((call for call in described if call.begin_ns > drain.end_ns), None)
        if later is None or not before:
            continue
        of_process = [
            {each["member_id"] for each in call.answer["members"] if each["process_id"] == process_id}
            for call in (before[-1], later)
        ]
        ended = any(
            end.arguments["process_id"] == process_id
            and end.begin_ns < later.end_ns
            and (end.end_ns > drain.begin_ns or not end.is_answered)
            for end in ends
        )
        if of_process[0] & of_process[1] and process_id not in later.answer["levers"]["drained"] and not ended:
            yield drain, later


def _unknown_group(history: History, group: str) -> Iterator[Lines]:
    """In a run no group is deleted."""
    declared = next((call for call in history.calls_of(group, "declare") if call.is_answered), None)
    for call in history.calls_of(group):
        if declared is not None and call.code == "GROUP_ID_NOT_FOUND" and declared.end_ns < call.begin_ns:
            yield declared, call


def _decided_twice(history: History, group: str) -> Iterator[Lines]:
    """A rebalance that waited was approved or discarded, and then again, or it still waits after that."""
    decided: dict[int, Call] = {}
    for call in history.calls_of(group, "approve", "discard"):
        if call.is_answered:
            known = decided.setdefault(call.answer["generation_id"], call)
            if known is not call:
                yield known, call
    for call in history.calls_of(group, "describe"):
        waits = decided.get(call.answer["held"]) if call.is_answered else None
        if waits is not None and waits.end_ns < call.begin_ns:
            yield waits, call


def _wrong_counts(history: History, group: str) -> Iterator[Contradiction]:
    counts = history.counts.get(group)
    if counts is None:
        return
    words = sorted(counts.found.keys() | counts.expected.keys())
    is_wrong = operator.lt if counts.at_least_once else operator.ne
    wrong = [word for word in words if is_wrong(counts.found.get(word, 0), counts.expected.get(word, 0))]
    if wrong:
        said = "; ".join(
            f"{each}: {counts.found.get(each, 0)}, not {counts.expected.get(each, 0)}" for each in wrong[:5]
        )
        yield Contradiction(group, (), f"{len(wrong)} words are counted wrong: {said}")
    if counts.twice and not counts.at_least_once:
        yield Contradiction(group, (), f"{len(counts.twice)} counts were written twice: {', '.join(counts.twice[:5])}")
    if counts.lag:
        yield Contradiction(group, (), f"{counts.lag} records were never committed, although all faults had ended")


def _shared_state(history: History, group: str) -> Iterator[Contradiction]:
    """An instance had its state directory from the first line of its process until the last line or its death."""
    lives: dict[str, dict[int, list[float]]] = {}
    for line in history.ownership.get(group, ()):
        lives.setdefault(line.instance, {}).setdefault(line.pid, []).append(line.at_ms)
    for instance, of_instance in lives.items():
        spans = sorted(
            (min(times), min(max(times), history.deaths.get(pid, max(times))), pid)
            for pid, times in of_instance.items()
        )
        for (_, ended_ms, pid), (began_ms, _, next_pid) in pairwise(spans):
            if ended_ms > began_ms:
                yield Contradiction(group, (), f"{instance}: {next_pid} had the state before {pid} was gone")


def _shared_tasks(history: History, group: str) -> Iterator[Contradiction]:
    """Only a killed process loses its tasks at once. One that is frozen or cut off believes in them for a while."""
    if _only_kills(history):
        for both in overlaps(ownership_intervals(history.ownership.get(group, ()), history.deaths)):
            threads = f"{both.first.thread} and {both.second.thread}"
            yield Contradiction(group, (), f"{threads} both had {both.first.task}")


def _only_kills(history: History) -> bool:
    faults = {fault.fault for fault in history.faults}
    return bool(faults) and faults <= KILLS


def _failures(history: History, group: str) -> Iterator[Contradiction]:
    for failure in history.settings.get("failures", ()):
        if failure["group"] == group:
            yield Contradiction(group, (), failure["said"])


def _broken_off(history: History, group: str) -> Iterator[Contradiction]:
    said = history.settings.get("broken_off")
    if said and group == history.groups[0]:
        yield Contradiction(group, (), f"the run did not come to its end: {said}")


def _following(described: Sequence[Call]) -> Iterator[tuple[Call, Call]]:
    """Each description with the first one that began after its end."""
    place = 0
    for call in described:
        while place < len(described) and described[place].begin_ns <= call.end_ns:
            place += 1
        if place < len(described):
            yield call, described[place]


def _calls(*operations: str) -> Callable[[History, str], int]:
    return lambda history, group: sum(call.is_answered for call in history.calls_of(group, *operations))


def _lines(*events: str) -> Callable[[History, str], int]:
    return lambda history, group: sum(line.group == group and line.event in events for line in history.tasks)


def _lives(history: History, group: str) -> int:
    return len({line.client for line in history.tasks if line.group == group})


def _ownership(history: History, group: str) -> int:
    return len(history.ownership.get(group, ()))


def _owners(history: History, group: str) -> int:
    return _ownership(history, group) if _only_kills(history) else 0


def _counted(history: History, group: str) -> int:
    counts: Mapping[str, int] = history.counts[group].expected if group in history.counts else {}
    return sum(counts.values())


PROMISES: tuple[Promise, ...] = (
    Promise("the generation never goes back", _rises(generations_seen), _calls("join", "heartbeat", "describe")),
    Promise("a member's assignment never goes back", _assignments_rise, _calls("fetch", "heartbeat", "describe")),
    Promise("an assignment stays as it was answered", _every(changed_assignments), _calls("fetch")),
    Promise(
        "a task is active once in a generation",
        _every(lambda history, group: given_twice(history, group, standbys=False)),
        _calls("fetch", "describe"),
    ),
    Promise(
        "no process has a task twice",
        _every(lambda history, group: given_twice(history, group, standbys=True)),
        _calls("fetch", "describe"),
    ),
    Promise("a task is handed out after it was given up", _every(handed_out_too_early), _lines("assigned", "revoked")),
    Promise("threads have what their member was given", _every(not_as_given), _lines("assigned")),
    Promise("threads work on what they have", _every(worked_on_others), _lines("processed")),
    Promise("who is heard stays a member", _every(sent_away), _calls("join", "fetch", "heartbeat")),
    Promise("who joined is described", _every(not_described), _calls("join", "describe")),
    Promise("a group that was declared is known", _every(_unknown_group), _calls("declare")),
    Promise("the revision never goes back", _rises(revisions_seen), _calls("join", "declare", "describe")),
    Promise("the definition is as it was declared", _one(lost_definition), _calls("declare", "describe")),
    *map(_lever, LEVERS),
    Promise("who was drained stays so", _every(_forgotten_drains), _calls("drain", "end-drain", "describe")),
    Promise("a drain that was answered counts", _every(_drains_not_taken), _calls("drain")),
    Promise("a rebalance that waits is decided once", _every(_decided_twice), _calls("approve", "discard")),
    Promise("no member ends with an error", _failures, _lives),
    Promise("the run comes to rest after its faults", _broken_off, lambda _history, _group: 1),
    Promise("a state directory has one process", _shared_state, _ownership),
    Promise("a task on Spark has one owner", _shared_tasks, _owners),
    Promise("counts are exact, or at least once", _wrong_counts, _counted),
)
