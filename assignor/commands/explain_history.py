"""Stories as text: that of one task, or that of a whole group with one line for each rebalance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from assignor.decisions import DecisionKind
from assignor.names import ShortNames, called
from assignor.story import (
    GroupRebalance,
    GroupStory,
    RebalanceFacts,
    TaskChange,
    TaskRebalance,
    TaskStory,
    TaskSummary,
    TaskWaiting,
)
from assignor.story.words import (
    copies_text,
    duration,
    time_text,
    triggers_text,
)
from assignor.types import ProcessId, TaskId

MOVES_SHOWN = 4
DIFFERS = "recorded placement differs from this program's: reasons are of a re-run"


def task_story_lines(group_id: str, story: TaskStory, recorded: int | None, *, every: bool) -> Iterator[str]:
    """`recorded`: how many rebalances there are in all, None when not known. `every`: in full also without a change."""
    processes = ShortNames(_processes_of_task(story))
    yield _heading(f"group {group_id}, task {story.task}", [each.facts for each in story.rebalances], recorded)
    shown = [(each, before) for before, each in zip([None, *story.rebalances], story.rebalances, strict=False)]
    for is_dull, several in groupby(shown, key=lambda pair: not every and _is_dull(*pair)):
        if is_dull:
            yield ""
            yield _folded([each for each, _ in several], processes)
            continue
        for each, _ in several:
            yield ""
            yield from _rebalance_lines(each, story.task, processes)
    yield ""
    yield from _summary_lines(story.summary, len(story.rebalances), processes)


def group_story_lines(group_id: str, story: GroupStory, recorded: int | None) -> Iterator[str]:
    """One line for each rebalance, with the first of its moves."""
    processes = ShortNames(_processes_of_group(story))
    yield _heading(f"group {group_id}", [each.facts for each in story.rebalances], recorded)
    for each in story.rebalances:
        yield f"{_rebalance_heading(each.facts)}  {_group_rebalance(each, processes)}"
    plural = "move" if story.moves == 1 else "moves"
    yield f"{story.moves} {plural} of active tasks in {_counted(len(story.rebalances))}"


def _processes_of_task(story: TaskStory) -> Iterator[ProcessId | None]:
    for each in story.rebalances:
        yield from (copy.process for copy in (*each.before, *each.copies))
        yield from (trigger.process for trigger in each.facts.triggers)


def _processes_of_group(story: GroupStory) -> Iterator[ProcessId | None]:
    for each in story.rebalances:
        yield from (process for move in each.moves for process in (move.giver, move.receiver))
        yield from (trigger.process for trigger in each.facts.triggers)


def _heading(what: str, facts: Sequence[RebalanceFacts], recorded: int | None) -> str:
    if not facts:
        return f"{what}: no rebalances"
    first, last = facts[0].generation, facts[-1].generation
    generations = f"generation {first}" if len(facts) == 1 else f"generations {first} to {last}"
    some = (
        f"the last {len(facts)} of {_counted(recorded)}" if recorded and recorded > len(facts) else _counted(len(facts))
    )
    return f"{what}: {some}, {generations}"


def _rebalance_heading(facts: RebalanceFacts) -> str:
    since = "" if facts.since_previous_ms is None else f" (+{duration(facts.since_previous_ms)})"
    time = "" if facts.now_ms is None else f"  {time_text(facts.now_ms)}{since}"
    return f"generation {facts.generation}{time}"


def _rebalance_lines(each: TaskRebalance, task: TaskId, processes: ShortNames) -> Iterator[str]:
    facts = each.facts
    yield _rebalance_heading(facts)
    if facts.not_recorded:
        yield f"  gap        {_counted(facts.not_recorded)} before this one not recorded"
    yield f"  trigger    {triggers_text(facts.triggers, processes, task)}{_note(facts)}"
    if each.before and each.change is not TaskChange.STAYED:
        yield f"  was        {copies_text(each.before, processes, lags=False)}"
    yield f"  is         {copies_text(each.copies, processes)}"
    yield f"  outcome    {each.change}{_outcome(each)}"
    if facts.error is not None:
        yield f"  error      {facts.error}"
    if each.reason is not None:
        yield f"  because    {each.reason}"
    if each.differs:
        yield f"  beware     {DIFFERS}{_led_by(facts)}"


def _note(facts: RebalanceFacts) -> str:
    return "" if facts.note is None else f' (note: "{facts.note}")'


def _led_by(facts: RebalanceFacts) -> str:
    return "" if facts.led_by is None else f" (led by {facts.led_by})"


def _outcome(each: TaskRebalance) -> str:
    return "" if each.outcome is None or str(each.outcome) == str(each.change) else f" – {each.outcome}"


def _is_dull(each: TaskRebalance, before: TaskRebalance | None) -> bool:
    """Nothing about the task changed, nor what it waits for."""
    if before is None or each.differs or each.facts.error is not None or each.facts.not_recorded:
        return False
    if each.change is TaskChange.ABSENT:
        return before.change is TaskChange.ABSENT
    kinds = [None if waiting is None else waiting.kind for waiting in (before.waiting, each.waiting)]
    return each.change is TaskChange.STAYED and kinds[0] == kinds[1]


def _folded(rebalances: Sequence[TaskRebalance], processes: ShortNames) -> str:
    first, last = rebalances[0].facts, rebalances[-1].facts
    where = copies_text(rebalances[-1].copies, processes, lags=False)
    stays = "no such task" if rebalances[-1].change is TaskChange.ABSENT else f"stays {where}"
    waits = "" if rebalances[-1].waiting is None else f", waits for {_waiting(rebalances[-1].waiting, processes)}"
    if first is last:
        return f"{_rebalance_heading(first)}  {stays}{waits}; 1 rebalance"
    time = "" if first.now_ms is None or last.now_ms is None else f"  over {duration(last.now_ms - first.now_ms)}"
    return f"generations {first.generation}–{last.generation}{time}  {stays}{waits}; {_counted(len(rebalances))}"


def _summary_lines(summary: TaskSummary, rebalances: int, processes: ShortNames) -> Iterator[str]:
    times = "once" if summary.moves == 1 else f"{summary.moves} times" if summary.moves else "never"
    yield f"in {_counted(rebalances)}"
    yield f"  moved      {times}"
    yield f"  warming up {_counted(summary.warm_up_rounds)} had a warm-up copy of it"
    yield f"  no owner   {_without_owner(summary)}"
    yield f"  is now     {copies_text(summary.copies, processes)}"
    yield f"  waits for  {'nothing' if summary.waiting is None else _waiting(summary.waiting, processes)}"


def _without_owner(summary: TaskSummary) -> str:
    """The old owner runs the task until it hears of the rebalance, so this is the longest time without an owner."""
    parts = []
    if summary.without_owner_ms:
        parts.append(f"at most {duration(summary.without_owner_ms)} between rebalances")
    if summary.without_owner_since_ms is not None:
        parts.append(f"handed to nobody since {time_text(summary.without_owner_since_ms)}")
    return "; ".join(parts) or "never held back"


def _waiting(waiting: TaskWaiting, processes: ShortNames) -> str:
    if waiting.kind is DecisionKind.WAITING_FOR_REVOCATION:
        return f"{called(waiting.member) or 'its owner'} to give it up"
    lag = "" if waiting.lag is None else f" (lag {waiting.lag})"
    when = "" if waiting.next_round_ms is None else f"; the group looks again at {time_text(waiting.next_round_ms)}"
    who = processes.short(waiting.process)
    if waiting.kind is DecisionKind.WARM_UP:
        return f"{who}{lag} to catch up{when}"
    return f"{who}{lag} to get a turn at warming up, max.warmup.replicas is spent{when}"


def _group_rebalance(each: GroupRebalance, processes: ShortNames) -> str:
    parts = [f"{triggers_text(each.facts.triggers, processes, None)}{_note(each.facts)}"]
    if each.facts.not_recorded:
        parts.append(f"{_counted(each.facts.not_recorded)} before this one not recorded")
    if each.facts.error is not None:
        parts.append(f"no task was placed: {each.facts.error}")
    parts.append(_moves(each, processes))
    counted = {
        "handed over": each.handed_over,
        "held back": each.held_back,
        "warm-ups": each.warm_ups,
    }
    parts += [f"{count} {what}" for what, count in counted.items() if count]
    if each.differing:
        parts.append(f"{each.differing} placed otherwise than this program does{_led_by(each.facts)}")
    return "; ".join(parts)


def _moves(each: GroupRebalance, processes: ShortNames) -> str:
    placed = [move for move in each.moves if move.giver is None]
    moved = [move for move in each.moves if move.giver is not None]
    parts = []
    if placed:
        parts.append(f"{len(placed)} of {each.tasks} tasks placed")
    if moved:
        shown = [
            f"{move.task} {processes.short(move.giver)} → {processes.short(move.receiver)}"
            for move in moved[:MOVES_SHOWN]
        ]
        more = f" and {len(moved) - MOVES_SHOWN} more" if len(moved) > MOVES_SHOWN else ""
        parts.append(f"{len(moved)} of {each.tasks} tasks move: {', '.join(shown)}{more}")
    return ", ".join(parts) or "no task moves"


def _counted(count: int | None) -> str:
    return "1 rebalance" if count == 1 else f"{count} rebalances"
