"""The history of one task as rows: trigger, was, is, because. Rebalances that changed nothing share one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from assignor.names import ShortNames
from rebalance_analysis.history.task_history import TaskChange, TaskHistory, TaskRebalance, TaskSummary
from rebalance_analysis.presentation.moves import copies_text, waiting_text
from rebalance_analysis.presentation.quantities import duration_text, time_text
from rebalance_analysis.presentation.reasons import full_reason, short_reason, with_terms_explained
from rebalance_analysis.presentation.rebalances import (
    SEPARATOR,
    FactRow,
    cause_rows,
    history_heading,
    led_by,
    rebalance_heading,
    rebalances_text,
)

DIFFERS = "recorded placement differs from this program's: reasons are of a re-run"


def task_history_rows(
    group_id: str, history: TaskHistory, recorded: int | None, names: ShortNames, *, every: bool
) -> Iterator[FactRow]:
    """`recorded`: how many rebalances there are in all, None when not known. `every`: in full also without a change,
    and with every step of the reason.
    """
    return with_terms_explained(_rows(group_id, history, recorded, names, every))


def _rows(
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
    """Nothing about the task changed, nor what it waits for."""
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
    """Sums up all rebalances of a history for the task."""
    times = "once" if summary.moves == 1 else f"{summary.moves} times" if summary.moves else "never"
    warm_ups = f"{rebalances_text(summary.warm_up_rounds)} had a warm-up copy of it"
    yield FactRow(times, "moved", 1)
    yield FactRow(warm_ups if summary.warm_up_rounds else "never had a warm-up copy", "warm-ups", 1)
    yield FactRow(_without_owner(summary), "no owner", 1)
    yield FactRow(copies_text(summary.copies, names), "is now", 1)
    yield FactRow(waiting_text(summary.waiting, names), "waits for", 1)


def _without_owner(summary: TaskSummary) -> str:
    """The old owner runs the task until it learns of the rebalance, so this is the longest time without an owner."""
    parts = []
    if summary.without_owner_ms:
        parts.append(f"at most {duration_text(summary.without_owner_ms)} between rebalances")
    if summary.without_owner_since_ms is not None:
        parts.append(f"handed to nobody since {time_text(summary.without_owner_since_ms)}")
    return "; ".join(parts) or "never held back"
