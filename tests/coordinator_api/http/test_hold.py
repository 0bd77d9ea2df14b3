"""Hold and approve over HTTP: what waits, what it would change, who may say so, and what the history says."""

from __future__ import annotations

from typing import Any

import httpx

from tests.coordinator_api.group_members import new_group, problem, settle
from tests.coordinator_api.held_rebalance import ADA, HOUR_MS, held_rebalance, last_rebalance

ADA_SAYS = "ada/1 at 127.0.0.1"


def _times(said: Any, *names: str) -> list[int]:
    return [said.pop(name) for name in names]


def test_should_hold_a_rebalance_that_takes_tasks_from_a_living_owner(client: httpx.Client) -> None:
    first, second = held_rebalance(client)

    described = client.get(first.path).json()
    held = described["held_rebalance"]

    since_ms, until_ms = _times(held, "since_ms", "until_ms")
    assert until_ms - since_ms == HOUR_MS
    assert held == {"generation_id": 2, "outcome": "follow-up", "tasks_to_move": held["tasks_to_move"]}
    assert len(held["tasks_to_move"]) == 2
    assert described["state"] == "CompletingRebalance"
    assert described["advice"] == (
        f"Look at the rebalance of generation 2 with `assignor groups held {described['group_id']}`, then approve or "
        "discard it. Members keep the tasks they have meanwhile."
    )
    assert described["levers"]["hold"].pop("at_ms") > 0
    assert described["levers"]["hold"] == {"time_limit_ms": HOUR_MS, "by": ADA_SAYS, "reason": "a sale"}
    assert first.heartbeat().json() == {
        "state": "CompletingRebalance",
        "rejoin": False,
        "stop": False,
        "generation_id": 2,
    }
    assert [one.fetch(wait_ms=0).status_code for one in (first, second)] == [204, 204]


def test_should_tell_what_a_held_rebalance_would_change(client: httpx.Client) -> None:
    first, second = held_rebalance(client)

    answer = client.get(f"{first.path}/hold").json()

    held = answer["held"]
    actives = [(each["task"], each["active"]) for each in held["difference"]["tasks"]]
    moved = [(task, active) for task, active in actives if active["from"] != active["to"]]
    there_and_back = {"from": first.process_id, "to": second.process_id}
    assert moved == [(task, there_and_back) for task in held["tasks_to_move"]]
    assert held["difference"]["active_elsewhere"] == 2
    assert held["forecast"]["end"] == "stable"
    assert held["forecast"]["active_moves"] == 2
    assert answer["hold"]["time_limit_ms"] == HOUR_MS


def test_should_carry_out_what_is_approved_and_say_so_in_the_history(client: httpx.Client) -> None:
    first, second = held_rebalance(client)
    waiting = last_rebalance(first)

    approved = client.post(f"{first.path}/approve", params={"generation": 2, "reason": "looks good"}, headers=ADA)
    stored = last_rebalance(first)

    assert (approved.status_code, approved.json()) == (200, {"generation_id": 2})
    assert waiting["outcome"] == "held"
    hold: Any = waiting["hold"]
    assert hold.pop("since_ms") > 0
    assert hold == {"ended": None, "by": None, "at_ms": None, "reason": None}
    assert stored["outcome"] == "follow-up"
    hold = stored["hold"]
    since_ms, at_ms = _times(hold, "since_ms", "at_ms")
    assert since_ms <= at_ms
    assert hold == {"ended": "approved", "by": ADA_SAYS, "reason": "looks good"}
    assert (first.fetch().status_code, second.fetch().status_code) == (200, 200)
    assert first.followup, "what it gives up is handed out next"
    settle(first, second)
    assert (len(first.active), len(second.active)) == (2, 2)
    assert client.get(f"{first.path}/hold").json()["held"] is None


def test_should_refuse_when_nothing_waits_and_when_no_reason_is_given(client: httpx.Client) -> None:
    path = f"/v1/groups/{new_group(client)}"

    assert problem(client.post(f"{path}/approve")) == (409, "ILLEGAL_GENERATION")
    assert problem(client.post(f"{path}/discard", params={"reason": "no"})) == (409, "ILLEGAL_GENERATION")
    assert problem(client.post("/v1/groups/nobodys/discard")) == (404, "GROUP_ID_NOT_FOUND")
    unexplained = client.post(f"{path}/discard")
    assert problem(unexplained) == (422, "INVALID_REQUEST")
    assert unexplained.json()["detail"] == (
        "query.reason: say why the rebalance is discarded, for those who find it in the history"
    )
