"""What the history of a group says is what happened: every sentence is compared with the recorded bytes and with the
decisions of the rebalance, none of which the history's own code has made.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.names.short_names import InstanceNames
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import ProcessId, Role, TaskId
from assignor_cli.tables import View
from rebalance_analysis.commands.explain import history_text
from rebalance_analysis.history import group_history
from rebalance_analysis.history.triggers import processes_of
from rebalance_analysis.presentation import history_rows, quantities
from rebalance_analysis.reading.task_owners import owners_in
from rebalance_analysis.rerun import RerunRebalance, run
from tests.known import known
from tests.rebalance_analysis.history.histories import past_rebalances, recorded
from tests.recorded import documents

HISTORIES = ("smoke", "static", "threads2", "upgrade", "wcflow", "optimized", "racks")
UNWRAPPED = View(width=10**6)
KEPT: tuple[str, ...] = ("gets other standbys", "get other standbys", "gets a warm-up", "get a warm-up")
KEPT += ("loses its warm-up", "lose their warm-up")
IN_PLACE = ("goes to another thread", "go to another thread")

_TITLE = re.compile(r"  (?:besides, )?(\d+) tasks? (?P<verb>[a-z -]+?)(?: (?:of|to) .*)?(?: \(--all says why\))?: (.+)")
_PLACE = re.compile(r"(?P<tasks>.+?)(?: from (?P<giver>.+?))?(?: to (?P<receiver>[^ _]+))?(?: of .+)?\Z")
_STAY = re.compile(r"  (?:all )?(?:(\d+)|the) tasks? stays? where (?:it|they) (?:is|are)")
_ACTIVE = re.compile(r"active on (\S+?)(?: once .*| and .*)?(?:,.*)?\Z")
_TARGETS = (DecisionKind.TARGET, DecisionKind.BALANCED, DecisionKind.RACK_MOVED)
_REASONS = {  # the words, and which decision of the leader has to stand behind them
    r"it has no state, and (\S+) has the lowest load": (Role.ACTIVE, (DecisionKind.STATELESS,)),
    r"it belongs on (\S+) \(round robin": (Role.ACTIVE, _TARGETS[:2]),
    r"it belongs on (\S+), (?:because it saves reading|to make room)": (Role.ACTIVE, (DecisionKind.RACK_MOVED,)),
    r"a standby of it belongs on (\S+)\Z": (Role.STANDBY, _TARGETS),
    r"(\S+) restores its state, to have": (Role.STANDBY, (DecisionKind.WARM_UP,)),
    r"while (\S+) warms up": (None, (DecisionKind.WARM_UP,)),
    r"and (\S+) waits for its turn to warm up": (None, (DecisionKind.WARM_UP_BUDGET_SPENT,)),
    r": (\S+) (?:\(lag [^)]*\) )?has a standby and takes over": (Role.ACTIVE, (DecisionKind.SWAPPED,)),
    r"(\S+) had it active": (Role.ACTIVE, (DecisionKind.PREVIOUS_ACTIVE,)),
    r"(\S+) had a standby of it": (Role.ACTIVE, (DecisionKind.PREVIOUS_STANDBY,)),
    r"(\S+) has the most room for it": (Role.ACTIVE, (DecisionKind.LEAST_LOADED,)),
}
_LAG = re.compile(r"(\S+) (?:is (?:behind|caught up) )?\(lag ([\d,]+)(?: to ([\d,]+))?\)")


class ToldBlock(NamedTuple):
    """`was` and `now`: who has the active copy, by the name that the history gives him; None when it does not say."""

    verb: str
    tasks: tuple[TaskId, ...]
    was: str | None
    now: str | None
    because: str


@cache
def generated() -> Sequence[dict[str, Any]]:
    return [line for line in documents("rebalances.jsonl.gz") if line["output"].get("error") is None]


@pytest.fixture(autouse=True, scope="module")
def every_task_is_named() -> Iterator[None]:
    """Where there are very many, the history names only the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantities, "TASKS_SHOWN", 10**6)
        patch.setattr(history_rows, "PLACES_SHOWN", 10**6)
        yield


@pytest.mark.parametrize("name", HISTORIES)
def test_should_tell_recorded_groups_as_they_were(name: str) -> None:
    lines = recorded(name)
    for before, line in zip([None, *lines], lines, strict=False):
        check(line, before)


@given(which=st.integers(min_value=0))
def test_should_tell_any_rebalance_as_it_was(which: int) -> None:
    check(generated()[which % len(generated())], None)


