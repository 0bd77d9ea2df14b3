"""Shows the group during `workers run`. If the output is a terminal, a table is updated in place. If the output is not
a terminal, a line is printed for each change.

A task that runs or has caught up is shown as its task id, such as `0_3`. A task that still has to read changelog
records is shown with the number of these records and, if it is known, the time until they are read. Examples: `0_3 40%
1,200 left (about 12 s)` for a restoring active task, and `0_3 lag 17` for a standby. The lines below the table show
advice about the group and the notices of its instances. A notice reports dropped records, passed-over records, logged
warnings or logged errors. The number of processed records includes the records of instances that have ended.
"""

import time
from operator import attrgetter
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from assignor.names.printable import one_line
from coordinator_client.calls import state_text
from rebalance_analysis.presentation.quantities import time_left_text
from spark_jobs.ownership.group_status import (
    ACTIVE,
    RUNNING,
    STANDBY,
    WARM_UP,
    CopyStatus,
    GroupStatus,
    GroupWatch,
    ThreadRow,
)
from spark_jobs.ownership.group_view import STABLE, InstanceNotice
from spark_jobs.workers.instance_starts import BeginningsWatch, Surroundings
from spark_jobs.workers.member_process import InstanceResult
from streams_runtime.instance.application import Application
from streams_runtime.membership.calls import CoordinatorError, CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient

POLL_INTERVAL_S = 0.5
_ROLES = (ACTIVE, STANDBY, WARM_UP)
_LOST = {"dropped": attrgetter("dropped"), "passed over": attrgetter("passed_over")}
"""The columns for lost records. The table shows each column only if at least one thread has a number above 0 in the
column.
"""
_PERCENT_STEP = 10
_NO_THREAD = "\0"  # No thread name begins with NUL.
_GROUP, _PROBLEM, _ADVICE, _NOTICE = (f"{_NO_THREAD}{about}" for about in ("group", "problem", "advice", "notice "))
_WHAT_TO_DO = "what to do: "
_NOTICES_SHOWN = 8


class RunningInstances(Protocol):
    """The instances that the table shows: `Workers` on Spark, or `LocalInstances`."""

    instances: int
    surroundings: Surroundings

    @property
    def running(self) -> int:
        """The number of instances that have a slot."""
        ...

    def wait(self, timeout_s: float | None = None) -> list[InstanceResult] | None:
        """Waits until all instances have ended, and returns an InstanceResult for each instance. Returns None if
        instances still run after `timeout_s`. Raises WorkersFailed if the instances cannot continue.
        """
        ...

    def stop(self) -> list[InstanceResult]:
        """Stops the instances: each instance commits, checkpoints, leaves the group and ends. Returns an InstanceResult
        for each instance; empty if the instances had to be killed.
        """
        ...


