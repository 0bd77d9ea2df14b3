"""The history of one task as text: trigger, was, is, because. Rebalances that changed nothing about it are folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from assignor.decisions import DecisionKind
from assignor.names import ShortNames, short_member
from assignor_cli.tables import View
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
    waiting_for_a_turn,
)
from rebalance_analysis.history import TaskChange, TaskHistory, TaskRebalance, TaskSummary, TaskWaiting
from rebalance_analysis.history.wording import copies_text, duration, lag_text, time_text
from rebalance_analysis.short_reasons import LAG, short_reason

DIFFERS = "recorded placement differs from this program's: reasons are of a re-run"


def task_history_text(group_id: str, history: TaskHistory, recorded: int | None, view: View, *, every: bool) -> str:
    """`recorded`: how many rebalances there are in all, None when not known. `every`: in full also without a change,
    and with every step of the reason.
    """
    lines = list(_lines(group_id, history, recorded, view, every or view.wide))
    return "\n".join([*lines, *explained_words(lines, view)])


def _lines(group_id: str, history: TaskHistory, recorded: int | None, view: View, every: bool) -> Iterator[str]:
    names = names_for(history.instances, view)
    yield history_heading(
        f"group {group_id}, task {history.task}", [each.facts for each in history.rebalances], recorded
    )
    shown = [(each, before) for before, each in zip([None, *history.rebalances], history.rebalances, strict=False)]
    for is_dull, several in groupby(shown, key=lambda pair: not every and _is_dull(*pair)):
        if is_dull:
            yield ""
            yield from _folded([each for each, _ in several], names, view)
            continue
        for each, before in several:
            yield ""
            yield from _rebalance_lines(each, before, names, view, every)
    yield ""
    yield from _summary_lines(history.summary, len(history.rebalances), names, view)


def _rebalance_lines(
    each: TaskRebalance, before: TaskRebalance | None, names: ShortNames, view: View, every: bool
) -> Iterator[str]:
    facts = each.facts
    yield rebalance_heading(facts)
    yield from cause_lines(facts, None if before is None else before.facts, names, each.task, view)
    if each.before and each.change is not TaskChange.STAYED:
        yield labelled("was", copies_text(each.before, names, lags=False), view)
    yield labelled("is", copies_text(each.copies, names), view)
    yield labelled("outcome", f"{each.change}{_outcome(each)}", view)
    if facts.error is not None:
        yield labelled("error", facts.error, view)
    because = reason_of(each, names) if every else _because(each, names)
    if because is not None:
        yield labelled("because", because, view)
    if each.differs:
        yield labelled("beware", f"{DIFFERS}{led_by(facts)}", view)


def _because(each: TaskRebalance, names: ShortNames) -> str | None:
    if each.explanation is None or each.problem is None:
        return each.reason
    reason = short_reason(each.explanation, each.problem, names.short)
    if reason is None:
        return each.reason
    text = reason.template
    for lag in reason.lags:
        text = text.replace(LAG, f"{lag:,}", 1)
    return text


def _outcome(each: TaskRebalance) -> str:
    if each.outcome is None or each.differs or str(each.outcome) == str(each.change):
        return ""
    return f" – {each.outcome}"


def _is_dull(each: TaskRebalance, before: TaskRebalance | None) -> bool:
    """Nothing about the task changed, nor what it waits for."""
    if before is None or each.differs or each.facts.error is not None:
        return False
    if each.facts.not_recorded or each.facts.interrupted:
        return False
    if each.change is TaskChange.ABSENT:
        return before.change is TaskChange.ABSENT
    kinds = [None if waiting is None else waiting.kind for waiting in (before.waiting, each.waiting)]
    return each.change is TaskChange.STAYED and kinds[0] == kinds[1]


def _folded(rebalances: Sequence[TaskRebalance], names: ShortNames, view: View) -> Iterator[str]:
    first, last = rebalances[0].facts, rebalances[-1].facts
    if first is last:
        yield rebalance_heading(first)
    else:
        time = "" if first.now_ms is None or last.now_ms is None else f" over {duration(last.now_ms - first.now_ms)}"
        yield f"generations {first.generation} to {last.generation}  {rebalances_text(len(rebalances))}{time}"
    if rebalances[-1].change is TaskChange.ABSENT:
        yield labelled("", "no such task", view)
    else:
        yield labelled("stays", copies_text(rebalances[-1].copies, names, lags=False), view)
    if rebalances[-1].waiting is not None:
        yield labelled("waits for", _waiting(rebalances[-1].waiting, names), view)


def _summary_lines(summary: TaskSummary, rebalances: int, names: ShortNames, view: View) -> Iterator[str]:
    times = "once" if summary.moves == 1 else f"{summary.moves} times" if summary.moves else "never"
    warm_ups = f"{rebalances_text(summary.warm_up_rounds)} had a warm-up copy of it"
    yield f"in {rebalances_text(rebalances)}"
    yield labelled("moved", times, view)
    yield labelled("warm-ups", warm_ups if summary.warm_up_rounds else "never had a warm-up copy", view)
    yield labelled("no owner", _without_owner(summary), view)
    yield labelled("is now", copies_text(summary.copies, names), view)
    yield labelled("waits for", "nothing" if summary.waiting is None else _waiting(summary.waiting, names), view)


def _without_owner(summary: TaskSummary) -> str:
    """The old owner runs the task until it hears of the rebalance, so this is the longest time without an owner."""
    parts = []
    if summary.without_owner_ms:
        parts.append(f"at most {duration(summary.without_owner_ms)} between rebalances")
    if summary.without_owner_since_ms is not None:
        parts.append(f"handed to nobody since {time_text(summary.without_owner_since_ms)}")
    return "; ".join(parts) or "never held back"


def _waiting(waiting: TaskWaiting, names: ShortNames) -> str:
    if waiting.kind is DecisionKind.WAITING_FOR_REVOCATION:
        return f"{short_member(waiting.member) or 'its owner'} to give it up"
    lag = f" ({lag_text(waiting.lag)})" if waiting.lag is not None else ""
    when = (
        "" if waiting.next_round_ms is None else f"; a probing rebalance follows at {time_text(waiting.next_round_ms)}"
    )
    who = f"{names.short(waiting.process)}{lag}"
    if waiting.kind is DecisionKind.WARM_UP:
        return f"{who} to catch up{when}"
    return f"{waiting_for_a_turn(who)}{when}"
