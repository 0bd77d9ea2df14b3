"""Who may have which task, and who may be sent away. Pure.

A member id is never given out twice. Each belongs to one stream thread of one process; `Tenants` knows whose it was.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.history.calls import Call, History, TasksLine


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose a member id is: `client` is one life of the process with `process_id`."""

    client: str
    process_id: str


def tenants(calls: Sequence[Call]) -> dict[str, Tenant]:
    """By member id, of the joins of one group that were answered."""
    return {
        call.answer["member_id"]: Tenant(call.client, str(call.arguments["process_id"]))
        for call in calls
        if call.operation == "join" and call.is_answered
    }


@dataclass(frozen=True, slots=True)
class _Given:
    """A copy of a task in one generation."""

    member_id: str
    active: bool
    call: Call


def changed_assignments(history: History, group: str) -> Iterator[Sequence[Call]]:
    """A member fetched the same generation twice, with two answers."""
    first: dict[tuple[str, int], Call] = {}
    for call in _fetches(history, group):
        key = (call.arguments["member_id"], call.answer["generation_id"])
        known = first.setdefault(key, call)
        if known.answer["digest"] != call.answer["digest"]:
            yield known, call


def given_twice(history: History, group: str, *, standbys: bool) -> Iterator[Sequence[Call]]:
    """Two members have one task in one generation, as they fetched it or as one description says.

    `standbys` False: active at both. True: in two members of one process, in whichever role. A member that was started
    again takes over the assignment of its earlier life: that is one member.
    """
    calls = history.calls_of(group)
    whose = tenants(calls)
    by_task: dict[tuple[int, str], list[_Given]] = {}
    for call in _fetches(history, group):
        generation_id, member_id = call.answer["generation_id"], call.arguments["member_id"]
        for task, active in _copies(call.answer):
            by_task.setdefault((generation_id, task), []).append(_Given(member_id, active, call))
    for copies in by_task.values():
        yield from _clashes(copies, whose, standbys)
    for call in calls:
        if call.operation == "describe" and call.is_answered:
            yield from _clashes_within(call, standbys)


def _clashes(copies: list[_Given], whose: Mapping[str, Tenant], standbys: bool) -> Iterator[Sequence[Call]]:
    for place, one in enumerate(copies):
        for other in copies[:place]:
            mine, his = whose.get(one.member_id), whose.get(other.member_id)
            if one.member_id == other.member_id or mine is None or his is None:
                continue
            same_process, same_life = mine.process_id == his.process_id, mine.client == his.client
            if standbys and same_process and same_life:
                yield other.call, one.call
            if not standbys and one.active and other.active and (same_life or not same_process):
                yield other.call, one.call


def _clashes_within(call: Call, standbys: bool) -> Iterator[Sequence[Call]]:
    """Only a group at rest: while a rebalance runs, assignments of two generations stand beside each other."""
    owners: set[tuple[object, ...]] = set()
    for member in call.answer["members"]:
        for task, active in _copies(member):
            if standbys or active:
                copy = (member["generation_id"], task, member["process_id"] if standbys else None)
                if copy in owners:
                    yield (call,)
                owners.add(copy)


def not_as_given(history: History, group: str) -> Iterator[Sequence[Call | TasksLine]]:
    """A thread took other active tasks than its member had fetched in that generation."""
    fetched = {(call.arguments["member_id"], call.answer["generation_id"]): call for call in _fetches(history, group)}
    for line in history.tasks:
        if line.group == group and line.event == "assigned":
            call = fetched.get((line.member_id, line.generation_id))
            if call is not None and sorted(call.answer["active"]) != sorted(line.active):
                yield call, line


def worked_on_others(history: History, group: str) -> Iterator[Sequence[TasksLine]]:
    """A thread processed a record of a task that it did not have."""
    newest: dict[tuple[str, str], TasksLine] = {}
    for line in history.tasks:
        if line.group != group:
            continue
        if line.event == "processed":
            held = newest.get((line.client, line.thread))
            if held is None or line.task not in held.active:
                yield (line,) if held is None else (held, line)
        elif line.event != "restored":
            newest[line.client, line.thread] = line


@dataclass(frozen=True, slots=True)
class _Owned:
    """`until`: the line with which the thread gave the task up; None when it never said so."""

    since: TasksLine
    until: TasksLine | None


