"""A group, its members' ownership logs, and what has to be true of them after every fault."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.ownership.group_view import GroupView, wait_until_held
from spark_jobs.ownership.ownership_history import gaps, overlaps, ownership_intervals
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine, read_ownership
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime.instance.application import Application, group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.spark_jobs.owners import are_owned_once
from tests.spark_jobs.small_application import PARTITIONS, STORES, TASKS, counted, small_application, write_records
from tests.waiting import wait_until

THREADS = 2
TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class GroupUnderTest:
    """A group of `small_application`, with `configs` (dotted names with underscores for dots).

    `records`: its log; `directory`: holds the members' state and ownership logs.
    """

    coordinator: CoordinatorProcess
    client: CoordinatorClient
    id: str
    records: Path
    directory: Path
    configs: Mapping[str, object] = field(default_factory=dict)

    def application(self, **configs: object) -> Application:
        """`configs`: over the group's own. Only who has all of a task's state counts as caught up."""
        defaults = {"acceptable_recovery_lag": 0, "num_stream_threads": THREADS}
        return small_application(self.id, self.records, **{**defaults, **self.configs, **configs})

    def settings(self, **configs: object) -> InstanceSettings:
        """Settings of this group's instances."""
        return InstanceSettings(
            self.application(**configs),
            self.coordinator.url,
            state_dir=str(self.directory / "state"),
            log_dir=str(self.log_dir),
        )

    def declare(self, **configs: object) -> None:
        """`configs`: of the leader; other ones than before begin a rebalance."""
        self.client.declare(self.id, group_body(self.application(**configs)))

    @property
    def log_dir(self) -> Path:
        return self.directory / "log"

    def lines(self) -> list[OwnershipLine]:
        return read_ownership(self.log_dir)

    def wait_until_whole(
        self, members: int, what: str, wanted: Callable[[GroupView], bool] = lambda view: True
    ) -> GroupView:
        """Until `members` members, and no others, hold every task once, as the coordinator and they themselves say."""

        def whole(view: GroupView) -> bool:
            return len(view.members) == members and are_owned_once(view) and wanted(view)

        return wait_until_held(self.client, self.id, self.log_dir, whole, what, TIMEOUT_S)

    def wait_until_counted(self, each: int) -> None:
        """Until every store has counted `each` records of each partition, and not one more."""
        expected = dict.fromkeys(STORES, each * PARTITIONS)
        wait_until(
            lambda: counted(self.records, self.id) == expected, lambda: counted(self.records, self.id), TIMEOUT_S, 0.05
        )

    def assert_counts_on(self, each: int) -> None:
        """As many records again are counted once each: every task works, with all the state it had."""
        write_records(self.records, each)
        self.wait_until_counted(2 * each)

    def assert_no_task_lost_or_owned_twice(self, deaths: dict[int, float] | None = None) -> None:
        """By what the members wrote down, from the beginning on. `deaths`: processes that could not say goodbye."""
        intervals = ownership_intervals(self.lines(), deaths)
        assert intervals.keys() == TASKS
        assert overlaps(intervals) == []
        assert [gap for gap in gaps(intervals) if gap.end_ms is None] == []

    def first_owner_since(self, at_ms: float, task: str) -> str:
        """The first thread that came to own the task after that time."""
        return next(
            interval.thread for interval in ownership_intervals(self.lines())[task] if interval.start_ms > at_ms
        )

    def longest_gap_ms(self, after_ms: float, deaths: dict[int, float] | None = None) -> float:
        """The longest time that a task was without owner after `after_ms`, as the members saw it."""
        found = gaps(ownership_intervals(self.lines(), deaths), after_ms=after_ms)
        return max((gap.length_ms or 0.0 for gap in found), default=0.0)

    def assert_lost_nothing_since(self, lines_before: int) -> None:
        """No member had its tasks taken away since then."""
        assert [line for line in self.lines()[lines_before:] if line.event is OwnershipEvent.LOST] == []
