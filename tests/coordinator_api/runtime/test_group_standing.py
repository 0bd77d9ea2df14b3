"""What /metrics is told of one group, and that working it out keeps nobody waiting."""

import asyncio

from assignor.types import TaskId
from coordinator_api.group.events import Leave, Tick
from coordinator_api.group.health import GroupHealth, HealthLevel
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import Outcome
from coordinator_api.metrics import GroupMeasures, MeasuredService, Metrics, ServiceMeasures
from coordinator_api.runtime.telemetry import HOUR_MS, MOST_REBALANCES_KNOWN, GroupStanding
from tests.coordinator_api.group.declarations import declared
from tests.coordinator_api.group.member_bytes import assignment, decided, join
from tests.coordinator_api.group.recorded_group import RecordedGroup

A, B = TaskId(0, 0), TaskId(0, 1)
GIVEN = {"a": assignment((A,)), "b": assignment((B,))}


class Standing:
    def __init__(self) -> None:
        self.recorded = RecordedGroup(GroupLimits(initial_rebalance_delay_ms=0))
        self.passed_s = 0.0
        self.standing = GroupStanding(self.recorded.group.image, 0, self._pass)
        for event in (declared("v1"), join("a"), join("b"), Tick()):
            self.follow(self.recorded.send(event))

    def _pass(self, seconds: float) -> None:
        self.passed_s += seconds

    def follow(self, outcome: Outcome) -> None:
        self.standing.committed(outcome.records, self.recorded.now_ms)

    def complete(self, *, held_back: str = "", probing_at_ms: int | None = None) -> Outcome:
        """`held_back`: the member whose task nobody gets yet."""
        image = self.recorded.group.image
        given = {name: assignment(()) if name == held_back else GIVEN[name] for name in image.members}
        result = decided(given, followup_rebalance=bool(held_back), probing_rebalance_at_ms=probing_at_ms)
        outcome = self.recorded.send(self.recorded.computed(image.generation_id, result))
        self.follow(outcome)
        return outcome

    def measures(self, now_ms: int) -> GroupMeasures:
        return self.standing.measures("g", self.recorded.group.image, GroupHealth(), now_ms)


def test_should_measure_a_group_at_rest() -> None:
    group = Standing()
    group.complete(probing_at_ms=600_000)
    assert group.measures(1_000) == GroupMeasures("g", 2, 0, 0.0, 0.0, 0, 599.0, 1, HealthLevel.OK)


def test_should_count_the_seconds_of_each_task_without_owner_as_they_are_asked_for() -> None:
    group = Standing()
    group.complete()
    group.recorded.now_ms = 1_000
    group.follow(group.recorded.send(Leave("b")))
    measures = group.measures(3_500)
    assert (measures.tasks_without_owner, measures.without_owner_s, measures.members) == (1, 2.5, 1)
    assert group.passed_s == 2.5
    group.measures(4_000)
    assert group.passed_s == 3.0


def test_should_count_the_rebalances_of_the_last_hour_up_to_a_thousand() -> None:
    group = Standing()
    completed = group.complete()
    for _ in range(MOST_REBALANCES_KNOWN + 5):
        group.follow(completed)
    assert group.measures(HOUR_MS - 1).rebalances_per_hour == MOST_REBALANCES_KNOWN
    assert group.measures(HOUR_MS).rebalances_per_hour == 0


async def test_should_take_records_in_order_while_a_large_one_is_worked_out_in_a_thread() -> None:
    others = asyncio.all_tasks()
    group = Standing()
    group.complete()
    group.follow(group.recorded.send(declared("v2")))
    for name in ("a", "b"):
        group.follow(group.recorded.send(join(name, name, unique=1)))
    group.recorded.now_ms = 1_000
    group.complete(held_back="b")
    group.recorded.now_ms = 1_500
    group.follow(group.recorded.send(Leave("a")))
    assert group.measures(1_500).tasks_without_owner == 0  # not worked out yet
    await asyncio.gather(*(asyncio.all_tasks() - others))
    measures = group.measures(2_000)
    assert (measures.tasks_without_owner, measures.without_owner_s, group.passed_s) == (2, 1.0, 1.5)


def test_should_name_the_first_groups_only_and_all_in_the_sums() -> None:
    groups = [
        GroupMeasures("a", 2, 1, 3.0, 0.0, 1, None, 4, HealthLevel.OK),
        GroupMeasures("b", 5, 2, 9.0, 7.0, 2, 60.0, 31, HealthLevel.BROKEN),
    ]
    metrics = Metrics()
    metrics.registry.register(MeasuredService(lambda: ServiceMeasures(groups, {"Stable": 2}, 0, 0, 0.0, 3, 5), 1))
    shown = [line for line in metrics.exposition().decode().splitlines() if not line.startswith("#")]
    assert [line for line in shown if "assignor_group_" in line] == [
        'assignor_group_health{group="a"} 0.0',
        'assignor_group_members{group="a"} 2.0',
        'assignor_group_tasks_without_owner{group="a"} 1.0',
        'assignor_group_longest_without_owner_seconds{group="a"} 3.0',
        'assignor_group_held_seconds{group="a"} 0.0',
        'assignor_group_rebalance_rate_per_hour{group="a"} 4.0',
        'assignor_group_warm_ups{group="a"} 1.0',
    ]
    assert {
        "assignor_tasks_without_owner 3.0",
        "assignor_longest_without_owner_seconds 9.0",
        "assignor_longest_held_seconds 7.0",
        "assignor_rebalance_rate_per_hour 31.0",
        "assignor_warm_ups 3.0",
        "assignor_next_probing_rebalance_seconds 60.0",
        "assignor_unreadable_groups 3.0",
        "assignor_owned_groups 5.0",
        "assignor_members 7.0",
        'assignor_groups{state="Stable"} 2.0',
        'assignor_groups_by_health{health="ok"} 1.0',
        'assignor_groups_by_health{health="broken"} 1.0',
    } <= set(shown)
