"""Members in processes of their own, without Spark: they leave on SIGHUP, die, come back; the coordinator is killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from spark_jobs.coordinator_process import CoordinatorProcess
from spark_jobs.demo_group import demo_definition
from spark_jobs.group_view import GroupView, group_view, round_summaries, wait_for_group
from streams_runtime.coordinator_client import CoordinatorClient
from tests.acceptance.group_under_test import TIMEOUT_S, GroupUnderTest
from tests.acceptance.instance_processes import InstanceProcess, instances

TASKS = 24
THREADS = 2
RECORDS = 20_000
FAST = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 200, "threads": THREADS, "restore_rate": 20_000.0}


@pytest.fixture
def group(coordinator: CoordinatorProcess, client: CoordinatorClient, tmp_path: Path) -> GroupUnderTest:
    definition = demo_definition(RECORDS, group_id=f"group-{tmp_path.name}")
    client.declare(definition.group_id, definition.body())
    return GroupUnderTest(coordinator, client, definition, tmp_path, TASKS)


def is_caught_up(view: GroupView) -> bool:
    return all(lag <= 0 for lag in view.lags.values())


def test_should_hand_tasks_to_caught_up_standbys_when_a_process_hears_that_its_executor_died(
    group: GroupUnderTest,
) -> None:
    with instances(group.settings(**FAST), 3) as processes:
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
        after = group.wait_until_whole(2 * THREADS, "the other two to have taken over")
        new_owners = {(task, instance_of(names[0])) for task, names in after.owners().items() if task in orphaned}
        assert new_owners <= copies, "who had a copy that was caught up, has the task"
        assert group.longest_gap_ms(hung_up_ms) < 5_000, "long before a session would have timed out"
        rounds = {one.generation_id: one for one in round_summaries(group.client, group.definition.group_id)}
        assert rounds[before.generation_id + 1].reason == "member-left"
        group.assert_no_task_lost_or_owned_twice()


def test_should_find_its_process_id_and_its_state_again_when_an_instance_comes_back(group: GroupUnderTest) -> None:
    settings = group.settings(**FAST)
    with instances(settings, 2) as processes:
        before = group.wait_until_whole(2 * THREADS, "two instances, caught up", is_caught_up)
        processes[1].hang_up()
        assert processes[1].wait() == 0
        group.wait_until_whole(THREADS, "one instance with everything")
        processes.append(InstanceProcess(settings, 1, incarnation=1))
        after = group.wait_until_whole(2 * THREADS, "the second instance to be back", is_caught_up)
        assert process_ids(group) == process_ids_of(before)
        assert all(not member.warm_up for member in after.members), "it was caught up from the start"
        assert {instance_of(names[0])[-2:] for names in after.owners().values()} == {"p0", "p1"}
        group.assert_no_task_lost_or_owned_twice()


def test_should_take_over_when_the_session_of_a_killed_process_has_run_out(group: GroupUnderTest) -> None:
    with instances(group.settings(**FAST | {"session_timeout_ms": 2_000}), 2) as processes:
        group.wait_until_whole(2 * THREADS, "two instances")
        pid, killed_ms = processes[1].pid, time.time() * 1000
        processes[1].kill()
        group.wait_until_whole(THREADS, "the session to run out")
        deaths = {pid: killed_ms}
        group.assert_no_task_lost_or_owned_twice(deaths)
        assert 500 < group.longest_gap_ms(killed_ms, deaths) < 10_000
        assert round_summaries(group.client, group.definition.group_id)[-1].members == THREADS


@pytest.mark.parametrize("joined", [0, 2 * THREADS])
def test_should_go_on_when_the_coordinator_is_killed_in_the_middle_of_a_round(
    group: GroupUnderTest, joined: int
) -> None:
    """`joined`: how many members have sent their subscription for the round when the coordinator dies.

    The third instance has just been heard from, and is heard from seldom, so the round cannot be over before.
    """
    with instances(group.settings(**FAST), 2) as processes:
        late = group.settings(**FAST | {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 5_000})
        processes.append(InstanceProcess(late, 2))
        late_name = f"{group.definition.application_id}-p2-"

        def just_heard_from(view: GroupView) -> bool:
            heard_ms = [member.last_heard_ms for member in view.members if member.client_id.startswith(late_name)]
            return is_caught_up(view) and min(heard_ms) > time.time() * 1000 - 1_500

        before = group.wait_until_whole(3 * THREADS, "three instances, caught up", just_heard_from)
        lines_before = len(group.lines())
        group.declare_again(RECORDS + 1)
        wait_for_group(
            group.client,
            group.definition.group_id,
            lambda view: sum(member.joined for member in view.members) >= joined,
            f"{joined} members to have joined",
            TIMEOUT_S,
        )
        group.coordinator.kill()
        group.coordinator.start()
        recovered = round_summaries(group.client, group.definition.group_id)
        assert recovered[-1].generation_id == before.generation_id, "the round was not over when the coordinator died"
        after = group.wait_until_whole(
            3 * THREADS, "the round to be over", lambda view: view.generation_id > before.generation_id
        )
        assert {member.member_id for member in after.members} == {member.member_id for member in before.members}
        rounds = {one.generation_id: one for one in round_summaries(group.client, group.definition.group_id)}
        assert rounds[before.generation_id + 1].reason == "definition-changed"
        group.assert_lost_nothing_since(lines_before)
        group.assert_no_task_lost_or_owned_twice()


def instance_of(client_id: str) -> str:
    """`<application>-p<partition>` of `<application>-p<partition>-t<thread>`."""
    return client_id.rsplit("-t", 1)[0]


def process_ids(group: GroupUnderTest) -> set[str]:
    return process_ids_of(group_view(group.client, group.definition.group_id))


def process_ids_of(view: GroupView) -> set[str]:
    return {member.process_id for member in view.members}
