"""A group, its members' ownership logs, and what has to be true of them after every fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from spark_jobs.coordinator_process import CoordinatorProcess
from spark_jobs.definition import GroupDefinition
from spark_jobs.group_view import GroupView, wait_until_held
from spark_jobs.member_process import InstanceSettings
from spark_jobs.ownership_history import gaps, overlaps, ownership_intervals
from spark_jobs.ownership_log import OwnershipEvent, OwnershipLine, read_ownership
from spark_jobs.workers import instance_settings
from streams_runtime.coordinator_client import CoordinatorClient

TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class GroupUnderTest:
    """`directory`: holds the members' state and logs. `tasks`: how many the group has."""

    coordinator: CoordinatorProcess
    client: CoordinatorClient
    definition: GroupDefinition
    directory: Path
    tasks: int

    def settings(self, **changes: object) -> InstanceSettings:
        """Settings of this group's instances, with `changes` to the fields of InstanceSettings."""
        base = instance_settings(
            self.definition, self.coordinator.url, str(self.directory / "state"), str(self.log_dir)
        )
        return replace(base, **changes)  # type: ignore[arg-type]

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
            owners = view.owners()
            return (
                len(view.members) == members
                and len(owners) == self.tasks
                and all(len(names) == 1 for names in owners.values())
                and wanted(view)
            )

        return wait_until_held(self.client, self.definition.group_id, self.log_dir, whole, what, TIMEOUT_S)

    def declare_again(self, records_a_partition: int) -> None:
        """Another definition, so that a round begins: every changelog has grown to that end."""
        ends = self.definition.declared.changelog_end_offsets or {}
        grown = {topic: (records_a_partition,) * len(offsets) for topic, offsets in ends.items()}
        changed = replace(self.definition.declared, changelog_end_offsets=grown)
        self.client.declare(self.definition.group_id, GroupDefinition(self.definition.group_id, changed).body())

    def assert_no_task_lost_or_owned_twice(self, deaths: dict[int, float] | None = None) -> None:
        """By what the members wrote down, from the beginning on. `deaths`: processes that could not say goodbye."""
        intervals = ownership_intervals(self.lines(), deaths)
        assert len(intervals) == self.tasks
        assert overlaps(intervals) == []
        assert [gap for gap in gaps(intervals) if gap.end_ms is None] == []

    def longest_gap_ms(self, after_ms: float, deaths: dict[int, float] | None = None) -> float:
        """The longest time that a task was without owner after `after_ms`, as the members saw it."""
        found = gaps(ownership_intervals(self.lines(), deaths), after_ms=after_ms)
        return max((gap.length_ms or 0.0 for gap in found), default=0.0)

    def assert_lost_nothing_since(self, lines_before: int) -> None:
        """No member had its tasks taken away since then."""
        assert [line for line in self.lines()[lines_before:] if line.event is OwnershipEvent.LOST] == []
