"""Every rebalance is recorded as rebalance/1, and the stored line run again gives the same result."""

from pathlib import Path

import httpx

from assignor.recording import parse_recorded_rebalance
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, settle, settled_member
from tests.program import assignor


def group_with_history(client: httpx.Client) -> tuple[str, HttpMember, HttpMember]:
    """A first rebalance, one with a second member, the follow-up that hands its tasks over."""
    group_id = new_group(client, partitions=4, configs={"num.standby.replicas": 1, "acceptable.recovery.lag": 10_000})
    first, second = HttpMember(client, group_id), HttpMember(client, group_id, group_instance_id="second")
    first.subscribe()
    settle(first)
    second.subscribe(offset_sums=dict.fromkeys(("0_0", "0_1", "0_2", "0_3"), 1_000))
    first.subscribe()
    settle(first, second)
    return group_id, first, second


def test_should_give_the_same_result_when_a_stored_rebalance_is_run_again(client: httpx.Client, tmp_path: Path) -> None:
    group_id, first, _ = group_with_history(client)
    generations = range(1, first.generation_id + 1)
    stored = [client.get(f"/v1/groups/{group_id}/rebalances/{generation}") for generation in generations]
    lines = tmp_path / "recorded.jsonl"
    lines.write_bytes(b"".join(response.content + b"\n" for response in stored))

    checked = assignor("assign", "--check", str(lines))

    assert len(stored) >= 3
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(stored)} of {len(stored)}" in checked.stdout
    for response in stored:
        again = client.post("/v1/assign", content=response.content)
        assert again.json() == {"id": response.json()["id"], "output": response.json()["output"]}


def test_should_record_what_the_members_were_sent(client: httpx.Client) -> None:
    group_id, first, second = group_with_history(client)

    document = client.get(f"/v1/groups/{group_id}/rebalances/{first.generation_id}").json()

    recorded = parse_recorded_rebalance(document)
    assert (recorded.source, recorded.group_id, recorded.id) == (
        "coordinator",
        group_id,
        f"{group_id}-{first.generation_id}",
    )
    assert list(recorded.snapshot.members) == [first.member_id, second.member_id]
    assert document["input"]["members"][second.member_id]["group_instance_id"] == "second"
    assert document["output"]["assignments"] == {
        member.member_id: member.fetch().json()["assignment"] for member in (first, second)
    }


def test_should_list_rebalances_newest_first_in_pages(client: httpx.Client) -> None:
    group_id, first, _ = group_with_history(client)
    path = f"/v1/groups/{group_id}/rebalances"

    whole = client.get(path).json()
    newest = client.get(path, params={"limit": 1}).json()
    rest = client.get(path, params={"before": newest["next_before"]}).json()

    generations = [entry["generation_id"] for entry in whole["rebalances"]]
    assert generations == list(range(first.generation_id, 0, -1))
    assert whole["next_before"] is None
    assert newest["rebalances"] + rest["rebalances"] == whole["rebalances"]
    oldest = whole["rebalances"][-1]
    assert oldest.pop("took_ms") >= 0
    assert {**oldest, "now_ms": 0} == {
        "generation_id": 1,
        "now_ms": 0,
        "reason": "member-joined",
        "outcome": "stable",
        "members": 1,
        "definition_revision": 1,
        "probing_rebalance_at_ms": None,
        "followup_rebalance": False,
        "error": None,
    }
    assert "follow-up" in [entry["outcome"] for entry in whole["rebalances"]]


def test_should_explain_every_task_of_a_rebalance_or_one(client: httpx.Client) -> None:
    group_id, first, second = group_with_history(client)
    path = f"/v1/groups/{group_id}/rebalances/{first.generation_id}/explain"

    everything = client.get(path).json()
    one = client.get(path, params={"task": "0_2"}).json()

    assert everything["same_result"] is True
    assert [entry["task"] for entry in everything["explanations"]] == ["0_0", "0_1", "0_2", "0_3"]
    assert one["explanations"] == [everything["explanations"][2]]
    owner = first if "0_2" in first.active else second
    active = [copy for copy in one["explanations"][0]["copies"] if copy["role"] == "active"]
    assert [(copy["process"], copy["consumer"]) for copy in active] == [(owner.process_id, owner.member_id)]
    assert one["explanations"][0]["text"].startswith("0_2 ")


def test_should_refuse_rebalances_that_are_not_there(client: httpx.Client) -> None:
    path = f"{settled_member(client).path}/rebalances"

    for missing in ("/99", "/0", "/99/explain", "/1/explain?task=0_99"):
        assert problem(client.get(path + missing)) == (404, "RESOURCE_NOT_FOUND"), missing
    numbers = ("/one", "/-1", "/1.0", "?limit=5.0", "?limit=0", "?limit=1001", "?before=5.0", "?before=x")
    for wrong in (*numbers, "/1/explain?task=zero"):
        assert problem(client.get(path + wrong)) == (422, "INVALID_REQUEST"), wrong


def test_should_record_a_rebalance_that_ended_with_an_error_assignment(client: httpx.Client) -> None:
    group_id = new_group(client, cluster={"brokers": [], "topics": {}})
    member = HttpMember(client, group_id)
    member.subscribe()

    assert member.fetch().status_code == 200

    described = client.get(f"/v1/groups/{group_id}").json()
    assert (described["state"], described["error"]) == ("Stable", "INCOMPLETE_SOURCE_TOPIC_METADATA")
    assert client.get(f"/v1/groups/{group_id}/rebalances").json()["rebalances"][0]["outcome"] == "error"
    assert client.get(f"/v1/groups/{group_id}/rebalances/1/explain").json()["explanations"] == []
    assert client.put(f"/v1/groups/{group_id}", json=definition()).status_code == 200
    assert member.heartbeat().json()["rejoin"] is True
    member.subscribe()
    settle(member)
    assert member.active == ("0_0", "0_1", "0_2", "0_3")
