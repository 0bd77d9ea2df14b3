"""Texts that compare two rebalances, for the output of what-if and diff."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rebalance_analysis.presentation.moves import copy_changes
from rebalance_analysis.presentation.quantities import UNKNOWN, aligned, count_text, counted, duration_text
from rebalance_analysis.rerun import Rerun
from rebalance_analysis.what_if import EVERY_PROCESS, Changes, difference_document
from rebalance_analysis.what_if.difference import ComparedRebalance, Difference, task_document
from rebalance_analysis.what_if.process_names import process_labels

TASKS_SHOWN = 20
_NONE = "-"


def difference_text(before: Rerun, after: Rerun, difference: Difference, changes: Changes) -> str:
    """Returns the text of a what-if. The text has several lines and no line break at the end."""
    labels = {str(process): label for process, label in process_labels([before, after]).items()}
    lines = [f"{before.id}: what if {changes_text(changes)}", ""]
    lines += aligned([("", "as it is", "what if", "difference"), *_rows(difference.before, difference.after)], left=0)
    for title, processes in (("new", difference.processes_new), ("gone", difference.processes_gone)):
        if processes:
            lines += ["", f"{title} instances: {', '.join(labels[str(process)] for process in processes)}"]
    lines += ["", *_tasks(difference, labels)]
    return "\n".join([*lines, difference_sentence(difference)])


def changes_text(changes: Changes) -> str:
    """Returns the changes as text, in the terms of the command-line options."""
    parts = [f"{key}={value}" for key, value in changes.configs.items()]
    if changes.assignor is not None:
        parts.insert(0, changes.assignor)
    parts += [
        f"{counted(added.count, 'instance')} of {counted(added.threads, 'thread')} more{_tags_text(added.tags)}"
        for added in changes.add_instances
    ]
    parts += [f"{process} gone" for process in changes.remove]
    parts += [f"{counted(count, 'thread')} on {_process(process)}" for process, count in changes.threads.items()]
    parts += [f"tags on {_process(process)}{_tags_text(tags)}" for process, tags in changes.tags.items()]
    parts += [f"{count} partitions of {topic}" for topic, count in changes.partitions.items()]
    parts += ["another topology"] if changes.topology is not None else []
    parts += [
        f"a lag of {count_text(lag)} on {'all tasks' if task == EVERY_PROCESS else task}"
        for task, lag in changes.lags.items()
    ]
    return ", ".join(parts)


def difference_sentence(difference: Difference) -> str:
    """Returns the summary of a what-if as a sentence with a full stop."""
    problem = not_placed(difference)
    if problem is not None:
        which, error = problem
        return f"{which.capitalize()}, no task is placed, so there is nothing to compare: {error}"
    summary, after = difference_summary(difference_document(difference)), difference.after
    return f"{summary}; {_restore_text(after, difference.restore_records_per_s)}{_rounds_text(after)}."


def difference_summary(document: Mapping[str, Any]) -> str:
    """Returns a text with the numbers of copies that a what-if places on other instances. `document`: the output of
    `assignor what-if -o json`.
    """
    if any(document[side].get("error") is not None for side in ("before", "after")):
        return "one of the two rebalances places no task, so there is nothing to compare"
    parts = [
        f"{counted(document['active_elsewhere'], 'active task')} on another instance than as it is",
        f"{counted(document['standbys_new'], 'standby')} and {counted(document['warm_ups_new'], 'warm-up')} new",
    ]
    if document["standbys_gone"]:
        parts.append(f"{counted(document['standbys_gone'], 'standby')} gone")
    new, gone = len(document["tasks_new"]), len(document["tasks_gone"])
    if new or gone:
        parts.append(f"{counted(new, 'task')} new and {gone} gone altogether")
    return ", ".join(parts)


def not_placed(difference: Difference) -> tuple[str, str] | None:
    """Returns the name and the error of a rebalance that placed no task; None if both rebalances placed tasks."""
    for summary, which in ((difference.before, "as it is"), (difference.after, "what if")):
        if summary.error is not None:
            return which, summary.error
    return None


def _restore_text(summary: ComparedRebalance, records_per_s: float) -> str:
    records = None if summary.measures is None else summary.measures.records_to_restore
    if records is None or summary.restore_s is None:
        return "how many records are to be restored is not known, because lags are not"
    if not records:
        return "nothing to restore"
    at = f"{records_per_s:,.10g} records/s a thread"
    return f"{counted(records, 'record')} to restore, {seconds_text(summary.restore_s)} at {at}"


def seconds_text(seconds: float) -> str:
    return duration_text(seconds * 1000)


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _rounds_text(summary: ComparedRebalance) -> str:
    needed = [
        name
        for name, is_needed in (
            ("probing", summary.probing_rebalance_needed),
            ("follow-up", summary.followup_rebalance),
        )
        if is_needed
    ]
    return f"; {' and '.join(needed)} rebalance needed" if needed else "; no other rebalance needed"


_Write = Callable[[float], str]

MEASURES: Mapping[str, str] = {
    "clients": "instances",
    "threads": "stream threads",
    "tasks": "tasks",
    "stateful_tasks": "stateful tasks",
    "active_moved": "active tasks that move",
    "active_started": "active tasks that start",
    "standby_moved": "standbys that move",
    "warm_ups": "warm-ups",
    "standby_coverage": "standbys placed of those wanted",
    "rack_spread": "copies spread over racks",
    "cross_rack_reads": "partitions read across racks",
    "skew": "copies per thread, most minus fewest",
    "active_skew": "active tasks per thread, most minus fewest",
    "records_to_restore": "records to restore",
}
"""The labels of the fields of `RebalanceMeasures`, in the order of the what-if table."""

TIME_TO_RESTORE = "time to restore"
_SHARES = ("standby_coverage", "rack_spread")
_CAN_BE_UNKNOWN = "records_to_restore"


def _rows(*sides: ComparedRebalance) -> Iterator[tuple[str, ...]]:
    for field, name in MEASURES.items():
        values = [None if side.measures is None else getattr(side.measures, field) for side in sides]
        write, nothing = _percent if field in _SHARES else count_text, UNKNOWN if field == _CAN_BE_UNKNOWN else _NONE
        if values != [None, None] or nothing == UNKNOWN:
            yield name, *_cells(sides, values, write, nothing)
    yield TIME_TO_RESTORE, *_cells(sides, [side.restore_s for side in sides], seconds_text, UNKNOWN)
    for name, needed in (
        ("probing rebalance needed", [side.probing_rebalance_needed for side in sides]),
        ("follow-up rebalance needed", [side.followup_rebalance for side in sides]),
    ):
        if any(needed):
            texts = ("yes" if is_needed else "no" for is_needed in needed)
            yield name, *(_NONE if side.error else text for side, text in zip(sides, texts, strict=True)), ""


def _cells(
    sides: Sequence[ComparedRebalance], values: Sequence[float | None], write: _Write, nothing: str
) -> tuple[str, ...]:
    """Formats a row of the table: the value before, the value after, and the difference."""
    cells = [
        (_NONE if side.error is not None else nothing) if value is None else write(value)
        for side, value in zip(sides, values, strict=True)
    ]
    old, new = values
    return *cells, "" if old is None or new is None else _change(new - old, write)


def _change(change: float, write: _Write) -> str:
    return "0" if change == 0 else f"{'+' if change > 0 else '-'}{write(abs(change))}"


def _tasks(difference: Difference, labels: Mapping[str, str]) -> Iterator[str]:
    if not difference.tasks:
        return
    yield f"{counted(len(difference.tasks), 'task')} with copies elsewhere:"
    for task in difference.tasks[:TASKS_SHOWN]:
        yield f"  {copy_changes(task_document(task), labels.__getitem__)}"
    more = len(difference.tasks) - TASKS_SHOWN
    if more > 0:
        yield f"  and {more:,} more (--format json has all)"
    yield ""


def _process(name: str) -> str:
    return "every instance" if name == EVERY_PROCESS else name


def _tags_text(tags: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{key}={value}' for key, value in tags.items())})" if tags else ""


def diff_rows(document: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """Returns a line for each task with different owners, and then a line with the number of these tasks. `document`:
    the output of `assignor diff -o json`. `names`: the displayed name of each member.
    """
    moves = (str(copy_changes(move, lambda name: names.get(name, name))) for move in document["moves"])
    return [*moves, diff_summary(document)]


def diff_summary(document: Mapping[str, Any]) -> str:
    moves = document["moves"]
    active = sum(1 for move in moves if move["active"] is not None)
    return f"{active} of {document['tasks']} active tasks moved, {len(moves) - active} changed only their standbys"