def handed_out_too_early(history: History, group: str) -> Iterator[Sequence[Call | TasksLine]]:
    """A thread got a task while another one still had it and was still a member.

    A process that was frozen, cut off or killed says nothing of what was taken from it meanwhile. So what counts is a
    heartbeat that it sent after the task was elsewhere and before it gave it up, and that named it as a member.
    """
    beats: dict[str, list[Call]] = {}
    for call in history.calls_of(group, "heartbeat"):
        if call.is_answered:
            for member_id, news in call.answer["members"].items():
                if "code" not in news:
                    beats.setdefault(member_id, []).append(call)
    begins = {member_id: [call.begin_ns for call in of_member] for member_id, of_member in beats.items()}
    for owned in _owned(line for line in history.tasks if line.group == group).values():
        for place, later in enumerate(owned):
            for earlier in owned[:place]:
                if (earlier.since.client, earlier.since.thread) == (later.since.client, later.since.thread):
                    continue
                member_id = earlier.since.member_id
                if earlier.until is not None and earlier.until.at_ns <= later.since.at_ns:
                    continue
                of_member = beats.get(member_id, [])
                index = bisect_right(begins.get(member_id, []), later.since.at_ns)
                if index < len(of_member) and (
                    earlier.until is None or of_member[index].begin_ns < earlier.until.at_ns
                ):
                    yield tuple(each for each in (earlier.since, later.since, of_member[index], earlier.until) if each)


def sent_away(history: History, group: str) -> Iterator[Sequence[Call]]:
    """A member is unknown, although it was heard shortly before and has not left.

    `heard_within_ms` of the settings: nobody may be removed sooner than that after he was heard.
    """
    bound_ns = int(history.settings["heard_within_ms"]) * 1_000_000
    heard: dict[str, Call] = {}
    left_ns = {call.arguments["member_id"]: call.begin_ns for call in history.calls_of(group, "leave")}
    gone: set[str] = set()
    for call in sorted(history.calls_of(group, "join", "fetch", "heartbeat"), key=lambda each: each.end_ns):
        for member_id, code in _told(call):
            if code is None:
                known = heard.get(member_id)
                heard[member_id] = call if known is None or known.begin_ns < call.begin_ns else known
            elif code == "UNKNOWN_MEMBER_ID":
                known = heard.get(member_id)
                has_left = member_id in gone or left_ns.get(member_id, call.end_ns) < call.end_ns
                if not has_left and known is not None and known.end_ns < call.begin_ns:
                    heard_lately = call.end_ns - known.begin_ns < bound_ns
                    if heard_lately:
                        yield known, call
                gone.add(member_id)


def not_described(history: History, group: str) -> Iterator[Sequence[Call]]:
    """A description leaves out a member that had joined before it and was answered as one after it."""
    described = [call for call in history.calls_of(group, "describe") if call.is_answered]
    begins = [call.begin_ns for call in described]
    joins: dict[str, Call] = {}
    newest: dict[str, Call] = {}
    for call in history.calls_of(group, "join", "fetch", "heartbeat"):
        for member_id, code in _told(call):
            if code is None:
                newest[member_id] = call
                if call.operation == "join":
                    joins.setdefault(member_id, call)
    for member_id, join in joins.items():
        last = newest[member_id]
        for description in described[bisect_right(begins, join.end_ns) : bisect_right(begins, last.begin_ns)]:
            if description.end_ns < last.begin_ns and not any(
                member["member_id"] == member_id for member in description.answer["members"]
            ):
                yield join, description, last


def _told(call: Call) -> Iterator[tuple[str, str | None]]:
    """Member and what its call was refused with; None when it was answered."""
    if call.operation == "heartbeat" and call.is_answered:
        for member_id, news in call.answer["members"].items():
            yield member_id, news.get("code")
    elif call.operation != "heartbeat":
        member_id = call.answer.get("member_id") or call.arguments["member_id"]
        if member_id is not None and (call.is_answered or call.code):
            yield member_id, call.code or None


def _owned(lines: Iterator[TasksLine]) -> dict[str, list[_Owned]]:
    """By task, each by its begin."""
    found: dict[str, list[_Owned]] = {}
    present: dict[tuple[str, str], dict[str, TasksLine]] = {}
    for line in lines:
        if line.event in ("restored", "processed"):
            continue
        mine = present.setdefault((line.client, line.thread), {})
        for task in [task for task in mine if task not in line.active]:
            found.setdefault(task, []).append(_Owned(mine.pop(task), line))
        for task in line.active:
            mine.setdefault(task, line)
    for mine in present.values():
        for task, since in mine.items():
            found.setdefault(task, []).append(_Owned(since, None))
    return {task: sorted(of_task, key=lambda each: each.since.at_ns) for task, of_task in found.items()}


def _fetches(history: History, group: str) -> Iterator[Call]:
    for call in history.calls_of(group, "fetch"):
        if call.is_answered and call.answer.get("generation_id") is not None:
            yield call


def _copies(tasks: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, bool]]:
    """Each copy, and whether it is the active one."""
    for active, role in ((True, "active"), (False, "standby")):
        for task in tasks[role]:
            yield task, active
