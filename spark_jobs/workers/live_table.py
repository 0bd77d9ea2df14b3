"""The group as the driver shows it: a table that updates in place, or one line per change when there is no terminal.

A task is shown as `0_3` when it runs or is caught up. Otherwise what is left is shown: `0_3 40% 1,200 left` for an
active task that restores, `0_3 lag 17` for a standby.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from spark_jobs.workers.first_minute import BeginningsWatch
from spark_jobs.workers.group_status import (
    ACTIVE,
    RUNNING,
    STANDBY,
    WARM_UP,
    CopyStatus,
    GroupStatus,
    GroupWatch,
    ThreadRow,
)
from spark_jobs.workers.member_process import InstanceEnd
from spark_jobs.workers.running import Workers
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.coordinator_errors import CoordinatorError, CoordinatorUnavailable

LOOK_INTERVAL_S = 0.5
_ROLES = (ACTIVE, STANDBY, WARM_UP)
_PERCENT_STEP = 10
_GROUP, _PROBLEM = "\0group", "\0problem"  # no thread has such a name


class LiveTable:
    """A context manager, which gives the terminal back on exit."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._told: dict[str, object] = {}

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: GroupStatus) -> None:
        if self._live is not None:
            self._live.update(status_table(status), refresh=True)
            return
        self._tell(_GROUP, headline(status), headline(status))
        for row in status.threads:
            changed = (row.instance, row.state, tuple(_as_of_change(copy) for copy in row.copies))
            self._tell(row.thread, _line(row), changed)
        for gone in sorted(self._told.keys() - {row.thread for row in status.threads} - {_GROUP, _PROBLEM}):
            del self._told[gone]
            self._print(f"{gone}: gone")
        self._told.pop(_PROBLEM, None)

    def show_problem(self, text: str) -> None:
        """Show that the coordinator did not answer. The table keeps its last state."""
        if self._live is None:
            self._tell(_PROBLEM, text, text)

    def _tell(self, about: str, line: str, key: object) -> None:
        if self._told.get(about) != key:
            self._told[about] = key
            self._print(line)

    def tell(self, line: str) -> None:
        """A line of its own, above the table."""
        self._print(line)

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_until_ended(
    workers: Workers, client: CoordinatorClient, group_id: str, console: Console, interval_s: float = LOOK_INTERVAL_S
) -> list[InstanceEnd]:
    """Show the group until all instances have ended; return how they ended. Raises WorkersFailed.

    KeyboardInterrupt drains the instances.
    """
    try:
        with GroupWatch(client, group_id) as watch, LiveTable(console) as table:
            beginnings = BeginningsWatch(workers.instances)
            while (ends := workers.wait(interval_s)) is None:
                try:
                    status = watch.look()
                    table.show(status)
                    line = beginnings.look(workers.running, len(status.threads), time.monotonic(), workers.surroundings)
                    if line is not None:
                        table.tell(line)
                except (CoordinatorError, CoordinatorUnavailable) as problem:
                    table.show_problem(f"the coordinator does not answer: {problem}")
            return ends
    except KeyboardInterrupt:
        console.print("stopping: instances commit, checkpoint and leave", highlight=False)
        return workers.stop()


def status_table(status: GroupStatus) -> Table:
    table = Table(title=headline(status), title_justify="left")
    for column in ("instance", "thread", "state", *_ROLES):
        table.add_column(column, overflow="fold")
    for row in status.threads:
        table.add_row(row.instance, row.thread, row.state, *(Text(_copies_text(row, role)) for role in _ROLES))
    return table


def headline(status: GroupStatus) -> str:
    """The group in one line, for the table's title."""
    active = [copy for row in status.threads for copy in row.of_role(ACTIVE)]
    running = sum(copy.state == RUNNING for copy in active)
    return (
        f"{status.group_id}: {status.state}, generation {status.generation_id}, "
        f"{len(status.threads)} threads, {running} of {len(active)} tasks running"
    )


def copy_text(copy: CopyStatus) -> str:
    """A task, and how much it still has to read."""
    percent = copy.restore_percent
    if percent is not None:
        return f"{copy.task} {percent}% {copy.lag:,} left"
    if copy.role != ACTIVE and copy.lag is None:
        return f"{copy.task} lag ?"
    if copy.role != ACTIVE and copy.lag:
        return f"{copy.task} lag {copy.lag:,}"
    return copy.task if copy.state in (RUNNING, "") or copy.role != ACTIVE else f"{copy.task} {copy.state}"


def _line(row: ThreadRow) -> str:
    held = "; ".join(f"{role} {_copies_text(row, role)}" for role in _ROLES if row.of_role(role))
    return f"{row.thread} on {row.instance}: {row.state or '-'}; {held or 'no tasks'}"


def _copies_text(row: ThreadRow, role: str) -> str:
    return ", ".join(copy_text(copy) for copy in row.of_role(role))


def _as_of_change(copy: CopyStatus) -> tuple[object, ...]:
    """What counts as a change worth a line: tens of percent, not single records."""
    percent = copy.restore_percent
    behind = copy.role != ACTIVE and bool(copy.lag)
    return copy.task, copy.role, copy.state, behind, None if percent is None else percent // _PERCENT_STEP
