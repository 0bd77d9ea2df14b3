"""What a stream thread tells becomes lines: each says all that the thread holds from then on."""

from __future__ import annotations

from pathlib import Path

from assignor.types import TaskId
from spark_jobs.workers.ownership_listener import OwnershipListener
from spark_jobs.workers.ownership_log import Holder, OwnershipLog, read_ownership
from streams_runtime.common.states import RestoreOrigin
from streams_runtime.membership.member_events import HeldTasks
from streams_runtime.task_manager.thread_listener import TaskRestored

A, B = TaskId(0, 0), TaskId(0, 1)


def held(active: list[TaskId], standby: list[TaskId], generation_id: int = 1) -> HeldTasks:
    return HeldTasks("m", generation_id, dict.fromkeys(active, frozenset()), dict.fromkeys(standby, frozenset()))


def test_should_write_down_every_change_of_what_the_thread_holds(tmp_path: Path) -> None:
    listener = OwnershipListener(OwnershipLog(tmp_path, Holder("p0", "t0", "7", 1, 2)))
    listener.joining(HeldTasks("", 0))
    listener.assigned(held([A, B], []))
    listener.joining(held([A, B], []))
    listener.revoked(held([A], []))
    listener.assigned(held([A], [B], 2))
    listener.dropped("UNKNOWN_MEMBER_ID", clean=False)
    listener.assigned(held([B], [], 3))
    listener.dropped("closed", clean=True)
    lines = read_ownership(tmp_path)
    assert [(line.event, line.active, line.standby, line.generation_id, line.reason) for line in lines] == [
        ("started", (), (), None, None),
        ("joining", (), (), None, None),
        ("assigned", ("0_0", "0_1"), (), 1, None),
        ("joining", ("0_0", "0_1"), (), 1, None),
        ("revoked", ("0_0",), (), 1, None),
        ("assigned", ("0_0",), ("0_1",), 2, None),
        ("lost", (), (), None, "UNKNOWN_MEMBER_ID"),
        ("assigned", ("0_1",), (), 3, None),
        ("closed", (), (), None, "closed"),
    ]
    assert {(line.instance, line.thread, line.executor, line.pid, line.jvm_pid) for line in lines} == {
        ("p0", "t0", "7", 1, 2)
    }


def test_should_write_down_what_a_task_started_from_and_its_first_record(tmp_path: Path) -> None:
    listener = OwnershipListener(OwnershipLog(tmp_path, Holder("p0", "t0", "7", 1)))
    listener.assigned(held([A], [B]))
    listener.restored(TaskRestored(A, RestoreOrigin.STANDBY, 17, 5))
    listener.processed_first(A, 1_000)
    lines = read_ownership(tmp_path)[-2:]
    assert [(line.event, line.task, line.origin, line.records) for line in lines] == [
        ("restored", "0_0", "standby", 17),
        ("processed", "0_0", None, None),
    ]
    assert {(line.active, line.standby) for line in lines} == {(("0_0",), ("0_1",))}, "nothing changed hands"
