"""Formats the history of a group or of one task as rows. The rows have labels such as "trigger", "was", "is" and
"because".

In the history of a task, there is one row for consecutive rebalances without a change. In the history of a group, tasks
with the same change and the same reason share rows. One row has the number of tasks that do not move. Moved tasks are
listed with their ids. If very many tasks move, the rows list only some of these tasks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from assignor.names.short_names import ShortNames
from assignor.types import ProcessId, Role, TaskId
from rebalance_analysis.history import GroupHistory, GroupRebalance, PlacedCopy, RebalanceFacts
from rebalance_analysis.history.task_history import TaskChange, TaskHistory, TaskRebalance, TaskSummary
from rebalance_analysis.presentation.moves import (
    NOT_HANDED_OUT,
    WAITED_FOR,
    ChangeTitle,
    active_process,
    copies_text,
    owners_before,
    places,
    same_standbys,
    title_of,
    waiting_text,
)
from rebalance_analysis.presentation.quantities import counted, duration_text, task_ranges, time_text
from rebalance_analysis.presentation.reasons import (
    decided_elsewhere,
    full_reason,
    missing_standbys,
    reason_for,
    short_reason,
    with_lags,
)
from rebalance_analysis.presentation.rebalances import (
    SEPARATOR,
    FactRow,
    cause_rows,
    history_heading,
    led_by,
    probing_text,
    rebalance_heading,
    rebalances_text,
)

BLOCKS_SHOWN = 8
PLACES_SHOWN = 12
"""The largest number of pairs of an old and a new process in a row that lists moves without reasons. There are such
rows if very many tasks change.
"""
INSTANCES_SHOWN = 6

_ORDER = list(ChangeTitle)


class _HistoryBlock(NamedTuple):
    """The texts about a task in the history of a group. Tasks with equal texts share rows. No row has an empty text."""

    change: ChangeTitle
    where: str
    was: str
    now: str
    because: str


class _TitledTask(NamedTuple):
    """A task with its texts. `block`: the texts about all copies of the task. `without_standbys`: the texts about the
    active copy alone. `place`: a text with the old and the new process of the active copy. `lags`: the numbers that
    replace the placeholders in the reason.
    """

    task: TaskId
    block: _HistoryBlock
    without_standbys: _HistoryBlock
    place: str
    lags: tuple[int, ...]


def history_rows(
    group_id: str, history: GroupHistory | TaskHistory, recorded: int | None, names: ShortNames, *, every: bool
) -> Iterator[FactRow]:
    """Returns the rows of a history. The history of a group must have been made with `group_history(every_task=True)`.
    `recorded`: the number of all recorded rebalances of the group; None if not known. `every`: True to show every task
    of a group, or every rebalance of a task, in separate rows. The rows show every step of the reason, even if nothing
    changed.
    """
    if isinstance(history, TaskHistory):
        return _task_history_rows(group_id, history, recorded, names, every)
    return _group_history_rows(group_id, history, recorded, names, every)


def _group_history_rows(
    group_id: str, history: GroupHistory, recorded: int | None, names: ShortNames, every: bool
) -> Iterator[FactRow]:
    yield history_heading(f"group {group_id}", [each.facts for each in history.rebalances], recorded)
    previous = None
    for each in history.rebalances:
        yield SEPARATOR
        yield rebalance_heading(each.facts)
        yield from cause_rows(each.facts, None if previous is None else previous.facts, names, None)
        if each.facts.error is not None:
            yield FactRow(f"no task was placed: {each.facts.error}", "error", 1)
        elif every:
            yield from _each_task(each, names)
        else:
            yield from _blocks(each, names)
            yield from _state_rows(each, previous, each is history.rebalances[-1], names)
        previous = each
    yield SEPARATOR
    yield from _summary(history, names)


def _each_task(each: GroupRebalance, names: ShortNames) -> Iterator[FactRow]:
    for task in each.task_rebalances:
        change = title_of(task)
        if change is ChangeTitle.GONE and not task.before:
            continue
        yield FactRow(f"{task.task} {change.of(1)}", depth=1)
        if task.before and change is not ChangeTitle.STAYS:
            yield FactRow(copies_text(task.before, names, lags=False), "was", 2)
        if task.copies:
            yield FactRow(copies_text(task.copies, names), "is", 2)
        because = decided_elsewhere(task) if task.differs else full_reason(task, names)
        if because is not None:
            yield FactRow(because, "because", 2)


def _blocks(each: GroupRebalance, names: ShortNames) -> Iterator[FactRow]:
    """Yields rows about the changes; the most important changes are first. The last row has the number of tasks that
    did not move.
    """
    found = [(title_of(task), task) for task in each.task_rebalances]
    titled = [_titled(task, change, names) for change, task in found if change is not ChangeTitle.GONE or task.before]
    changed = [task for task in titled if task.block.change is not ChangeTitle.STAYS]
    blocks = _alike(changed, lambda task: task.block)
    if len(blocks) > BLOCKS_SHOWN:
        blocks = _alike(changed, lambda task: task.without_standbys)
    moving = sum(1 for task in changed if task.block.change.is_move)
    if sum(1 for block, _ in blocks if block.change.is_move) > 1:
        yield FactRow(f"{moving} of {_tasks(len(titled))} {ChangeTitle.MOVES.of(moving)}", "in all", 1)
    for block, tasks in blocks[:BLOCKS_SHOWN]:
        yield from _block(block, tasks)
    yield from _rest([task for _, tasks in blocks[BLOCKS_SHOWN:] for task in tasks])
    stayed = len(titled) - len(changed)
    if stayed:
        yield FactRow(_stay_text(stayed, len(titled)), depth=1)


def _alike(
    tasks: Iterable[_TitledTask], block_of: Callable[[_TitledTask], _HistoryBlock]
) -> list[tuple[_HistoryBlock, list[_TitledTask]]]:
    found: dict[_HistoryBlock, list[_TitledTask]] = {}
    for task in tasks:
        found.setdefault(block_of(task), []).append(task)
    return sorted(found.items(), key=lambda row: (_ORDER.index(row[0].change), -len(row[1]), row[1][0].task))


def _rest(tasks: Sequence[_TitledTask]) -> Iterator[FactRow]:
    """Yields a row for each kind of change. The row lists the changed tasks with their old and new processes, without
    reasons.
    """
    for change in _ORDER:
        same = [task for task in tasks if task.block.change is change]
        if not same:
            continue
        by_place = [(place, list(of)) for place, of in groupby(sorted(same, key=_by_place), lambda task: task.place)]
        texts = [f"{task_ranges([task.task for task in of])}{place}" for place, of in by_place[:PLACES_SHOWN]]
        left = sum(len(of) for _, of in by_place[PLACES_SHOWN:])
        texts += [f"and {left} more"] if left else []
        verb = change.of(len(same))
        yield FactRow(f"besides, {_tasks(len(same))} {verb} (--all says why): {'; '.join(texts)}", depth=1)


def _by_place(task: _TitledTask) -> tuple[str, TaskId]:
    return task.place, task.task


def _state_rows(
    each: GroupRebalance, previous: GroupRebalance | None, is_last: bool, names: ShortNames
) -> Iterator[FactRow]:
    """Yields rows about waiting tasks and about tasks with missing standbys. Leaves out rows that are equal to the rows
    of the previous rebalance. The last rebalance is an exception: its rows are always yielded.
    """
    waiting = _waiting_texts(each, names)
    if waiting and (is_last or previous is None or waiting != _waiting_texts(previous, names)):
        for text in waiting:
            yield FactRow(text, depth=1)
        if each.facts.probing_at_ms is not None and not is_last:
            yield FactRow(probing_text(each.facts.probing_at_ms), depth=1)
    without = _without_standbys(each)
    if without and (is_last or previous is None or without != _without_standbys(previous)):
        have = "has" if len(without) == 1 else "have"
        reason = "no instance is left for more"
        yield FactRow(f"{_tasks(len(without))} {have} fewer standbys than num.standby.replicas: {reason}", depth=1)


def _without_standbys(each: GroupRebalance) -> list[TaskId]:
    if each.differing:
        return []
    return [task.task for task in each.task_rebalances if task.explanation and missing_standbys(task.explanation)]


def _block(block: _HistoryBlock, tasks: Sequence[_TitledTask]) -> Iterator[FactRow]:
    shown = task_ranges([task.task for task in tasks])
    yield FactRow(f"{_tasks(len(tasks))} {block.change.of(len(tasks))}{block.where}: {shown}", depth=1)
    because = with_lags(block.because, [task.lags for task in tasks])
    for label, text in (("was", block.was), ("is", block.now), ("because", because)):
        if text:
            yield FactRow(text, label, 2)


def _titled(each: TaskRebalance, change: ChangeTitle, names: ShortNames) -> _TitledTask:
    active = names.short(active_process(each.copies))
    if change is ChangeTitle.HANDED_OVER and places(each.before) == places(each.copies):
        handed_over = _HistoryBlock(change, f" to {active}", "", "", "")
        return _TitledTask(each.task, handed_over, handed_over, "", ())
    reason = reason_for(each, change, names)
    if change is ChangeTitle.THREAD and same_standbys(each):
        given_up = " once it is given up" if any(copy.held_back for copy in each.copies) else ""
        thread = _HistoryBlock(change, f" of {active}{given_up}", "", "", reason.template)
        return _TitledTask(each.task, thread, thread, f" of {active}{given_up}", reason.lags)
    before = [_copy_text(copy, names) for copy in each.before] or _owners_by_members(each, names)
    now = [_copy_text(copy, names, _giver(each, names)) for copy in each.copies] or ["nowhere"]
    block = _HistoryBlock(change, "", ", ".join(before), ", ".join(now), reason.template)
    if not change.is_move and change is not ChangeTitle.STARTS:
        return _TitledTask(each.task, block, block, "", reason.lags)
    active_alone = _HistoryBlock(change, "", "".join(before[:1]), now[0], reason.template)
    from_whom = "".join(f" from {name}" for name in _owners(each, names)) if change is not ChangeTitle.STARTS else ""
    return _TitledTask(each.task, block, active_alone, f"{from_whom} to {active}", reason.lags)


def _owners(each: TaskRebalance, names: ShortNames) -> list[str]:
    """Returns the names of the processes that had the active copy of the task before the rebalance."""
    process = active_process(each.before)
    return [names.short(process)] if process is not None else [" and ".join(map(names.short, owners_before(each)))]


def _copy_text(copy: PlacedCopy, names: ShortNames, giver: str = "") -> str:
    held_back = f" once {giver} has given it up" if giver else f", {NOT_HANDED_OUT}"
    held_back = held_back if copy.held_back else ""
    return f"{copy.role} on {names.short(copy.process)}{held_back}"


def _owners_by_members(each: TaskRebalance, names: ShortNames) -> list[str]:
    text = " and ".join(f"active on {names.short(process)}" for process in owners_before(each))
    return [text] if text else []


def _giver(each: TaskRebalance, names: ShortNames) -> str:
    """Returns the name of the owner that has to revoke a held-back task."""
    previous = owners_before(each)
    if active_process(each.copies) in previous:
        return "its other thread"
    return " and ".join(map(names.short, previous)) or "its owner"


def _waiting_texts(each: GroupRebalance, names: ShortNames) -> list[str]:
    """Returns a text for each instance that has to catch up before tasks move to it. The text lists the tasks that
    wait.
    """
    texts = []
    waiting = [(task.waiting, task.task) for task in each.task_rebalances if task.waiting is not None]
    rows = sorted((wait.kind, str(wait.process), task, wait) for wait, task in waiting if wait.kind in WAITED_FOR)
    for (kind, _), same in groupby(rows, key=lambda row: row[:2]):
        found = list(same)
        tasks = [task for _, _, task, _ in found]
        verb = "waits" if len(tasks) == 1 else "wait"
        process = names.short(found[0][3].process)
        texts.append(f"{_tasks(len(tasks))} {verb} for {process} {WAITED_FOR[kind]}: {task_ranges(tasks)}")
    return texts


def _summary(history: GroupHistory, names: ShortNames) -> Iterator[FactRow]:
    """Yields rows with the number of moves, the processes that have the tasks now, and the next rebalance."""
    yield FactRow(f"{counted(history.moves, 'move')} of active tasks in {rebalances_text(len(history.rebalances))}")
    last = history.rebalances[-1]
    active = [copy for task in last.task_rebalances for copy in task.copies if copy.role is Role.ACTIVE]
    running = Counter(copy.process for copy in active if not copy.held_back)
    if running:
        on_their_way = len(active) - running.total()
        rest = f", {_tasks(on_their_way)} on the way" if on_their_way else ""
        yield FactRow(f"now {_running_text(running, names)}{rest}")
    follows = _follows(last)
    if follows:
        yield FactRow(f"next: {follows}")


def _running_text(running: Counter[ProcessId], names: ShortNames) -> str:
    if len(running) > INSTANCES_SHOWN:
        return f"{len(running)} instances run {min(running.values())} to {max(running.values())} tasks each"
    return ", ".join(f"{names.short(process)} runs {_tasks(count)}" for process, count in sorted(running.items()))


def _follows(last: GroupRebalance) -> str:
    """Returns a text about the next rebalance that the leader requested; empty if the recording does not show it."""
    facts: RebalanceFacts = last.facts
    if facts.now_ms is None or facts.error is not None:
        return ""
    if facts.followup:
        return "a follow-up rebalance at once, which hands over what was given up"
    if facts.created:
        return f"another rebalance, as soon as the leader sees {' and '.join(facts.created)}, which this one created"
    if facts.probing_at_ms is None:
        return "nothing, the group has settled"
    elsewhere = [task.task for task in last.task_rebalances if _belongs_elsewhere(task)]
    are, belong = ("is", "it belongs") if len(elsewhere) == 1 else ("are", "they belong")
    because = f", because {task_ranges(elsewhere)} {are} not yet on the instance where {belong}" if elsewhere else ""
    forecast = "assignor simulate says when the group settles"
    return f"a probing rebalance at {time_text(facts.probing_at_ms)}{because} ({forecast})"


def _belongs_elsewhere(task: TaskRebalance) -> bool:
    target = None if task.explanation is None or task.differs else task.explanation.target
    return target is not None and target != active_process(task.copies)


def _stay_text(stayed: int, every: int) -> str:
    if stayed == every:
        return "the task stays where it is" if every == 1 else f"all {every} tasks stay where they are"
    return f"{_tasks(stayed)} {ChangeTitle.STAYS.of(stayed)}"


def _tasks(count: int) -> str:
    return counted(count, "task")


DIFFERS = "recorded placement differs from this program's: reasons are of a re-run"


def _task_history_rows(
    group_id: str, history: TaskHistory, recorded: int | None, names: ShortNames, every: bool
) -> Iterator[FactRow]:
    rebalances = history.rebalances
    yield history_heading(f"group {group_id}, task {history.task}", [each.facts for each in rebalances], recorded)
    pairs = [(each, before) for before, each in zip([None, *rebalances], rebalances, strict=False)]
    for is_unchanged, several in groupby(pairs, key=lambda pair: not every and _is_unchanged(*pair)):
        if is_unchanged:
            yield SEPARATOR
            yield from _unchanged_rows([each for each, _ in several], names)
            continue
        for each, before in several:
            yield SEPARATOR
            yield from _rebalance_rows(each, before, names, every)
    yield SEPARATOR
    yield FactRow(f"in {rebalances_text(len(rebalances))}")
    yield from task_summary_rows(history.summary, names)


def _rebalance_rows(
    each: TaskRebalance, before: TaskRebalance | None, names: ShortNames, every: bool
) -> Iterator[FactRow]:
    facts = each.facts
    yield rebalance_heading(facts)
    yield from cause_rows(facts, None if before is None else before.facts, names, each.task)
    if each.before and each.change is not TaskChange.STAYED:
        yield FactRow(copies_text(each.before, names, lags=False), "was", 1)
    yield FactRow(copies_text(each.copies, names), "is", 1)
    yield FactRow(f"{each.change}{_outcome(each)}", "outcome", 1)
    if facts.error is not None:
        yield FactRow(facts.error, "error", 1)
    because = full_reason(each, names) if every else _because(each, names)
    if because is not None:
        yield FactRow(because, "because", 1)
    if each.differs:
        yield FactRow(f"{DIFFERS}{led_by(facts)}", "beware", 1)


def _because(each: TaskRebalance, names: ShortNames) -> str | None:
    if each.explanation is None or each.problem is None:
        return each.reason
    reason = short_reason(each.explanation, each.problem, names.short)
    return each.reason if reason is None else str(reason)


def _outcome(each: TaskRebalance) -> str:
    if each.outcome is None or each.differs or str(each.outcome) == str(each.change):
        return ""
    return f" – {each.outcome}"


def _is_unchanged(each: TaskRebalance, before: TaskRebalance | None) -> bool:
    """True if the copies of the task are unchanged and the task waits for the same kind of event as before."""
    if before is None or each.differs or each.facts.error is not None:
        return False
    if each.facts.not_recorded or each.facts.interrupted:
        return False
    if each.change is TaskChange.ABSENT:
        return before.change is TaskChange.ABSENT
    kinds = [None if waiting is None else waiting.kind for waiting in (before.waiting, each.waiting)]
    return each.change is TaskChange.STAYED and kinds[0] == kinds[1]


def _unchanged_rows(rebalances: Sequence[TaskRebalance], names: ShortNames) -> Iterator[FactRow]:
    last = rebalances[-1]
    first_facts, facts = rebalances[0].facts, last.facts
    if first_facts is facts:
        yield rebalance_heading(facts)
    else:
        known = first_facts.now_ms is not None and facts.now_ms is not None
        time = f" over {duration_text((facts.now_ms or 0) - (first_facts.now_ms or 0))}" if known else ""
        generations = f"generations {first_facts.generation} to {facts.generation}"
        yield FactRow(f"{generations}  {rebalances_text(len(rebalances))}{time}")
    if last.change is TaskChange.ABSENT:
        yield FactRow("no such task", "", 1)
    else:
        yield FactRow(copies_text(last.copies, names, lags=False), "stays", 1)
    if last.waiting is not None:
        yield FactRow(waiting_text(last.waiting, names), "waits for", 1)


def task_summary_rows(summary: TaskSummary, names: ShortNames) -> Iterator[FactRow]:
    """Returns rows with the totals of a task over its whole history."""
    times = "once" if summary.moves == 1 else f"{summary.moves} times" if summary.moves else "never"
    warm_ups = f"{rebalances_text(summary.warm_up_rounds)} had a warm-up copy of it"
    yield FactRow(times, "moved", 1)
    yield FactRow(warm_ups if summary.warm_up_rounds else "never had a warm-up copy", "warm-ups", 1)
    yield FactRow(_without_owner(summary), "no owner", 1)
    yield FactRow(copies_text(summary.copies, names), "is now", 1)
    yield FactRow(waiting_text(summary.waiting, names), "waits for", 1)


def _without_owner(summary: TaskSummary) -> str:
    """Returns the time without an owner, as text. The real time may be shorter. The old owner runs the task until a
    heartbeat response tells this owner to rejoin.
    """
    parts = []
    if summary.without_owner_ms:
        parts.append(f"at most {duration_text(summary.without_owner_ms)} between rebalances")
    if summary.without_owner_since_ms is not None:
        parts.append(f"handed to nobody since {time_text(summary.without_owner_since_ms)}")
    return "; ".join(parts) or "never held back"
