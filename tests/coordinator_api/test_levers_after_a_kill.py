"""`kill -9` of a coordinator with levers pulled: who, when and why, countdowns and assignments are the same after it.
Members go on. A rebalance that waits has a test of its own (`test_held_rebalances`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.coordinator_api.group_members import CHANGELOG, HttpMember, new_group, settle
from tests.coordinator_api.held_rebalance import ADA
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


@pytest.mark.long
def test_should_go_on_after_a_kill_with_every_lever_as_it_was(tmp_path: Path) -> None:
    """The first instance is drained: its tasks are being restored on the second one. The third one is away."""
    with ServiceProcess(tmp_path, *QUICK) as service:
        client = service.client()
        group_id = new_group(client, changelog_end_offsets={CHANGELOG: [50, 50, 1_000, 1_000]})
        first, second, third = (WorkingInstance(client, group_id) for _ in range(3))
        assert first.subscribe().status_code == 201
        settle(first)
        assert third.subscribe().status_code == 201
        settle(first, third)
        assert len(third.active) == 1
        grace = client.put(f"{first.path}/rejoin-grace", json={"grace_ms": 600_000}, params=WHY, headers=ADA)
        assert grace.status_code == 204
        assert third.leave().status_code == 204
        assert client.put(f"{first.path}/promotion", params=WHY, headers=ADA).status_code == 204
        assert second.subscribe().status_code == 201
        drained = {"instance": first.process_id}
        assert client.post(f"{first.path}/drain", params={**drained, **WHY}, headers=ADA).status_code == 204
        work_until(lambda: bool(second.standby), first, second)
        assert client.post(f"{first.path}/pause", params=WHY, headers=ADA).status_code == 204
        before = known(client, first)
        assert all(before["levers"][name] for name in ("rejoin_grace", "promotion", "pause", "drained"))

        service.kill()
        service.start()
        first.client = second.client = third.client = client = service.client()

        assert known(client, first) == before
        assert first.heartbeat().json()["paused"] is True
        assert client.post(f"{first.path}/resume").status_code == 204
        assert "paused" not in first.heartbeat().json()
        work_until(lambda: client.get(f"{first.path}/drain", params=drained).json()["safe_to_stop"], first, second)
        assert first.active == ()
        kept, third.member_id, third.generation_id, third.active = third.active, None, 0, ()
        assert third.subscribe().status_code == 201
        work_until(lambda: set(kept) <= set(third.active), first, second, third)


def work_until(done: Callable[[], bool], *members: WorkingInstance) -> None:
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until, members[0].client.get(members[0].path).json()
        for member in members:
            member.works()
