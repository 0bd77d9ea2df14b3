"""Real members over HTTP: an instance is drained, and can be stopped within seconds though the next probing rebalance
is a minute away.
"""

import httpx

from tests.coordinator_api.group_members import CHANGELOG, HttpMember, new_group, settle
from tests.coordinator_api.held_rebalance import wait_until_held
from tests.coordinator_api.web.visitors import FROM_HERE, form_token, soup
from tests.coordinator_api.working_instance import WorkingInstance
from tests.known import known
from tests.waiting import wait_until

SHORT = {CHANGELOG: [50, 50]}
"""State that is so short that whoever gets it has caught up at once."""


def work_until_safe(members: list[WorkingInstance], drained: WorkingInstance) -> None:
    """Asserts in every step that nothing is owned twice."""
    at, where = f"{drained.path}/drain", {"instance": drained.process_id}

    def is_safe() -> bool:
        for member in members:
            member.works()
        owned = [task for member in members for task in member.active]
        assert len(owned) == len(set(owned)), owned
        return bool(drained.client.get(at, params=where).json()["safe_to_stop"])

    wait_until(is_safe, lambda: drained.client.get(at, params=where).json())


def test_should_promote_warm_ups_before_the_probing_deadline_when_it_is_switched_on(client: httpx.Client) -> None:
    group_id = new_group(client)
    first, second = WorkingInstance(client, group_id), WorkingInstance(client, group_id)
    assert first.subscribe().status_code == 201
    settle(first)
    assert client.put(f"{first.path}/promotion").status_code == 204
    assert second.subscribe().status_code == 201

    def has_two_tasks() -> bool:
        first.works()
        second.works()
        return len(second.active) == 2

    wait_until(has_two_tasks, lambda: client.get(first.path).json())
    assert len(first.active) + len(second.active) == 4
    reasons = [each["reason"] for each in client.get(f"{first.path}/rebalances").json()["rebalances"]]
    assert "the warm-ups have caught up" in reasons


def test_should_say_what_a_drain_waits_for_while_its_rebalance_is_held_and_once_discarded(client: httpx.Client) -> None:
    group_id = new_group(client, partitions=2, changelog_end_offsets=SHORT)
    first, second = WorkingInstance(client, group_id), WorkingInstance(client, group_id)
    assert first.subscribe().status_code == 201
    assert second.subscribe().status_code == 201
    settle(first, second)
    at, where = f"{first.path}/drain", {"instance": first.process_id}
    assert client.put(f"{first.path}/hold", json={"time_limit_ms": 3_600_000}).status_code == 204
    assert client.post(at, params=where).status_code == 204
    for member in (first, second):
        member.works()
    wait_until_held(first)
    held = client.get(at, params=where).json()
    assert client.post(f"{first.path}/discard", params={"reason": "not now"}).status_code == 200
    settle(first, second)

    kept = client.get(at, params=where).json()
    assert client.post(at, params={"instance": second.process_id}).status_code == 204
    for member in (first, second):
        member.works()
    settle(first, second)
    alone = client.get(at, params=where).json()

    (task,) = first.active
    assert held["missing"][-1] == {"task": None, "role": None, "why": "a rebalance waits for approval"}
    here = {"task": task, "role": "active"}
    due = "the last rebalance kept it here, and no other one is due: start one (`assignor groups rebalance`)"
    assert (kept["safe_to_stop"], kept["missing"]) == (False, [{**here, "why": due}])
    every = "every instance is drained, so nobody can have it: start another instance, or end a drain"
    assert (alone["safe_to_stop"], alone["missing"]) == (False, [{**here, "why": every}])


def test_should_be_able_to_stop_a_drained_instance_while_another_one_is_away(client: httpx.Client) -> None:
    """Who is away keeps its tasks, gets none of the drained one's, and nobody waits until it has fetched anything."""
    group_id = new_group(client, partitions=6, changelog_end_offsets={CHANGELOG: [50] * 6})
    first, second, third = (WorkingInstance(client, group_id) for _ in range(3))
    for member in (first, second, third):
        assert member.subscribe().status_code == 201
    settle(first, second, third)
    had = sorted(third.active)
    assert client.put(f"{first.path}/rejoin-grace", json={"grace_ms": 3_600_000}).status_code == 204
    assert third.leave().status_code == 204
    assert client.post(f"{first.path}/drain", params={"instance": first.process_id}).status_code == 204

    work_until_safe([first, second], first)

    held = {each["member_id"]: each["active"] for each in client.get(first.path).json()["members"]}
    assert (held[first.member_id], sorted(held[third.member_id])) == ([], had)
    assert len(held[second.member_id]) == 4
    assert client.post(f"{first.path}/drain", params={"instance": second.process_id}).status_code == 204
    for member in (first, second):
        member.works()
    settle(first, second)
    told = client.get(f"{first.path}/drain", params={"instance": second.process_id}).json()
    assert {each["why"] for each in told["missing"]} == {
        "every instance is drained or away, so nobody can have it: start another instance, or end a drain"
    }


def test_should_show_what_a_promotion_would_move_before_it_is_switched_on(client: httpx.Client) -> None:
    group_id = new_group(client)
    first, second = HttpMember(client, group_id), HttpMember(client, group_id)
    assert first.subscribe().status_code == 201
    settle(first)
    assert second.subscribe().status_code == 201
    settle(first, second)
    first.heartbeat(task_offset_sums=dict.fromkeys(first.active, -2))
    second.heartbeat(task_offset_sums=dict.fromkeys(second.standby, 0))
    page = f"/ui{first.path.removeprefix('/v1')}/levers"
    form = {"lever": "promote", "form_token": form_token(client.get(page))}

    asked = client.post(page, data=form, headers=FROM_HERE)

    assert asked.status_code == 200
    assert known(soup(asked).select_one("h1")).text == "Promote when caught up?"
    moved = [cells.text for cells in soup(asked).select("#would-move tbody th")]
    assert moved == sorted(second.standby)
    assert moved, asked.text
    assert client.get(first.path).json()["levers"]["promotion"] is None, "nothing is done before the confirmation"
    confirmed = client.post(page, data={**form, "confirmed": "yes"}, headers=FROM_HERE)
    assert confirmed.status_code == 303
    assert client.get(first.path).json()["levers"]["promotion"] is not None
