"""The story of a group as text. Tasks that did the same for the same reason are told together: trigger, was, is,
because. Tasks that stay where they are are folded into one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from assignor.commands.story_lines import (
    cause_lines,
    labelled,
    led_by,
    names_for,
    reason_of,
    rebalance_heading,
    rebalances_text,
    story_heading,
)
from assignor.commands.tables import View, paragraph
from assignor.decisions import DecisionKind
from assignor.names import ShortNames
from assignor.short_reasons import LAG, ShortReason, missing_standbys, short_reason, standby_reason
from assignor.story import GroupRebalance, GroupStory, PlacedCopy, TaskChange, TaskRebalance
from assignor.story.words import copies_text, time_text
from assignor.types import ProcessId, Role, TaskId

BLOCKS_SHOWN = 8
TASKS_SHOWN = 12
INSTANCES_SHOWN = 6

_IN_BLOCK = 4
_TITLES = {  # in this order: of one task, of several
    TaskChange.MOVED: ("moves", "move"),
    TaskChange.HELD_BACK: ("moves once it is given up", "move once they are given up"),
    TaskChange.FIRST: ("starts", "start"),
    TaskChange.HANDED_OVER: ("is handed over", "are handed over"),
    TaskChange.NOT_PLACED: ("has no owner", "have no owner"),
    TaskChange.ABSENT: ("is gone", "are gone"),
    TaskChange.THREAD: ("goes to another thread", "go to another thread"),
    TaskChange.COPIES: ("gets other standbys", "get other standbys"),
    TaskChange.STAYED: ("stays where it is", "stay where they are"),
}
_ORDER = list(_TITLES)


class _TaskBlock(NamedTuple):
    """What the story says of one task. Tasks with equal `block` are told together."""

    task: TaskId
    block: tuple[TaskChange, str, str, str]
    lags: tuple[int, ...]


def group_story_text(group_id: str, story: GroupStory, recorded: int | None, view: View, *, every: bool) -> str:
    """`story`: with every task. `recorded`: how many rebalances there are in all, None when not known. `every`: each
    task by itself, also where it stays, with every step of the reason.
    """
    names = names_for(story.instances, view)
    lines = [story_heading(f"group {group_id}", [each.facts for each in story.rebalances], recorded)]
    previous = None
    for each in story.rebalances:
        lines += ["", rebalance_heading(each.facts), *cause_lines(each.facts, names, None, view)]
        if each.facts.error is not None:
            lines.append(labelled("error", f"no task was placed: {each.facts.error}", view))
        elif every or view.wide:
            lines += _each_task(each, names, view)
        else:
            lines += _blocks(each, names, view)
            lines += _state_lines(each, previous, each is story.rebalances[-1], names, view)
        previous = each
    return "\n".join([*lines, "", *_summary(story, names, view)])


def _each_task(each: GroupRebalance, names: ShortNames, view: View) -> Iterator[str]:
    for told in each.told:
        change = _change(told)
        if change is TaskChange.ABSENT and not told.before:
            continue
        yield f"  {told.task} {_TITLES[change][0]}"
        if told.before and change is not TaskChange.STAYED:
            yield labelled("was", copies_text(told.before, names, lags=False), view, indent=_IN_BLOCK)
        if told.copies:
            yield labelled("is", copies_text(told.copies, names), view, indent=_IN_BLOCK)
        because = _decided_elsewhere(told) if told.differs else reason_of(told, names)
        if because is not None:
            yield labelled("because", because, view, indent=_IN_BLOCK)


def _blocks(each: GroupRebalance, names: ShortNames, view: View) -> Iterator[str]:
    """What changed, most important first, and how many tasks stay where they are."""
    told = [_told(task, names) for task in each.told if task.change is not TaskChange.ABSENT or task.before]
    changed = sorted((task for task in told if task.block[0] is not TaskChange.STAYED), key=lambda task: task.block)
    blocks = [list(same) for _, same in groupby(changed, key=lambda task: task.block)]
    blocks.sort(key=lambda block: (_ORDER.index(block[0].block[0]), -len(block), block[0].task))
    for block in blocks[:BLOCKS_SHOWN]:
        yield from _block(block, view)
    rest = Counter(task.block[0] for block in blocks[BLOCKS_SHOWN:] for task in block)
    if rest:
        more = ", ".join(f"{_tasks(count)} {_TITLES[change][count != 1]}" for change, count in rest.items())
        yield paragraph("", f"besides, {more} (--all shows each)", view, indent=2)
    stayed = len(told) - len(changed)
    if stayed:
        yield f"  {_stay_text(stayed, len(told))}"


def _state_lines(
    each: GroupRebalance, previous: GroupRebalance | None, is_last: bool, names: ShortNames, view: View
) -> Iterator[str]:
    """What is not as it should be yet: said when it is new, and of the last rebalance."""
    waiting = _waiting_texts(each, names)
    if waiting and (is_last or previous is None or waiting != _waiting_texts(previous, names)):
        for text in waiting:
            yield paragraph("", text, view, indent=2)
        if each.facts.probing_at_ms is not None:
            yield f"  the group looks again at {time_text(each.facts.probing_at_ms)}"
    without = _without_standbys(each)
    if without and (is_last or previous is None or without != _without_standbys(previous)):
        have = "has" if len(without) == 1 else "have"
        text = f"{_tasks(len(without))} {have} fewer standbys than num.standby.replicas: no instance is left for more"
        yield paragraph("", text, view, indent=2)


def _without_standbys(each: GroupRebalance) -> list[TaskId]:
    if each.differing:
        return []
    return [task.task for task in each.told if task.explanation and missing_standbys(task.explanation)]


def _block(block: Sequence[_TaskBlock], view: View) -> Iterator[str]:
    change, was, now, because = block[0].block
    shown = tasks_text([task.task for task in block])
    to_whom = f" to {now}" if change is TaskChange.HANDED_OVER and not because else ""
    title = f"{_tasks(len(block))} {_TITLES[change][len(block) != 1]}{to_whom}: {shown}"
    yield paragraph("", title, view, indent=2)
    if to_whom:
        return
    for label, text in (("was", was), ("is", now), ("because", _with_lags(because, [task.lags for task in block]))):
        if text:
            yield labelled(label, text, view, indent=_IN_BLOCK)


def _told(each: TaskRebalance, names: ShortNames) -> _TaskBlock:
    change = _change(each)
    if change is TaskChange.HANDED_OVER and _same_copies(each):
        return _TaskBlock(each.task, (change, "", names.short(_active_process(each.copies)), ""), ())
    reason = _because(each, change, names)
    was = ", ".join(_copy_text(copy, names) for copy in each.before) or _as_members_say(each, names)
    now = ", ".join(_copy_text(copy, names, _giver(each, names)) for copy in each.copies) or "nowhere"
    return _TaskBlock(each.task, (change, was, now, reason.template), reason.lags)


def _change(each: TaskRebalance) -> TaskChange:
    """What to call it. The members say where a task was before the first rebalance that is recorded."""
    active = next((copy for copy in each.copies if copy.role is Role.ACTIVE), None)
    previous = () if each.explanation is None else each.explanation.previous
    if each.change is TaskChange.FIRST and active is not None and previous:
        return TaskChange.STAYED if active.process in previous else TaskChange.MOVED
    if each.change is TaskChange.HELD_BACK and active is None:
        return TaskChange.NOT_PLACED
    if each.change is TaskChange.HELD_BACK and active is not None and active.process in previous:
        return TaskChange.THREAD
    return each.change


def _because(each: TaskRebalance, change: TaskChange, names: ShortNames) -> ShortReason:
    if each.differs:
        return ShortReason(_decided_elsewhere(each))
    explanation, problem = each.explanation, each.problem
    if explanation is None or problem is None or change is TaskChange.STAYED:
        return ShortReason("")
    if change is TaskChange.HANDED_OVER and _active_process(each.before) == _active_process(each.copies):
        return ShortReason("its owner has given it up")
    if change is TaskChange.THREAD:
        return ShortReason("the tasks of an instance are balanced over its threads")
    if change is TaskChange.COPIES and explanation.target in (None, _active_process(each.copies)):
        new = {copy.process for copy in each.copies} - {copy.process for copy in each.before}
        return ShortReason(standby_reason(explanation, frozenset(new), names.short) or "")
    return short_reason(explanation, problem, names.short) or ShortReason("")


def _decided_elsewhere(each: TaskRebalance) -> str:
    return f"another leader decided so{led_by(each.facts)}; this program would not have"


def _active_process(copies: Sequence[PlacedCopy]) -> ProcessId | None:
    return next((copy.process for copy in copies if copy.role is Role.ACTIVE), None)


def _copy_text(copy: PlacedCopy, names: ShortNames, giver: str = "") -> str:
    held_back = f" once {giver} has given it up" if giver else ", not handed out yet"
    held_back = held_back if copy.held_back else ""
    return f"{copy.role} on {names.short(copy.process)}{held_back}"


def _as_members_say(each: TaskRebalance, names: ShortNames) -> str:
    previous = () if each.explanation is None else each.explanation.previous
    return " and ".join(f"active on {names.short(process)}" for process in previous)


def _same_copies(each: TaskRebalance) -> bool:
    """Whether all copies are where they were to be."""
    before, now = ({(copy.role, copy.process) for copy in copies} for copies in (each.before, each.copies))
    return before == now


def _giver(each: TaskRebalance, names: ShortNames) -> str:
    """Who has to give a task up that is held back."""
    previous = () if each.explanation is None else each.explanation.previous
    if _active_process(each.copies) in previous:
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


def _summary(story: GroupStory, names: ShortNames, view: View) -> Iterator[str]:
    plural = "move" if story.moves == 1 else "moves"
    yield f"{story.moves} {plural} of active tasks in {rebalances_text(len(story.rebalances))}"
    last = story.rebalances[-1]
    active = [copy for task in last.told for copy in task.copies if copy.role is Role.ACTIVE]
    running = Counter(copy.process for copy in active if not copy.held_back)
    if not running:
        return
    on_their_way = len(active) - running.total()
    rest = f", {_tasks(on_their_way)} on the way" if on_their_way else ""
    if len(running) > INSTANCES_SHOWN:
        low, high = min(running.values()), max(running.values())
        yield f"now {len(running)} instances run {low} to {high} tasks each{rest}"
    else:
        each = ", ".join(f"{names.short(process)} runs {_tasks(count)}" for process, count in sorted(running.items()))
        yield paragraph("", f"now {each}{rest}", view, indent=0)


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
    return f"{_tasks(stayed)} {_TITLES[TaskChange.STAYED][stayed != 1]}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
