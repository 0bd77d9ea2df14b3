"""Lines of ownership logs for tests that read them."""

from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine


def owned(
    at_ms: float,
    event: OwnershipEvent,
    pid: int,
    active: tuple[str, ...],
    task: str | None = None,
    *,
    standby: tuple[str, ...] = (),
) -> OwnershipLine:
    """Of the one thread of a process. A line about a task says that 5 records were restored."""
    records = None if task is None else 5
    return OwnershipLine(
        at_ms, event, f"p{pid}", f"t{pid}", "e", pid, None, active=active, standby=standby, task=task, records=records
    )
