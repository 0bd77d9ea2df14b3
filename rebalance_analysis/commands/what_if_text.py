"""A what-if for people: a table of measures, the tasks that are elsewhere, and all of it in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from assignor.types import ProcessId
from rebalance_analysis.measures import RebalanceMeasures
from rebalance_analysis.rerun import Rerun
from rebalance_analysis.what_if import Changes, ComparedRebalance, Difference, TaskDifference
from rebalance_analysis.what_if.changes import EVERY_PROCESS
from rebalance_analysis.what_if.process_names import process_labels

TASKS_SHOWN = 20
UNKNOWN = "unknown"
_NONE = "-"

Labels = Mapping[ProcessId, str]


def difference_text(
    before: Rerun,
    after: Rerun,
    difference: Difference,
    changes: Changes,
) -> str:
    """Many lines, without a line end at the end."""
    labels = process_labels([before, after])
    lines = [f"{before.id}: what if {changes_text(changes)}", ""]
    lines += _table(difference)
    for title, processes in (("new", difference.processes_new), ("gone", difference.processes_gone)):
        if processes:
            lines += ["", f"{title} instances: {', '.join(labels[process] for process in processes)}"]
    lines += ["", *_tasks(difference, labels)]
    return "\n".join([*lines, sentence(difference)])


def changes_text(changes: Changes) -> str:
    """What is asked for, in the words of the options."""
    parts = [f"{key}={value}" for key, value in changes.configs.items()]
    if changes.assignor is not None:
        parts.insert(0, changes.assignor)
    parts += [
        f"{_counted(added.count, 'instance')} of {_counted(added.threads, 'thread')} more{_tags_text(added.tags)}"
        for added in changes.add_instances
    ]
    parts += [f"{process} gone" for process in changes.remove]
    parts += [f"{_counted(count, 'thread')} on {_process(process)}" for process, count in changes.threads.items()]
    parts += [f"tags on {_process(process)}{_tags_text(tags)}" for process, tags in changes.tags.items()]
    parts += [f"{count} partitions of {topic}" for topic, count in changes.partitions.items()]
    parts += ["another topology"] if changes.topology is not None else []
    parts += [
        f"a lag of {count_text(lag)} on {'all tasks' if task == EVERY_PROCESS else task}"
        for task, lag in changes.lags.items()
    ]
    return ", ".join(parts)


def sentence(difference: Difference) -> str:
    """Ends with a full stop."""
    for summary, which in ((difference.before, "as it is"), (difference.after, "what if")):
        if summary.error is not None:
            return f"{which.capitalize()}, no task is placed, so there is nothing to compare: {summary.error}"
    after = difference.after
    parts = [
        f"{_counted(difference.active_elsewhere, 'active task')} on another instance than as it is",
        f"{_counted(difference.standbys_new, 'standby')} and {_counted(difference.warm_ups_new, 'warm-up')} new",
    ]
    if difference.tasks_new or difference.tasks_gone:
        parts.append(
            f"{_counted(len(difference.tasks_new), 'task')} new and {len(difference.tasks_gone)} gone altogether"
        )
    return f"{', '.join(parts)}; {restore_text(after, difference.restore_records_per_s)}{_rounds_text(after)}."


def restore_text(summary: ComparedRebalance, records_per_s: float) -> str:
    records = None if summary.measures is None else summary.measures.records_to_restore
    if records is None or summary.restore_s is None:
        return "how many records are to be restored is not known, because lags are not"
    if not records:
        return "nothing to restore"
    at = f"{records_per_s:,.10g} records/s a thread"
    return f"{_counted(records, 'record')} to restore, {seconds_text(summary.restore_s)} at {at}"


def count_text(count: float) -> str:
    return f"{count:,.0f}"


def seconds_text(seconds: float) -> str:
    """As fine as is of use: 40 ms, 3.1 s, 31 s, 4 min 10 s, 2 h 5 min."""
    if seconds < 1:
        return "0 s" if seconds == 0 else f"{max(1, round(1000 * seconds))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 7200 else f"{whole // 3600:,} h {whole % 3600 // 60} min"


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

_MEASURES: tuple[tuple[str, Callable[[RebalanceMeasures], float | None], _Write], ...] = (
    ("instances", lambda each: each.clients, count_text),
    ("stream threads", lambda each: each.threads, count_text),
    ("tasks", lambda each: each.tasks, count_text),
    ("stateful tasks", lambda each: each.stateful_tasks, count_text),
    ("active tasks that move", lambda each: each.active_moved, count_text),
    ("active tasks that start", lambda each: each.active_started, count_text),
    ("standbys that move", lambda each: each.standby_moved, count_text),
    ("warm-ups", lambda each: each.warm_ups, count_text),
    ("standbys placed of those wanted", lambda each: each.standby_coverage, _percent),
    ("copies spread over racks", lambda each: each.rack_spread, _percent),
    ("partitions read across racks", lambda each: each.cross_rack_reads, count_text),
    ("copies per thread, most minus fewest", lambda each: each.skew, count_text),
    ("active tasks per thread, most minus fewest", lambda each: each.active_skew, count_text),
    ("records to restore", lambda each: each.records_to_restore, count_text),
)
_CAN_BE_UNKNOWN = "records to restore"


def _table(difference: Difference) -> list[str]:
    rows = [("", "as it is", "what if", "difference"), *_rows(difference.before, difference.after)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}" for row in rows
    ]


def _rows(before: ComparedRebalance, after: ComparedRebalance) -> Iterator[tuple[str, str, str, str]]:
    for name, read, write in _MEASURES:
        old, new = (None if each.measures is None else read(each.measures) for each in (before, after))
        nothing = UNKNOWN if name == _CAN_BE_UNKNOWN else _NONE
        if old is not None or new is not None or nothing == UNKNOWN:
            yield name, *_cells(before, after, old, new, write, nothing)
    yield "time to restore", *_cells(before, after, before.restore_s, after.restore_s, seconds_text, UNKNOWN)
    for name, is_so in (
        ("probing rebalance needed", (before.probing_rebalance_needed, after.probing_rebalance_needed)),
        ("follow-up rebalance needed", (before.followup_rebalance, after.followup_rebalance)),
    ):
        if any(is_so):
            cells = [
                _NONE if each.error else ("yes" if so else "no")
                for each, so in zip((before, after), is_so, strict=True)
            ]
            yield name, cells[0], cells[1], ""


def _cells(
    before: ComparedRebalance,
    after: ComparedRebalance,
    old: float | None,
    new: float | None,
    write: _Write,
    nothing: str,
) -> tuple[str, str, str]:
    cells = [
        (_NONE if summary.error is not None else nothing) if value is None else write(value)
        for summary, value in ((before, old), (after, new))
    ]
    return cells[0], cells[1], "" if old is None or new is None else _change(new - old, write)


def _change(change: float, write: _Write) -> str:
    return "0" if change == 0 else f"{'+' if change > 0 else '-'}{write(abs(change))}"


def _tasks(difference: Difference, labels: Labels) -> Iterator[str]:
    if not difference.tasks:
        return
    yield f"{_counted(len(difference.tasks), 'task')} with copies elsewhere:"
    for task in difference.tasks[:TASKS_SHOWN]:
        yield f"  {task_text(task, labels)}"
    more = len(difference.tasks) - TASKS_SHOWN
    if more > 0:
        yield f"  and {more:,} more (--format json has all)"
    yield ""


def task_text(task: TaskDifference, labels: Labels) -> str:
    """`0_3: active a -> b; standby - b; 5,000 records to restore on b`."""
    parts = []
    if task.active_from != task.active_to:
        parts.append(f"active {_label(task.active_from, labels)} -> {_label(task.active_to, labels)}")
    for role, gone, new in (
        ("standby", task.standby_gone, task.standby_new),
        ("warm-up", task.warm_up_gone, task.warm_up_new),
    ):
        copies = [f"{sign}{labels[process]}" for sign, processes in (("-", gone), ("+", new)) for process in processes]
        if copies:
            parts.append(f"{role} {' '.join(copies)}")
    to_restore = [
        f"{UNKNOWN if count is None else count_text(count)} on {labels[process]}"
        for process, count in task.records.items()
        if count != 0
    ]
    if to_restore:
        parts.append(f"to restore: {', '.join(to_restore)}")
    return f"{task.task}: {'; '.join(parts)}"


def _label(process: ProcessId | None, labels: Labels) -> str:
    return "nobody" if process is None else labels[process]


def _process(name: str) -> str:
    return "every instance" if name == EVERY_PROCESS else name


def _tags_text(tags: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{key}={value}' for key, value in tags.items())})" if tags else ""


def _counted(count: int, noun: str) -> str:
    return f"{count_text(count)} {noun}{'' if count == 1 else 's'}"
