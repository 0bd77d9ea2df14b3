"""What became of a dead executor's tasks, read from ownership logs."""

from spark_jobs.demo.takeovers import Takeover, takeovers
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine

DEAD_PID = 1
DIED_MS = 1_000.0


def line(
    at_ms: float,
    event: OwnershipEvent,
    instance: str,
    active: str = "",
    standby: str = "",
    *,
    thread: int = 0,
    task: str | None = None,
    origin: str | None = None,
    records: int | None = None,
) -> OwnershipLine:
    number = int(instance[1:])
    of_thread = (
        instance,
        f"app-{instance}-t{thread}",
        str(number),
        number + 1,
        100 + number,
        1,
        f"m-{instance}-{thread}",
    )
    held = tuple(active.split()), tuple(standby.split())
    return OwnershipLine(at_ms, event, *of_thread, *held, None, task, origin, records)


def test_should_tell_of_each_lost_task_when_it_had_an_owner_again_and_what_it_went_on_from() -> None:
    lines = [
        line(10, OwnershipEvent.ASSIGNED, "p0", "0_0 0_1 0_2"),
        line(10, OwnershipEvent.ASSIGNED, "p1", "0_3", "0_0"),
        line(10, OwnershipEvent.ASSIGNED, "p1", "", "0_1", thread=1),
        line(1_300, OwnershipEvent.ASSIGNED, "p1", "0_3 0_0 0_1"),
        line(1_400, OwnershipEvent.RESTORED, "p1", "0_3 0_0 0_1", task="0_0", origin="standby", records=3),
        line(1_450, OwnershipEvent.RESTORED, "p1", "0_3 0_0 0_1", task="0_1", origin="checkpoint", records=0),
        line(1_500, OwnershipEvent.PROCESSED, "p1", "0_3 0_0 0_1", task="0_0"),
        line(1_600, OwnershipEvent.ASSIGNED, "p2", "0_2"),
        line(1_700, OwnershipEvent.RESTORED, "p2", "0_2", task="0_2", origin="beginning", records=90),
    ]

    assert takeovers(lines, DIED_MS, {DEAD_PID: DIED_MS}) == [
        Takeover("0_0", "app-p1-t0", 300.0, 500.0, "standby", 3, True),
        Takeover("0_1", "app-p1-t0", 300.0, None, "checkpoint", 0, True),
        Takeover("0_2", "app-p2-t0", 600.0, None, "beginning", 90, False),
    ]


def test_should_tell_that_nobody_has_a_lost_task_yet() -> None:
    lines = [line(10, OwnershipEvent.ASSIGNED, "p0", "0_0"), line(10, OwnershipEvent.ASSIGNED, "p1", "", "0_0")]

    assert takeovers(lines, DIED_MS, {DEAD_PID: DIED_MS}) == [Takeover("0_0", None, None, None, None, None, False)]
