"""Instances go on processing while a rebalance waits for approval, and lose nothing when it is carried out."""

import httpx
import pytest

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from tests.streams_runtime.running_group import ALL_TASKS, SOME_LINES, Group
from tests.streams_runtime.word_counting import wait_for


@pytest.fixture
def group(group: Group) -> Group:
    group.declare(standbys=0)
    return group


@pytest.mark.long
def test_should_process_while_a_rebalance_waits_for_approval(group: Group, coordinator: CoordinatorProcess) -> None:
    path = f"{coordinator.url}/v1/groups/{group.id}"
    first = group.start("a", num_stream_threads=1)
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert httpx.put(f"{path}/hold", json={"time_limit_ms": 600_000}).status_code == 204

    second = group.start("b", num_stream_threads=1)
    wait_for(lambda: httpx.get(path).json()["held_rebalance"] is not None, lambda: httpx.get(path).json())
    group.write(SOME_LINES)
    group.wait_until_counted()
    tasks = [{task.task_id for thread in each.status().threads for task in thread.tasks} for each in (first, second)]
    still = httpx.get(path).json()["held_rebalance"]

    assert tasks == [ALL_TASKS, set()]
    assert still is not None
    assert httpx.post(f"{path}/approve").status_code == 200
    wait_for(lambda: any(thread.tasks for thread in second.status().threads), second.status)
    group.write(SOME_LINES)
    group.wait_until_counted()
    assert (first.errors, second.errors) == ((), ())
