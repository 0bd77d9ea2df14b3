"""`kill -9` of a coordinator with levers pulled: who, when and why, countdowns and assignments are the same after it.
Members go on.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import CHANGELOG, HttpMember, new_group, settle
from tests.coordinator_api.held_rebalance import ADA, held_rebalance, last_rebalance
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.working_instance import WorkingInstance

QUICK = ("--group-initial-rebalance-delay-ms", "50")
WHY = {"reason": "a disk is replaced"}


def known(client: httpx.Client, member: HttpMember) -> dict[str, Any]:
    """What the service says of the group, but for what begins again with every start: sessions and what was heard."""
    document = client.get(member.path).json()
    members = [{key: each[key] for key in ("member_id", "process_id", "away_until_ms")} for each in document["members"]]
    for each in document["levers"]["drained"]:
        del each["missing"]  # a task's lag is what its members have reported
    said = ("state", "generation_id", "reason", "levers", "held_rebalance", "probing_rebalance_at_ms")
    return {
        **{key: document[key] for key in said},
        "members": members,
        "tasks": [(each["task"], each["role"], each["member_id"]) for each in document["tasks"]],
        "rebalances": client.get(f"{member.path}/rebalances").json(),
    }


def settled(client: httpx.Client, *end_offsets: int) -> tuple[WorkingInstance, WorkingInstance]:
    """The first instance runs both tasks, and the second one nothing yet."""
    group_id = new_group(client, changelog_end_offsets={CHANGELOG: list(end_offsets)}, partitions=2)
    first, second = WorkingInstance(client, group_id), WorkingInstance(client, group_id)
    assert first.subscribe().status_code == 201
    settle(first)
    return first, second


def kill(service: ServiceProcess, *members: HttpMember) -> httpx.Client:
    """The group of `members` is the same after it."""
    before = known(members[0].client, members[0])
    service.kill()
    service.start()
    client = service.client()
    for member in members:
        member.client = client
    assert known(client, members[0]) == before
    return client


@pytest.mark.long
def test_should_go_on_after_a_kill_with_a_drain_a_promotion_and_a_pause(tmp_path: Path) -> None:
    """The tasks of the first instance, which is drained, are being restored on the second one."""
    with ServiceProcess(tmp_path, *QUICK) as service:
        client = service.client()
        first, second = settled(client, 1_000, 1_000)
        assert client.put(f"{first.path}/promotion", params=WHY, headers=ADA).status_code == 204
        assert second.subscribe().status_code == 201
        drained = {"instance": first.process_id}
        assert client.post(f"{first.path}/drain", params={**drained, **WHY}, headers=ADA).status_code == 204
        work_until(lambda: bool(second.standby), first, second)
        assert client.post(f"{first.path}/pause", params=WHY, headers=ADA).status_code == 204

        client = kill(service, first, second)

        assert first.heartbeat().json()["paused"] is True
        assert client.post(f"{first.path}/resume").status_code == 204
        assert "paused" not in first.heartbeat().json()
        work_until(lambda: client.get(f"{first.path}/drain", params=drained).json()["safe_to_stop"], first, second)
        assert (first.active, second.active) == ((), ("0_0", "0_1"))


@pytest.mark.long
def test_should_keep_the_tasks_of_a_member_that_is_away_over_a_kill(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, *QUICK) as service:
        client = service.client()
        first, second = settled(client, 50, 50)
        assert second.subscribe().status_code == 201
        settle(first, second)
        assert (len(first.active), len(second.active)) == (1, 1)
        grace = client.put(f"{first.path}/rejoin-grace", json={"grace_ms": 600_000}, params=WHY, headers=ADA)
        assert grace.status_code == 204
        assert second.leave().status_code == 204

        kill(service, first, second)

        generation_id, kept = second.generation_id, second.active
        second.member_id, second.generation_id, second.active = None, 0, ()
        joined = second.subscribe().json()
        assert (joined["state"], joined["generation_id"]) == ("Stable", generation_id)
        assert second.fetch().status_code == 200
        assert second.active == kept


def work_until(done: Callable[[], bool], *members: WorkingInstance) -> None:
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until, members[0].client.get(members[0].path).json()
        for member in members:
            member.works()


def test_should_carry_out_after_a_kill_what_was_computed_before_it(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        first, second = held_rebalance(service.client())
        before, recorded = first.client.get(f"{first.path}/hold").json(), last_rebalance(first)

        kill(service, first, second)

        assert first.client.get(f"{first.path}/hold").json() == before
        assert last_rebalance(first) == recorded
        assert first.heartbeat().json()["rejoin"] is False
        assert first.fetch(wait_ms=0).status_code == 204
        assert first.client.post(f"{first.path}/approve", headers=ADA).json() == {"generation_id": 2}
        assert (first.fetch().status_code, second.fetch().status_code) == (200, 200)
        settle(first, second)
        assert (len(first.active), len(second.active)) == (2, 2)
