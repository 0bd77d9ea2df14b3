"""The history of a group as text. Tasks that did the same for the same reason are told together: trigger, was, is,
because. Tasks that stay where they are are folded into one line. Every task that moves is named, unless there are very
many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from assignor.decisions import DecisionKind
from assignor.names import ShortNames
from assignor.types import ProcessId, Role, TaskId
from assignor_cli.tables import View, paragraph
from rebalance_analysis.commands.change_titles import (
    ChangeTitle,
    active_process,
    owners_before,
    reason_for,
    same_copies,
    same_standbys,
    title_of,
)
from rebalance_analysis.commands.history_lines import (
    cause_lines,
    explained_words,
    history_heading,
    labelled,
    led_by,
    names_for,
    reason_of,
    rebalance_heading,
    rebalances_text,
)
from rebalance_analysis.history import GroupHistory, GroupRebalance, PlacedCopy, RebalanceFacts, TaskRebalance
from rebalance_analysis.history.wording import copies_text, time_text
from rebalance_analysis.short_reasons import LAG, ShortReason, missing_standbys

BLOCKS_SHOWN = 8
PLACES_SHOWN = 12
"""Of the tasks in no block: how many kinds of movement are told."""
TASKS_SHOWN = 12
INSTANCES_SHOWN = 6

_IN_BLOCK = 4
_ORDER = list(ChangeTitle)
_MOVING = (ChangeTitle.MOVES, ChangeTitle.HELD_BACK)


class _HistoryBlock(NamedTuple):
    """What the history says of a task: tasks with equal blocks are told together. Empty texts are not said."""

    change: ChangeTitle
    where: str
    was: str
    now: str
    because: str


class _TitledTask(NamedTuple):
    """`block`: with standbys. `without_standbys`: the same about the active copy alone. `place`: from where to where it
    goes. `lags`: of the reason.
    """

    task: TaskId
    block: _HistoryBlock
    without_standbys: _HistoryBlock
    place: str
    lags: tuple[int, ...]


def group_history_text(group_id: str, history: GroupHistory, recorded: int | None, view: View, *, every: bool) -> str:
    """`history`: with every task. `recorded`: how many rebalances there are in all, None when not known. `every`: each
    task by itself, also where it stays, with every step of the reason.
    """
    names = names_for(history.instances, view)
    lines = [history_heading(f"group {group_id}", [each.facts for each in history.rebalances], recorded)]
    previous = None
    for each in history.rebalances:
        before = None if previous is None else previous.facts
        lines += ["", rebalance_heading(each.facts), *cause_lines(each.facts, before, names, None, view)]
        if each.facts.error is not None:
            lines.append(labelled("error", f"no task was placed: {each.facts.error}", view))
        elif every or view.wide:
            lines += _each_task(each, names, view)
        else:
            lines += _blocks(each, names, view)
            lines += _state_lines(each, previous, each is history.rebalances[-1], names, view)
        previous = each
    lines += ["", *_summary(history, names, view)]
    return "\n".join([*lines, *explained_words(lines, view)])


def _each_task(each: GroupRebalance, names: ShortNames, view: View) -> Iterator[str]:
    for told in each.told:
        change = title_of(told)
        if change is ChangeTitle.GONE and not told.before:
            continue
        yield f"  {told.task} {change.of(1)}"
        if told.before and change is not ChangeTitle.STAYS:
            yield labelled("was", copies_text(told.before, names, lags=False), view, indent=_IN_BLOCK)
        if told.copies:
            yield labelled("is", copies_text(told.copies, names), view, indent=_IN_BLOCK)
        because = _decided_elsewhere(told) if told.differs else reason_of(told, names)
        if because is not None:
            yield labelled("because", because, view, indent=_IN_BLOCK)


def _blocks(each: GroupRebalance, names: ShortNames, view: View) -> Iterator[str]:
    """What changed, most important first, and how many tasks stay where they are."""
    found = [(title_of(task), task) for task in each.told]
    told = [_told(task, change, names) for change, task in found if change is not ChangeTitle.GONE or task.before]
    changed = [task for task in told if task.block.change is not ChangeTitle.STAYS]
    blocks = _alike(changed, lambda task: task.block)
    if len(blocks) > BLOCKS_SHOWN:
        blocks = _alike(changed, lambda task: task.without_standbys)
    moving = sum(1 for task in changed if task.block.change in _MOVING)
    if sum(1 for block, _ in blocks if block.change in _MOVING) > 1:
        yield labelled("in all", f"{moving} of {_tasks(len(told))} {ChangeTitle.MOVES.of(moving)}", view)
    for block, tasks in blocks[:BLOCKS_SHOWN]:
        yield from _block(block, tasks, view)
    yield from _rest([task for _, tasks in blocks[BLOCKS_SHOWN:] for task in tasks], view)
    stayed = len(told) - len(changed)
    if stayed:
        yield f"  {_stay_text(stayed, len(told))}"


def _alike(
    tasks: Iterable[_TitledTask], block_of: Callable[[_TitledTask], _HistoryBlock]
) -> list[tuple[_HistoryBlock, list[_TitledTask]]]:
    found: dict[_HistoryBlock, list[_TitledTask]] = {}
    for task in tasks:
        found.setdefault(block_of(task), []).append(task)
    return sorted(found.items(), key=lambda row: (_ORDER.index(row[0].change), -len(row[1]), row[1][0].task))


def _rest(tasks: Sequence[_TitledTask], view: View) -> Iterator[str]:
    """Tasks that are told without a reason: a paragraph for each kind of change, with from where to where."""
    for change in _ORDER:
        same = [task for task in tasks if task.block.change is change]
        if not same:
            continue
        by_place = [(place, list(of)) for place, of in groupby(sorted(same, key=_by_place), lambda task: task.place)]
        texts = [f"{tasks_text([task.task for task in of])}{place}" for place, of in by_place[:PLACES_SHOWN]]
        left = sum(len(of) for _, of in by_place[PLACES_SHOWN:])
        texts += [f"and {left} more"] if left else []
        title = f"besides, {_tasks(len(same))} {change.of(len(same))} (--all says why): {'; '.join(texts)}"
        yield paragraph("", title, view, indent=2)


def _by_place(task: _TitledTask) -> tuple[str, TaskId]:
    return task.place, task.task


def _state_lines(
    each: GroupRebalance, previous: GroupRebalance | None, is_last: bool, names: ShortNames, view: View
) -> Iterator[str]:
    """What is not as it should be yet: said when it is new, and of the last rebalance."""
    waiting = _waiting_texts(each, names)
    if waiting and (is_last or previous is None or waiting != _waiting_texts(previous, names)):
        for text in waiting:
            yield paragraph("", text, view, indent=2)
        if each.facts.probing_at_ms is not None and not is_last:
            yield f"  a probing rebalance follows at {time_text(each.facts.probing_at_ms)}"
    without = _without_standbys(each)
    if without and (is_last or previous is None or without != _without_standbys(previous)):
        have = "has" if len(without) == 1 else "have"
        text = f"{_tasks(len(without))} {have} fewer standbys than num.standby.replicas: no instance is left for more"
        yield paragraph("", text, view, indent=2)


def _without_standbys(each: GroupRebalance) -> list[TaskId]:
    if each.differing:
        return []
    return [task.task for task in each.told if task.explanation and missing_standbys(task.explanation)]


def _block(block: _HistoryBlock, tasks: Sequence[_TitledTask], view: View) -> Iterator[str]:
    shown = tasks_text([task.task for task in tasks])
    yield paragraph("", f"{_tasks(len(tasks))} {block.change.of(len(tasks))}{block.where}: {shown}", view, indent=2)
    because = _with_lags(block.because, [task.lags for task in tasks])
    for label, text in (("was", block.was), ("is", block.now), ("because", because)):
        if text:
            yield labelled(label, text, view, indent=_IN_BLOCK)


def _told(each: TaskRebalance, change: ChangeTitle, names: ShortNames) -> _TitledTask:
    active = names.short(active_process(each.copies))
    if change is ChangeTitle.HANDED_OVER and same_copies(each):
        handed_over = _HistoryBlock(change, f" to {active}", "", "", "")
        return _TitledTask(each.task, handed_over, handed_over, "", ())
    reason = ShortReason(_decided_elsewhere(each)) if each.differs else reason_for(each, change, names)
    if change is ChangeTitle.THREAD and same_standbys(each):
        given_up = " once it is given up" if any(copy.held_back for copy in each.copies) else ""
        thread = _HistoryBlock(change, f" of {active}{given_up}", "", "", reason.template)
        return _TitledTask(each.task, thread, thread, f" of {active}{given_up}", reason.lags)
    before = [_copy_text(copy, names) for copy in each.before] or _as_members_say(each, names)
    now = [_copy_text(copy, names, _giver(each, names)) for copy in each.copies] or ["nowhere"]
    block = _HistoryBlock(change, "", ", ".join(before), ", ".join(now), reason.template)
    if change not in _MOVING and change is not ChangeTitle.STARTS:
        return _TitledTask(each.task, block, block, "", reason.lags)
    active_alone = _HistoryBlock(change, "", "".join(before[:1]), now[0], reason.template)
    from_whom = "".join(f" from {name}" for name in _owners(each, names)) if change is not ChangeTitle.STARTS else ""
    return _TitledTask(each.task, block, active_alone, f"{from_whom} to {active}", reason.lags)


def _owners(each: TaskRebalance, names: ShortNames) -> list[str]:
    """Who had the active copy."""
    process = active_process(each.before)
    return [names.short(process)] if process is not None else [" and ".join(map(names.short, owners_before(each)))]


def _decided_elsewhere(each: TaskRebalance) -> str:
    return f"another leader decided so{led_by(each.facts)}; this program would not have"


def _copy_text(copy: PlacedCopy, names: ShortNames, giver: str = "") -> str:
    held_back = f" once {giver} has given it up" if giver else ", not handed out yet"
    held_back = held_back if copy.held_back else ""
    return f"{copy.role} on {names.short(copy.process)}{held_back}"


def _as_members_say(each: TaskRebalance, names: ShortNames) -> list[str]:
    text = " and ".join(f"active on {names.short(process)}" for process in owners_before(each))
    return [text] if text else []


def _giver(each: TaskRebalance, names: ShortNames) -> str:
    """Who has to give a task up that is held back."""
    previous = owners_before(each)
    if active_process(each.copies) in previous:
        return "its other thread"
    return " and ".join(map(names.short, previous)) or "its owner"


def _with_lags(template: str, lags: Sequence[tuple[int, ...]]) -> str:
    """The reason with its numbers: of several tasks from the smallest to the largest."""
    parts = template.split(LAG)
    text = parts[0]
    for column, part in enumerate(parts[1:]):
        found = [each[column] for each in lags]
        low, high = min(found), max(found)
        text += f"{low:,}{part}" if low == high else f"{low:,} to {high:,}{part}"
    return text


def _waiting_texts(each: GroupRebalance, names: ShortNames) -> list[str]:
    """Tasks that run somewhere for now and are to move later."""
    texts = []
    kinds = {DecisionKind.WARM_UP: "to catch up", DecisionKind.WARM_UP_BUDGET_SPENT: "to get its turn at warming up"}
    waiting = [(task.waiting.process, task.waiting.kind, task) for task in each.told if task.waiting is not None]
    found = sorted((row for row in waiting if row[1] in kinds), key=lambda row: (row[1], str(row[0]), row[2].task))
    for (process, kind), rows in groupby(found, key=lambda row: row[:2]):
        tasks = [task.task for _, _, task in rows]
        wait = "waits" if len(tasks) == 1 else "wait"
        texts.append(f"{_tasks(len(tasks))} {wait} for {names.short(process)} {kinds[kind]}: {tasks_text(tasks)}")
    return texts


def _summary(history: GroupHistory, names: ShortNames, view: View) -> Iterator[str]:
    """What it comes to, where the tasks are now, and what is to follow."""
    plural = "move" if history.moves == 1 else "moves"
    yield f"{history.moves} {plural} of active tasks in {rebalances_text(len(history.rebalances))}"
    last = history.rebalances[-1]
    active = [copy for task in last.told for copy in task.copies if copy.role is Role.ACTIVE]
    running = Counter(copy.process for copy in active if not copy.held_back)
    if running:
        on_their_way = len(active) - running.total()
        rest = f", {_tasks(on_their_way)} on the way" if on_their_way else ""
        yield paragraph("", f"now {_running_text(running, names)}{rest}", view, indent=0)
    follows = _follows(last)
    if follows:
        yield paragraph("", f"next: {follows}", view, indent=0)


def _running_text(running: Counter[ProcessId], names: ShortNames) -> str:
    if len(running) > INSTANCES_SHOWN:
        return f"{len(running)} instances run {min(running.values())} to {max(running.values())} tasks each"
    return ", ".join(f"{names.short(process)} runs {_tasks(count)}" for process, count in sorted(running.items()))


def _follows(last: GroupRebalance) -> str:
    """Which rebalance the group asked for; empty when no recording says so."""
    facts: RebalanceFacts = last.facts
    if facts.now_ms is None or facts.error is not None:
        return ""
    if facts.followup:
        return "a follow-up rebalance at once, which hands over what was given up"
    if facts.created:
        return f"another rebalance, as soon as the leader sees {' and '.join(facts.created)}, which this one created"
    if facts.probing_at_ms is None:
        return "nothing, the group has settled"
    elsewhere = [task.task for task in last.told if _belongs_elsewhere(task)]
    not_yet = f", because {_are(elsewhere)} not yet on the instance where {_belong(elsewhere)}" if elsewhere else ""
    forecast = "assignor simulate says when the group settles"
    return f"a probing rebalance at {time_text(facts.probing_at_ms)}{not_yet} ({forecast})"


def _belongs_elsewhere(task: TaskRebalance) -> bool:
    target = None if task.explanation is None or task.differs else task.explanation.target
    return target is not None and target != active_process(task.copies)


def _are(tasks: Sequence[TaskId]) -> str:
    return f"{tasks_text(tasks)} {'is' if len(tasks) == 1 else 'are'}"


def _belong(tasks: Sequence[TaskId]) -> str:
    return "it belongs" if len(tasks) == 1 else "they belong"


def tasks_text(tasks: Sequence[TaskId]) -> str:
    """`0_0 to 0_3, 2_1`: three or more partitions in a row are a range; of many only the first ranges."""
    ranges: list[list[TaskId]] = []
    for task in sorted(tasks):
        last = ranges[-1][-1] if ranges else None
        if last is not None and (last.subtopology, last.partition + 1) == (task.subtopology, task.partition):
            ranges[-1].append(task)
        else:
            ranges.append([task])
    texts: list[tuple[str, int]] = []
    for each in ranges:
        texts += [(f"{each[0]} to {each[-1]}", len(each))] if len(each) > 2 else [(str(task), 1) for task in each]
    more = sum(count for _, count in texts[TASKS_SHOWN:])
    shown = ", ".join(text for text, _ in texts[:TASKS_SHOWN])
    return f"{shown} and {more} more" if more else shown


def _stay_text(stayed: int, every: int) -> str:
    if stayed == every:
        return "the task stays where it is" if every == 1 else f"all {every} tasks stay where they are"
    return f"{_tasks(stayed)} {ChangeTitle.STAYS.of(stayed)}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
