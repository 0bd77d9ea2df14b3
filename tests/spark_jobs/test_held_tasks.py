"""A holder that only holds: what it writes down and what it reports."""

from __future__ import annotations

from pathlib import Path

from assignor.types import LATEST_OFFSET, TaskId, TopicPartition
from spark_jobs.held_tasks import HoldingTasks
from spark_jobs.ownership_log import Holder, OwnershipEvent, OwnershipLog, read_ownership
from spark_jobs.task_positions import TaskPositions
from streams_runtime.task_holder import HeldTasks

A, B, STATELESS = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)
CHANGELOGS = {A: {TopicPartition("log", 0): 100}, B: {TopicPartition("log", 1): 100}}


class Setting:
    """One holder on a clock that only moves when told."""

    def __init__(self, directory: Path) -> None:
        self.now_s = 0.0
        self.log = directory / "log"
        positions = TaskPositions(directory, CHANGELOGS, restore_rate=10.0, clock=lambda: self.now_s)
        self.holder = HoldingTasks("t0", positions, OwnershipLog(self.log, Holder("p0", "t0", "0", 1)))

    def written(self) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        return [(line.event.value, line.active, line.standby) for line in read_ownership(self.log)]


def held(active: list[TaskId], standby: list[TaskId], generation_id: int = 1) -> HeldTasks:
    return HeldTasks("m", generation_id, dict.fromkeys(active, frozenset()), dict.fromkeys(standby, frozenset()))


def test_should_report_an_active_task_as_running_only_when_it_is_restored(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.holder.assign(held([A, STATELESS], [B]))
    setting.now_s = 5.0
    assert setting.holder.offset_sums() == {A: 50, B: 50}
    setting.now_s = 10.0
    assert setting.holder.offset_sums() == {A: LATEST_OFFSET, B: 100}


def test_should_write_down_every_change_of_what_it_holds(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    holder = setting.holder
    holder.rebalance_started()
    holder.assign(held([A, B], []))
    holder.rebalance_started()
    holder.revoke(frozenset({B}))
    holder.assign(held([A], [B], 2))
    holder.lost("UNKNOWN_MEMBER_ID")
    holder.assign(held([B], [], 3))
    holder.close()
    assert setting.written() == [
        ("started", (), ()),
        ("joining", (), ()),
        ("assigned", ("0_0", "0_1"), ()),
        ("joining", ("0_0", "0_1"), ()),
        ("revoked", ("0_0",), ()),
        ("assigned", ("0_0",), ("0_1",)),
        ("lost", (), ()),
        ("assigned", ("0_1",), ()),
        ("closed", (), ()),
    ]
    lines = read_ownership(setting.log)
    assert [line.generation_id for line in lines] == [None, None, 1, 1, 1, 2, None, 3, None]
    assert [line.reason for line in lines if line.event is OwnershipEvent.LOST] == ["UNKNOWN_MEMBER_ID"]


def test_should_keep_its_place_when_closed(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.holder.assign(held([A], []))
    setting.now_s = 7.0
    setting.holder.close()
    again = Setting(tmp_path)
    again.holder.rebalance_started()
    assert again.holder.offset_sums() == {A: 70}