class LiveTable:
    """A context manager that shows the group on a console. The end of the block stops the live display."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._printed: dict[str, object] = {}
        # key: the instance and the thread. Threads that have ended remain in this dict
        self._processed: dict[tuple[str, str], int] = {}
        self._shown: list[RenderableType] = []

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: GroupStatus) -> None:
        if self._live is not None:
            # use the maximum, because the row of an instance that does not respond shows 0 processed records
            for row in status.threads:
                about = row.instance, row.thread
                self._processed[about] = max(row.processed, self._processed.get(about, 0))
            processed = f"{sum(self._processed.values()):,} records processed"
            self._shown = [
                _named(f"{headline(status)}, {processed}"),
                *([status_table(status)] if status.threads else ()),
                *map(_named, remarks(status)),
            ]
            self._live.update(Group(*self._shown), refresh=True)
            return
        self._print_change(_GROUP, headline(status), headline(status))
        self._print_change(_ADVICE, f"{_WHAT_TO_DO}{status.view.advice}", status.view.advice)
        # print a line when the bit length of the count changes, that is, whenever the count has about doubled
        for notice in status.view.notices:
            about_notice = f"{_NOTICE}{notice.process_id} {notice.code}"
            self._print_change(about_notice, notice_text(notice, status), notice.count.bit_length())
        for row in status.threads:
            changed = (row.instance, row.state, tuple(_as_of_change(copy) for copy in row.copies))
            self._print_change(row.thread, _line(row), changed)
        threads = {about for about in self._printed if not about.startswith(_NO_THREAD)}
        for gone in sorted(threads - {row.thread for row in status.threads}):
            del self._printed[gone]
            self.report_line(f"{gone}: gone")
        self._printed.pop(_PROBLEM, None)

    def show_problem(self, text: str) -> None:
        """Shows a problem, such as a coordinator that does not respond. The content of the table does not change."""
        if self._live is None:
            self._print_change(_PROBLEM, text, text)
        else:
            self._live.update(Group(*self._shown, _named(text)), refresh=True)

    def report_line(self, line: str) -> None:
        print_line(self._console, line)

    def _print_change(self, about: str, line: str, key: object) -> None:
        if self._printed.get(about) != key:
            self._printed[about] = key
            if key is not None:
                self.report_line(line)


def print_line(console: Console, line: str) -> None:
    """Prints a line above the live table."""
    console.print(one_line(line), highlight=False, markup=False, soft_wrap=True)


def show_until_ended(
    workers: RunningInstances, client: CoordinatorClient, application: Application, console: Console
) -> list[InstanceResult]:
    """Shows the group until all instances have ended, and returns an InstanceResult for each instance. After a
    KeyboardInterrupt, the instances commit their work, leave the group and end.

    Raises WorkersFailed, and InputError for certificate files that cannot be used.
    """
    https = application.configs.endpoint_tls is not None
    try:
        with GroupWatch(client, application.id, https=https) as watch, LiveTable(console) as table:
            beginnings = BeginningsWatch(workers.instances, workers.surroundings)
            while (ends := workers.wait(POLL_INTERVAL_S)) is None:
                try:
                    status = watch.poll()
                    table.show(status)
                    line = beginnings.poll(workers.running, len(status.threads), time.monotonic())
                    if line is not None:
                        table.report_line(line)
                except (CoordinatorError, CoordinatorUnavailable) as problem:
                    table.show_problem(f"the coordinator does not answer: {problem}")
            return ends
    except KeyboardInterrupt:
        console.print("stopping: instances commit, checkpoint and leave", highlight=False)
        return workers.stop()


def status_table(status: GroupStatus) -> Table:
    lost = {heading: count for heading, count in _LOST.items() if any(map(count, status.threads))}
    table = Table()
    for column in ("instance", "thread", "state", *_ROLES):
        table.add_column(column, overflow="fold")
    for heading in lost:
        table.add_column(heading, justify="right", overflow="fold")
    for row in status.threads:
        texts = (row.instance, row.thread, row.state, *(_copies_text(row, role) for role in _ROLES))
        table.add_row(*map(_named, texts), *(f"{count(row):,}" for count in lost.values()))
    return table


def _named(text: str) -> Text:
    """Removes control characters from the text, and converts it to rich's class Text, so that rich does not interpret
    markup in the text.
    """
    return Text(one_line(text))


def remarks(status: GroupStatus) -> list[str]:
    """Returns the lines below the table: first the advice about the group, then the notices of its instances, newest
    first.
    """
    advice, notices = status.view.advice, status.view.notices
    lines = [] if advice is None else [f"{_WHAT_TO_DO}{advice}"]
    lines += [notice_text(notice, status) for notice in notices[:_NOTICES_SHOWN]]
    if len(notices) > _NOTICES_SHOWN:
        lines.append(f"and {len(notices) - _NOTICES_SHOWN} more: assignor groups describe {status.group_id}")
    return lines


def notice_text(notice: InstanceNotice, status: GroupStatus) -> str:
    return f"{notice.code} {notice.count:,} on {status.instance_of(notice.process_id)}: {notice.text}"


def headline(status: GroupStatus) -> str:
    """Returns the state of the group in one line, which is shown above the table."""
    view = status.view
    active = [copy for row in status.threads for copy in row.of_role(ACTIVE)]
    running = sum(copy.state == RUNNING for copy in active)
    state = state_text(view.state, view.condition)
    if view.condition is None and view.state == STABLE and status.threads and not active:
        state = "has no tasks yet"
    group = f"{status.group_id}: {state}, generation {view.generation_id}"
    if not status.threads:
        return f"{group}, no threads"
    threads = "1 thread" if len(status.threads) == 1 else f"{len(status.threads)} threads"
    return f"{group}, {threads}, {running} of {len(active)} tasks running"


def copy_text(copy: CopyStatus) -> str:
    """Returns the task id, and the number of changelog records that the copy still has to read, with the time that this
    takes.
    """
    percent = copy.restore_percent
    time_left = f" ({time_left_text(copy.left_ms)})" if copy.lag and copy.left_ms is not None else ""
    if percent is not None:
        return f"{copy.task} {percent}% {copy.lag:,} left{time_left}"
    if copy.role != ACTIVE and copy.lag is None:
        return f"{copy.task} lag ?"
    if copy.role != ACTIVE and copy.lag:
        return f"{copy.task} lag {copy.lag:,}{time_left}"
    return copy.task if copy.state in (RUNNING, "") or copy.role != ACTIVE else f"{copy.task} {copy.state}"


def _line(row: ThreadRow) -> str:
    held = "; ".join(f"{role} {_copies_text(row, role)}" for role in _ROLES if row.of_role(role))
    return f"{row.thread} on {row.instance}: {row.state or '-'}; {held or 'no tasks'}"


def _copies_text(row: ThreadRow, role: str) -> str:
    return ", ".join(copy_text(copy) for copy in row.of_role(role))


def _as_of_change(copy: CopyStatus) -> tuple[object, ...]:
    """Returns the values of a task copy that decide whether a new line is printed. If these values differ from the
    values at the last poll, the module prints a new line. The restored share is rounded to tens of percent, so not
    every restored record causes a line.
    """
    percent = copy.restore_percent
    behind = copy.role != ACTIVE and bool(copy.lag)
    return copy.task, copy.role, copy.state, behind, None if percent is None else percent // _PERCENT_STEP
