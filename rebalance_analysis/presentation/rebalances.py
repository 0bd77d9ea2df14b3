"""Formats a recorded rebalance as text: its time, its triggers, and the rows that every history shows about it."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from assignor.names.short_names import ShortNames
from assignor.types import TaskId
from rebalance_analysis.history import RebalanceFacts, Trigger, TriggerKind
from rebalance_analysis.presentation.quantities import counted, duration_text, listed, time_text

SAME_SHOWN = 3
"""The largest number of triggers of one kind that a text names. JSON documents list all triggers."""


class FactRow(NamedTuple):
    """One row of a history. `label`: the label before the text; None for a row without a label. `depth`: the level of
    indentation, from 0 to 2; a heading has level 0. A row with an empty text is shown as a blank line.
    """

    text: str
    label: str | None = None
    depth: int = 0


SEPARATOR = FactRow("")


def rebalances_text(count: int) -> str:
    return counted(count, "rebalance")


def triggers_text(triggers: Sequence[Trigger], processes: ShortNames, task: TaskId | None) -> str:
    """Formats the triggers of a rebalance as text. `task`: the task that is first in a list of waiting tasks; None for
    the usual order.
    """
    parts = []
    for kind, several in groupby(sorted(triggers, key=_order), key=lambda trigger: trigger.kind):
        same = list(several)
        parts += [_trigger_text(trigger, processes, task) for trigger in same[:SAME_SHOWN]]
        if len(same) > SAME_SHOWN:
            parts.append(f"and {len(same) - SAME_SHOWN} more {kind}")
    return ", ".join(parts)


def _order(trigger: Trigger) -> int:
    return list(TriggerKind).index(trigger.kind)


_TRIGGERS = {
    TriggerKind.JOINED: "{process} joined{with_members}",
    TriggerKind.LEFT: "{process} is gone{with_members}",
    TriggerKind.RETURNED: "{members} of {process} came back{which_was}",
    TriggerKind.THREADS: "{process} has {after} threads instead of {before}",
    TriggerKind.TAGS: "{process} has the tags {after} instead of {before}",
    TriggerKind.CONFIG: "{members} is {after} instead of {before}",
    TriggerKind.TOPOLOGY: "the topology has changed",
    TriggerKind.TOPIC: "topic {members} {partitions}",
    TriggerKind.FOLLOW_UP: "follow-up: {waited}",
    TriggerKind.CREATED: "the leader saw {members} appear, which the rebalance before created",
    TriggerKind.PROBING: "the probing deadline, {passed} before",
    TriggerKind.FIRST: "nothing earlier is recorded",
    TriggerKind.REJOINED: "a member rejoined; the recording does not show why",
}


def _trigger_text(trigger: Trigger, processes: ShortNames, task: TaskId | None) -> str:
    before, after = trigger.before, trigger.after
    members = _members_text(trigger, processes)
    return _TRIGGERS[trigger.kind].format(
        process=processes.short(trigger.process),
        members=members,
        with_members=f" with {members}" if members else "",
        which_was="" if before is None else f", which was {before}",
        before=before,
        after=after,
        partitions=_partitions(before, after),
        waited=_waited(trigger.names, task),
        passed=duration_text(int(after or 0)) if trigger.kind is TriggerKind.PROBING else "",
    )


def _members_text(trigger: Trigger, processes: ShortNames) -> str:
    """If all member names are names of stream threads, returns the number of threads, such as `2 threads`. If other
    member names occur, returns the names of the members.
    """
    threads = sorted(processes.thread(trigger.process, name) for name in trigger.names)
    if threads and all(name.startswith("thread ") for name in threads):
        return counted(len(threads), "thread")
    return listed(threads)


def _partitions(before: str | None, after: str | None) -> str:
    if after is None:
        return "is gone"
    return f"has {after} partitions" if before is None else f"has {after} partitions instead of {before}"


def _waited(tasks: Sequence[str], task: TaskId | None) -> str:
    ordered = sorted(tasks, key=lambda name: name != str(task))
    return f"{listed(ordered)} waited to be given up" if ordered else "tasks waited to be given up"


def history_heading(subject: str, facts: Sequence[RebalanceFacts], recorded: int | None) -> FactRow:
    """Returns the heading of a history. `recorded`: the number of all recorded rebalances of the group; None if not
    known.
    """
    if not facts:
        return FactRow(f"{subject}: no rebalances")
    first, last = facts[0].generation, facts[-1].generation
    generations = f"generation {first}" if len(facts) == 1 else f"generations {first} to {last}"
    some = (
        f"the last {len(facts)} of {rebalances_text(recorded)}"
        if recorded and recorded > len(facts)
        else rebalances_text(len(facts))
    )
    return FactRow(f"{subject}: {some}, {generations}")


def rebalance_heading(facts: RebalanceFacts) -> FactRow:
    since = "" if facts.since_previous_ms is None else f" (+{duration_text(facts.since_previous_ms)})"
    time = "" if facts.now_ms is None else f"  {time_text(facts.now_ms)}{since}"
    return FactRow(f"generation {facts.generation}{time}")


def cause_rows(
    facts: RebalanceFacts, before: RebalanceFacts | None, names: ShortNames, task: TaskId | None
) -> Iterator[FactRow]:
    """Yields rows about the rebalances that are missing before this rebalance. Also yields rows about the triggers of
    this rebalance. Leaves out parts of the note that only repeat the triggers. Also leaves out parts that the previous
    note had. `before`: the previous rebalance in the history. `task`: the task that is first in a list of waiting
    tasks; None for the usual order.
    """
    if facts.not_recorded:
        yield FactRow(f"{rebalances_text(facts.not_recorded)} before this one not recorded", "gap", 1)
    if facts.interrupted:
        yield FactRow(f"{counted(facts.interrupted, 'generation')} before this one never got an assignment", "gap", 1)
    known = [*_note_parts(before), triggers_text(facts.triggers, names, None)]
    note = "; ".join(part for part in _note_parts(facts) if part not in known)
    noted = f' (note: "{note}")' if note else ""
    yield FactRow(f"{triggers_text(facts.triggers, names, task)}{noted}", "trigger", 1)


def _note_parts(facts: RebalanceFacts | None) -> list[str]:
    return [] if facts is None or facts.note is None else facts.note.split("; ")


def led_by(facts: RebalanceFacts) -> str:
    return "" if facts.led_by is None else f" (led by {facts.led_by})"


def probing_text(at_ms: int) -> str:
    return f"a probing rebalance follows at {time_text(at_ms)}"
