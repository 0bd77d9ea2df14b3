"""The tables of `assignor demo`."""

from collections.abc import Iterable, Mapping

from rich.table import Table

from spark_jobs.demo.replayed_groups import ReplayedGroup
from spark_jobs.demo.takeovers import Takeover, WitnessedRebalance
from spark_jobs.ownership.group_view import GroupView, ListedRebalance


def assignment_table(title: str, view: GroupView, executors: Mapping[str, str]) -> Table:
    """Returns a table with a row for each thread, sorted by executor. A row shows the tasks of the thread. `executors`:
    the executor id of each member, by member id.
    """
    table = _table(title, dict.fromkeys(("executor", "thread", "active", "standby", "warm-up"), str))
    for member in sorted(view.members, key=lambda member: (executors[member.member_id], member.client_id)):
        held = (" ".join(tasks) for tasks in (member.active, member.standby, member.warm_up))
        table.add_row(executors[member.member_id], member.client_id, *held)
    return table


def rebalances_table(title: str, summaries: Iterable[ListedRebalance], seen: Mapping[int, WitnessedRebalance]) -> Table:
    """Returns a table with a row for each rebalance. The values come from the coordinator's history and from the
    members' ownership logs.
    """
    columns = {"generation": int, "why": str, "members": int, "tasks moved": int, "then": str, "took": int}
    table = _table(title, columns)
    for summary in summaries:
        of_members = seen.get(summary.generation_id)
        table.add_row(
            str(summary.generation_id),
            summary.reason,
            str(summary.members),
            "-" if of_members is None else str(of_members.moved),
            summary.outcome,
            _milliseconds(None if of_members is None else of_members.duration_ms),
        )
    return table


def takeovers_table(title: str, found: Iterable[Takeover]) -> Table:
    """Returns a table with a row for each task that lost its owner. The row has the new owner, the time without an
    owner, and the time until the first record. The row also has the state from which the task continued, and the number
    of changelog records that the task read to complete the state.
    """
    times = {"no owner for": int, "first record": int}
    table = _table(title, {"task": str, "now on": str, **times, "started from": str, "restored": int})
    for one in found:
        table.add_row(
            one.task,
            one.thread or "nobody",
            _milliseconds(one.assigned_ms),
            _milliseconds(one.processed_ms),
            _origin(one),
            "-" if one.records is None else str(one.records),
        )
    return table


def recordings_table(title: str, groups: list[ReplayedGroup]) -> Table:
    """Returns a table with a row for each recorded group, and the totals."""
    table = Table(title=title, title_justify="left", show_footer=True)
    table.add_column("recorded group", "all")
    table.add_column("rebalances", str(sum(group.rebalances for group in groups)), justify="right")
    table.add_column("equal", str(sum(group.equal for group in groups)), justify="right")
    table.add_column("equal to the byte", str(sum(group.bytes_equal for group in groups)), justify="right")
    for group in groups:
        table.add_row(group.name, str(group.rebalances), str(group.equal), str(group.bytes_equal))
    return table


def _table(title: str, columns: Mapping[str, type]) -> Table:
    """Returns a table without rows. Columns of type int are aligned to the right."""
    table = Table(title=title, title_justify="left")
    for column, kind in columns.items():
        table.add_column(column, justify="right" if kind is int else "left", overflow="fold")
    return table


def _origin(takeover: Takeover) -> str:
    if takeover.origin is None:
        return "-"
    # The origin can be "checkpoint" even if the process had a standby of the task. In this case, another thread of the
    # process closed the standby, and the new owner opened its state from disk.
    if takeover.had_standby:
        return "standby" if takeover.origin == "standby" else f"its {takeover.origin}"
    return takeover.origin


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
