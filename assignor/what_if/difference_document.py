"""A difference as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from assignor.types import ProcessId
from assignor.what_if.difference import ComparedRebalance, Difference, TaskDifference


def difference_document(difference: Difference) -> dict[str, object]:
    """Processes and tasks as text; times in seconds. Every task that is elsewhere is in it."""
    return {
        "before": _round(difference.before),
        "after": _round(difference.after),
        "active_elsewhere": difference.active_elsewhere,
        "standbys_new": difference.standbys_new,
        "standbys_gone": difference.standbys_gone,
        "warm_ups_new": difference.warm_ups_new,
        "warm_ups_gone": difference.warm_ups_gone,
        "tasks_new": [str(task) for task in difference.tasks_new],
        "tasks_gone": [str(task) for task in difference.tasks_gone],
        "processes_new": _processes(difference.processes_new),
        "processes_gone": _processes(difference.processes_gone),
        "restore_records_per_s": difference.restore_records_per_s,
        "tasks": [_task(task) for task in difference.tasks],
    }


def _round(summary: ComparedRebalance) -> dict[str, object]:
    records = summary.records_by_process
    return {
        "error": summary.error,
        "measures": None if summary.measures is None else asdict(summary.measures),
        "probing_rebalance_needed": summary.probing_rebalance_needed,
        "followup_rebalance": summary.followup_rebalance,
        "records_by_process": None if records is None else {str(each): records[each] for each in sorted(records)},
        "restore_s": summary.restore_s,
    }


def _task(task: TaskDifference) -> dict[str, object]:
    return {
        "task": str(task.task),
        "active": {
            "from": None if task.active_from is None else str(task.active_from),
            "to": None if task.active_to is None else str(task.active_to),
        },
        "standby": {"gone": _processes(task.standby_gone), "new": _processes(task.standby_new)},
        "warm_up": {"gone": _processes(task.warm_up_gone), "new": _processes(task.warm_up_new)},
        "records_to_restore": {str(process): records for process, records in task.records.items()},
    }


def _processes(processes: Iterable[ProcessId]) -> list[str]:
    return [str(process) for process in processes]