def check(line: dict[str, Any], before: dict[str, Any] | None) -> None:
    ran = run(line)
    assert isinstance(ran, RerunRebalance)
    earlier = None if before is None else past_rebalances([before])[0]
    history = group_history(past_rebalances([line]), earlier, every_task=True)
    (rebalance,) = history.rebalances
    if rebalance.facts.error is not None or ran.result.placement is None:
        return
    names = InstanceNames(history.instances)
    clients = {} if ran.result.problem is None else ran.result.problem.clients
    processes = {names.short(process): process for process in {*history.instances, *clients}}
    told = list(blocks(history_text("g", history, None, UNWRAPPED, every=False)))
    named = [task for block in told for task in block.tasks]
    owners, owners_before = owners_now(ran), owners_of(before, ran)

    assert len(named) == len(set(named)), "told twice"
    for block in told:
        for task in block.tasks:
            assert_true_of(task, block, owners, owners_before, processes, ran)
    moved = {task for task, owner in owners.items() if task in owners_before and owners_before[task] != owner}
    kept = {task for block in told if block.verb in (*KEPT, *IN_PLACE) for task in block.tasks}
    assert moved <= set(named) - kept, "a task that moves is told as one that does not"


def assert_true_of(
    task: TaskId,
    block: ToldBlock,
    owners: Mapping[TaskId, ProcessId],
    owners_before: Mapping[TaskId, ProcessId],
    processes: Mapping[str, ProcessId],
    ran: RerunRebalance,
) -> None:
    if block.was is not None:
        assert processes[block.was] == owners_before[task], (task, block)
    if block.now is not None:
        assert processes[block.now] == owners[task], (task, block)
    decisions = [each for each in ran.result.decisions if each.task == task]
    for words, (role, kinds) in _REASONS.items():
        for name in re.findall(words, block.because):
            behind = {each.process for each in decisions if each.kind in kinds and role in (None, each.role)}
            assert processes[name] in behind, (task, block)
    for name, low, high in _LAG.findall(block.because):
        whose = block.now if name == "up" else name  # nobody is more caught up
        lag = known(ran.result.problem).clients[processes[known(whose)]].lags.lag_for(task)
        assert number(low) <= lag <= number(high or low), (task, block)


def owners_now(ran: RerunRebalance) -> dict[TaskId, ProcessId]:
    """Also of tasks that are held back."""
    return {task: process for process, client in known(ran.result.placement).clients.items() for task in client.active}


def owners_of(before: dict[str, Any] | None, ran: RerunRebalance) -> dict[TaskId, ProcessId]:
    """Who had each task, or was to get it: by the rebalance before, without one by what the members say."""
    if before is not None:
        earlier = run(before)
        assert isinstance(earlier, RerunRebalance)
        process_of = {member: process for process, view in processes_of(earlier).items() for member in view.members}
        in_bytes = {task: process_of[member] for task, (member,) in owners_in(before).active.items()}
        held_back = owners_now(earlier)
        assert in_bytes.items() <= held_back.items()
        return held_back
    clients = known(ran.result.problem).clients.items()
    said: dict[TaskId, set[ProcessId]] = {}
    for process, client in clients:
        for task in client.previous_active:
            said.setdefault(task, set()).add(process)
    return {task: next(iter(by)) for task, by in said.items() if len(by) == 1}


def blocks(text: str) -> Iterator[ToldBlock]:
    lines = text.split("\n\n")[1].splitlines()
    for index, line in enumerate(lines):
        title = _TITLE.fullmatch(line)
        if title is None or _STAY.fullmatch(line):
            continue
        count, verb, listed = title.groups()
        facts = {}
        for below in lines[index + 1 :]:
            if not below.startswith("    "):
                break
            facts[below[:15].strip()] = below[15:]
        found = [
            ToldBlock(verb, tuple(tasks(each["tasks"])), *sides(verb, line, facts, each), facts.get("because", ""))
            for each in (_PLACE.fullmatch(part) for part in listed.split("; "))
            if each is not None
        ]
        if "wait" in verb or "have fewer" in verb or "has fewer" in verb:
            continue
        assert sum(len(each.tasks) for each in found) == int(count), line
        yield from found


def sides(verb: str, line: str, facts: Mapping[str, str], place: re.Match[str]) -> tuple[str | None, str | None]:
    handed_over = re.match(r"  \d+ tasks? (?:is|are) handed over to (\S+):", line)
    if handed_over is not None:
        return None, handed_over[1]
    was, now = (_ACTIVE.fullmatch(facts.get(label, "")) for label in ("was", "is"))
    contradicted = " and active on " in facts.get("was", "") or verb.startswith(("is handed", "are handed"))
    giver = None if place["giver"] is None or " and " in place["giver"] else place["giver"]
    return (giver if was is None or contradicted else was[1], place["receiver"] if now is None else now[1])


def tasks(listed: str) -> Iterator[TaskId]:
    for part in listed.split(", "):
        first, _, last = part.partition(" to ")
        start, end = TaskId.parse(first), TaskId.parse(last or first)
        for partition in range(start.partition, end.partition + 1):
            yield TaskId(start.subtopology, partition)


def number(text: str) -> int:
    return int(text.replace(",", ""))
