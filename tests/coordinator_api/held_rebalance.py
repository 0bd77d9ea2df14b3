"""For tests: a group with two members whose rebalance waits for approval."""

import httpx

from tests.coordinator_api.group_members import HttpMember, new_group, settle

ALL = ("0_0", "0_1", "0_2", "0_3")
ADA = {"User-Agent": "ada/1"}
HOUR_MS = 3_600_000


def held_rebalance(client: httpx.Client) -> tuple[HttpMember, HttpMember]:
    """The first member runs all four tasks. The second one has their state on its disk, and is to get two of them."""
    group_id = new_group(client)
    first, second = HttpMember(client, group_id), HttpMember(client, group_id)
    first.subscribe()
    settle(first)
    held = client.put(f"{first.path}/hold", json={"time_limit_ms": HOUR_MS}, params={"reason": "a sale"}, headers=ADA)
    assert held.status_code == 204, held.text
    assert second.subscribe(dict.fromkeys(ALL, 1_000)).status_code == 201
    first.heartbeat()
    first.subscribe()
    wait_until_held(first)
    return first, second


def wait_until_held(member: HttpMember) -> None:
    for _ in range(1_000):
        if member.client.get(member.path).json()["held_rebalance"] is not None:
            return
        assert member.fetch(wait_ms=50).status_code == 204
    raise AssertionError("the rebalance was not held")


def last_rebalance(member: HttpMember) -> dict[str, object]:
    """The newest one in the group's history."""
    found: dict[str, object] = member.client.get(f"{member.path}/rebalances").json()["rebalances"][0]
    return found
