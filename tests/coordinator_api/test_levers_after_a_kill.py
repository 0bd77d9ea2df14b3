"""`kill -9` of a coordinator with a lever pulled: who, when and why, countdowns and assignments are the same after it,
and members go on. A rebalance that waits has tests of its own (`test_held_rebalances`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.held_rebalance import ADA, held_rebalance
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.working_instance import WorkingInstance

QUICK = ("--group-initial-rebalance-delay-ms", "50")
WHY = {"reason": "a disk is replaced"}


class Pulled(NamedTuple):
    """`members`: of the group with the lever. `goes_on`: asserts, after the kill, that they do what it means."""

    members: tuple[HttpMember, ...]
    goes_on: Callable[[], None]


def settled(client: httpx.Client, *end_offsets: int) -> tuple[WorkingInstance, WorkingInstance]:
    """The first instance runs both tasks, and the second one nothing yet."""
    ends = {"app-counts-changelog": list(end_offsets)}
    group_id = new_group(client, partitions=len(end_offsets), changelog_end_offsets=ends)
    first, second = WorkingInstance(client, group_id), WorkingInstance(client, group_id)
    assert first.subscribe().status_code == 201
    settle(first)
    return first, second


def work_until(members: tuple[WorkingInstance, ...], done: Callable[[], bool], within_s: float = 30) -> None:
    until = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < until, members[0].client.get(members[0].path).json()
        for member in members:
            member.works()


def drained(client: httpx.Client, alone: bool) -> Pulled:
    """Its tasks are being restored elsewhere."""
    first, second = settled(client, 1_000, 1_000)
    assert second.subscribe().status_code == 201
    where = {"member": str(first.member_id)} if alone else {"instance": first.process_id}
    assert client.post(f"{first.path}/drain", params={**where, **WHY}, headers=ADA).status_code == 204
    both = (first, second)
    work_until(both, lambda: bool(second.standby))

    def goes_on() -> None:
        def is_safe() -> bool:
            return bool(first.client.get(f"{first.path}/drain", params=where).json()["safe_to_stop"])

        assert not is_safe()
        work_until(both, is_safe)
        assert (first.active, second.active) == ((), ("0_0", "0_1"))

    return Pulled(both, goes_on)


def drained_instance(client: httpx.Client) -> Pulled:
    return drained(client, alone=False)


def drained_member(client: httpx.Client) -> Pulled:
    return drained(client, alone=True)


def paused(client: httpx.Client) -> Pulled:
    first, _ = settled(client, 1_000, 1_000)
    assert client.post(f"{first.path}/pause", params=WHY, headers=ADA).status_code == 204

    def goes_on() -> None:
        assert first.heartbeat().json()["paused"] is True
        assert first.client.post(f"{first.path}/resume").status_code == 204
        assert "paused" not in first.heartbeat().json()

    return Pulled((first,), goes_on)


def away(client: httpx.Client) -> Pulled:
    first, second = settled(client, 50, 50)
    assert second.subscribe().status_code == 201
    settle(first, second)
    assert (len(first.active), len(second.active)) == (1, 1)
    asked = client.put(f"{first.path}/rejoin-grace", json={"grace_ms": 600_000}, params=WHY, headers=ADA)
    assert asked.status_code == 204
    assert second.leave().status_code == 204

    def goes_on() -> None:
        generation_id, kept = second.generation_id, second.active
        second.member_id, second.generation_id, second.active = None, 0, ()
        joined = second.subscribe().json()
        assert (joined["state"], joined["generation_id"]) == ("Stable", generation_id)
        assert second.fetch().status_code == 200
        assert second.active == kept

    return Pulled((first, second), goes_on)


def promoted(client: httpx.Client) -> Pulled:
    """A warm-up is being restored. The probing deadline is a minute away."""
    first, second = settled(client, 1_000, 1_000)
    assert client.put(f"{first.path}/promotion", params=WHY, headers=ADA).status_code == 204
    assert second.subscribe().status_code == 201
    both = (first, second)
    work_until(both, lambda: bool(second.standby))

    def goes_on() -> None:
        work_until(both, lambda: bool(second.active))
        reasons = [each["reason"] for each in first.client.get(f"{first.path}/rebalances").json()["rebalances"]]
        assert "the warm-ups have caught up" in reasons

    return Pulled(both, goes_on)


def approved(client: httpx.Client) -> Pulled:
    """The follow-up, in which the second member gets what the first one has given up, is to come."""
    first, second = held_rebalance(client)
    assert client.post(f"{first.path}/approve", params=WHY, headers=ADA).json() == {"generation_id": 2}

    def goes_on() -> None:
        assert first.fetch().status_code == 200
        assert second.fetch().status_code == 200
        settle(first, second)
        assert first.client.get(f"{first.path}/hold").json()["held"] is None
        assert (len(first.active), len(second.active)) == (2, 2)

    return Pulled((first, second), goes_on)


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
@pytest.mark.parametrize("pull", [drained_instance, drained_member, paused, away, promoted, approved])
def test_should_go_on_after_a_kill_with_every_lever_as_it_was(
    pull: Callable[[httpx.Client], Pulled], tmp_path: Path
) -> None:
    with ServiceProcess(tmp_path, *QUICK) as service:
        pulled = pull(service.client())
        before = known(service.client(), pulled.members[0])

        service.kill()
        service.start()
        client = service.client()
        for member in pulled.members:
            member.client = client

        assert known(client, pulled.members[0]) == before
        pulled.goes_on()
