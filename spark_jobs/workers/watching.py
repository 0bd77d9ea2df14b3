"""What the driver does while instances run: it shows the group, until they have ended or somebody interrupts it."""

from __future__ import annotations

from rich.console import Console

from spark_jobs.workers.group_status import GroupWatch
from spark_jobs.workers.live_table import LiveTable
from spark_jobs.workers.member_process import InstanceEnd
from spark_jobs.workers.running import Workers
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.coordinator_errors import CoordinatorError, CoordinatorUnavailable

LOOK_INTERVAL_S = 0.5


def show_until_ended(
    workers: Workers, client: CoordinatorClient, group_id: str, console: Console, interval_s: float = LOOK_INTERVAL_S
) -> list[InstanceEnd]:
    """How the instances ended; KeyboardInterrupt drains them. Raises WorkersFailed."""
    try:
        with GroupWatch(client, group_id) as watch, LiveTable(console) as table:
            while (ends := workers.wait(interval_s)) is None:
                try:
                    table.show(watch.look())
                except (CoordinatorError, CoordinatorUnavailable) as problem:
                    table.show_problem(f"the coordinator could not be asked: {problem}")
            return ends
    except KeyboardInterrupt:
        console.print("stopping: instances commit, checkpoint and leave", highlight=False)
        return workers.stop()
