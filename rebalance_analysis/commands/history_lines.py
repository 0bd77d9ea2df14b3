"""The lines that the histories of a task and of a group have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assignor.explain import reason_in_full
from assignor.names import FullNames, InstanceNames, ShortNames
from assignor.types import ProcessId, TaskId
from assignor_cli.tables import View, paragraph
from rebalance_analysis.history import RebalanceFacts, TaskRebalance
from rebalance_analysis.history.wording import duration, time_text, triggers_text
from rebalance_analysis.short_reasons import ROUND_ROBIN

_WHAT_ROUND_ROBIN_IS = (
    "round robin: in each rebalance, HighAvailabilityTaskAssignor deals the tasks with state out anew, one to each "
    "instance in turn, in the order of process ids"
)

INDENT = 13
"""The column in which the text of a line begins, after its label."""


def names_for(instances: Mapping[ProcessId, str | None], view: View) -> ShortNames:
    return FullNames(instances) if view.wide else InstanceNames(instances)


def labelled(label: str, text: str, view: View, *, indent: int = 2) -> str:
    return paragraph(f"{' ' * indent}{label}", text, view, indent=INDENT + indent - 2)


def history_heading(what: str, facts: Sequence[RebalanceFacts], recorded: int | None) -> str:
    """`recorded`: how many rebalances there are in all, None when not known."""
    if not facts:
        return f"{what}: no rebalances"
    first, last = facts[0].generation, facts[-1].generation
    generations = f"generation {first}" if len(facts) == 1 else f"generations {first} to {last}"
    some = (
        f"the last {len(facts)} of {rebalances_text(recorded)}"
        if recorded and recorded > len(facts)
        else rebalances_text(len(facts))
    )
    return f"{what}: {some}, {generations}"


def rebalance_heading(facts: RebalanceFacts) -> str:
    since = "" if facts.since_previous_ms is None else f" (+{duration(facts.since_previous_ms)})"
    time = "" if facts.now_ms is None else f"  {time_text(facts.now_ms)}{since}"
    return f"generation {facts.generation}{time}"


def cause_lines(
    facts: RebalanceFacts, before: RebalanceFacts | None, names: ShortNames, task: TaskId | None, view: View
) -> Iterator[str]:
    """What set the rebalance off. `before`: the rebalance told before it; what its note said already is not told again,
    nor what is the trigger itself, with which a recorder begins its notes. `task`: the one to name first.
    """
    if facts.not_recorded:
        yield labelled("gap", f"{rebalances_text(facts.not_recorded)} before this one not recorded", view)
    if facts.interrupted:
        before_this = "1 generation" if facts.interrupted == 1 else f"{facts.interrupted:,} generations"
        yield labelled("gap", f"{before_this} before this one never got an assignment", view)
    told = _note_parts(before)
    told.append(triggers_text(facts.triggers, names, None))
    note = "; ".join(part for part in _note_parts(facts) if part not in told)
    noted = f' (note: "{note}")' if note else ""
    yield labelled("trigger", f"{triggers_text(facts.triggers, names, task)}{noted}", view)


def _note_parts(facts: RebalanceFacts | None) -> list[str]:
    return [] if facts is None or facts.note is None else facts.note.split("; ")


def explained_words(lines: Sequence[str], view: View) -> list[str]:
    """What a reader may not know of the words in `lines`, to stand below them."""
    used = any(ROUND_ROBIN in line for line in lines)
    return ["", paragraph("", _WHAT_ROUND_ROBIN_IS, view, indent=0)] if used else []


def reason_of(each: TaskRebalance, names: ShortNames) -> str | None:
    """Every step of the reason; None when there is none."""
    if each.explanation is None or each.problem is None:
        return each.reason
    return reason_in_full(each.explanation, each.problem, names) or None


def led_by(facts: RebalanceFacts) -> str:
    return "" if facts.led_by is None else f" (led by {facts.led_by})"


def rebalances_text(count: int | None) -> str:
    return "1 rebalance" if count == 1 else f"{count} rebalances"


def waiting_for_a_turn(who: str) -> str:
    return f"{who} to get a turn at warming up, max.warmup.replicas is spent"
