"""Members in processes of their own, without Spark: they leave on SIGHUP, die, come back; the coordinator is killed."""

import time
from pathlib import Path

import pytest

from spark_jobs.ownership.group_view import GroupView, group_view, listed_rebalances, wait_for_group
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.group_under_test import THREADS, TIMEOUT_S, GroupUnderTest
from tests.acceptance.instance_processes import InstanceProcess, instances
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.small_application import write_records

RECORDS = 20
DEFAULTS: dict[str, int | None] = {"session_timeout_ms": None, "heartbeat_interval_ms": None}
SOON_MS = 7_000
"""Leaves room for a busy machine, and is far below the default session timeout of 45 s: members hear at once."""


@pytest.fixture
def group(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directories: LogDirectories, tmp_path: Path
) -> GroupUnderTest:
    tested = GroupUnderTest(coordinator, client, f"group-{tmp_path.name}", log_directories.take(), tmp_path)
    write_records(tested.records, RECORDS)
    tested.declare()
    return tested


def is_caught_up(view: GroupView) -> bool:
    return all(lag <= 0 for lag in view.lags.values())


def test_should_hand_tasks_to_caught_up_standbys_when_a_process_hears_that_its_executor_died(
    group: GroupUnderTest,
) -> None:
    with instances(group.settings(**DEFAULTS), 3) as processes:
        group.wait_until_counted(RECORDS)
        before = group.wait_until_whole(3 * THREADS, "three instances, caught up", is_caught_up)
        gone = [member for member in before.members if instance_of(member.client_id).endswith("-p1")]
        orphaned = {task for member in gone for task in member.active}
        copies = {
            (task, instance_of(member.client_id))
            for member in before.members
            if member not in gone
            for task in (*member.standby, *member.warm_up)
        }
        hung_up_ms = time.time() * 1000
        processes[1].hang_up()
        assert processes[1].wait() == 0
        group.wait_until_whole(2 * THREADS, "the other two to have taken over")
        # the first ones that had them; later rebalances may even out what everybody is caught up with
        heirs = {task: group.first_owner_since(hung_up_ms, task) for task in orphaned}
        assert {(task, instance_of(thread)) for task, thread in heirs.items()} <= copies
        assert group.longest_gap_ms(hung_up_ms) < SOON_MS, "long before a session would have timed out"
        rebalances = {one.generation_id: one for one in listed_rebalances(group.client, group.id)}
        assert rebalances[before.generation_id + 1].reason == "member-left"
        group.assert_counts_on(RECORDS)
        group.assert_no_task_lost_or_owned_twice()


def test_should_find_its_process_id_and_its_state_again_when_an_instance_comes_back(group: GroupUnderTest) -> None:
    settings = group.settings()
    with instances(settings, 2) as processes:
        group.wait_until_counted(RECORDS)
        before = group.wait_until_whole(2 * THREADS, "two instances, caught up", is_caught_up)
        processes[1].hang_up()
        assert processes[1].wait() == 0
        group.wait_until_whole(THREADS, "one instance with everything")
        processes.append(InstanceProcess(settings, 1, incarnation=1))
        after = group.wait_until_whole(2 * THREADS, "the second instance to be back", is_caught_up)
        assert process_ids(group) == process_ids_of(before)
        assert all(not member.warm_up for member in after.members), "it was caught up from the start"
        assert {instance_of(names[0])[-2:] for names in after.owners().values()} == {"p0", "p1"}
        group.assert_counts_on(RECORDS)
        group.assert_no_task_lost_or_owned_twice()


@pytest.mark.long
def test_should_take_over_when_the_session_of_a_killed_process_has_run_out(group: GroupUnderTest) -> None:
    """Of one that did not ask to leave on disconnect: Kafka's rule."""
    with instances(group.settings(session_timeout_ms=2_000, leave_on_disconnect=False), 2) as processes:
        gap_ms = _gap_after_a_kill(group, processes)
    assert 500 < gap_ms < 10_000


def test_should_take_over_when_the_connection_of_a_killed_process_has_broken(group: GroupUnderTest) -> None:
    with instances(group.settings(**DEFAULTS), 2) as processes:
        gap_ms = _gap_after_a_kill(group, processes)
    assert gap_ms < SOON_MS, "long before its session would have run out"


def _gap_after_a_kill(group: GroupUnderTest, processes: list[InstanceProcess]) -> float:
    """Kill the second of two instances, wait for the first to take over, and give how long a task stood still."""
    group.wait_until_counted(RECORDS)
    group.wait_until_whole(2 * THREADS, "two instances")
    pid, killed_ms = processes[1].pid, time.time() * 1000
    processes[1].kill()
    group.wait_until_whole(THREADS, "one instance with everything")
    group.assert_counts_on(RECORDS)
    deaths = {pid: killed_ms}
    group.assert_no_task_lost_or_owned_twice(deaths)
    assert listed_rebalances(group.client, group.id)[-1].members == THREADS
    return group.longest_gap_ms(killed_ms, deaths)


def test_should_go_on_when_the_coordinator_is_killed_in_the_middle_of_a_rebalance(group: GroupUnderTest) -> None:
    """Two instances have joined when it dies. The third is suspended, so the rebalance cannot be over before."""
    joined = 2 * THREADS
    with instances(group.settings(), 2) as processes:
        processes.append(InstanceProcess(group.settings(session_timeout_ms=60_000), 2))
        group.wait_until_counted(RECORDS)
        before = group.wait_until_whole(3 * THREADS, "three instances, caught up", is_caught_up)
        lines_before = len(group.lines())
        processes[2].suspend()
        group.declare(max_warmup_replicas=3)
        wait_for_group(
            group.client,
            group.id,
            lambda view: sum(member.joined for member in view.members) >= joined,
            f"{joined} members to have joined",
            TIMEOUT_S,
        )
        group.coordinator.kill()
        group.coordinator.start()
        recovered = listed_rebalances(group.client, group.id)
        assert recovered[-1].generation_id == before.generation_id, (
            "the rebalance was not over when the coordinator died"
        )
        processes[2].resume()
        after = group.wait_until_whole(
            3 * THREADS, "the rebalance to be over", lambda view: view.generation_id > before.generation_id
        )
        assert {member.member_id for member in after.members} == {member.member_id for member in before.members}
        rebalances = {one.generation_id: one for one in listed_rebalances(group.client, group.id)}
        assert rebalances[before.generation_id + 1].reason == "definition-changed"
        group.assert_counts_on(RECORDS)
        group.assert_lost_nothing_since(lines_before)
        group.assert_no_task_lost_or_owned_twice()


def instance_of(client_id: str) -> str:
    """`<application>-p<partition>` of `<application>-p<partition>-t<thread>`."""
    return client_id.rsplit("-t", 1)[0]


def process_ids(group: GroupUnderTest) -> set[str]:
    return process_ids_of(group_view(group.client, group.id))


def process_ids_of(view: GroupView) -> set[str]:
    return {member.process_id for member in view.members}
