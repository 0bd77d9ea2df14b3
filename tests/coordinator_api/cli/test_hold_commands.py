"""`assignor groups hold`, `held`, `approve` and `discard`, against a running coordinator."""

from __future__ import annotations

import re

import httpx

from tests.coordinator_api.cli.test_commands import assignor, group_of
from tests.coordinator_api.group_members import HttpMember, new_group
from tests.coordinator_api.held_rebalance import held_rebalance, last_rebalance
from tests.coordinator_api.service_process import ServiceProcess


def where_of(member: HttpMember, service: ServiceProcess) -> tuple[str, ...]:
    return group_of(member), "--coordinator", service.url


def test_should_show_what_waits_and_approve_it(service: ServiceProcess, client: httpx.Client) -> None:
    first, _ = held_rebalance(client)
    where = where_of(first, service)

    _, described, _ = assignor("groups", "describe", *where)
    _, shown, _ = assignor("groups", "held", *where)
    approved = assignor("groups", "approve", *where, "--generation", "2", "--reason", "agreed")
    refused = assignor("groups", "approve", *where)

    moves = r"2 tasks would move: 0_\d, 0_\d"
    waits = rf"a rebalance \(generation 2\) waits for approval for (?:1 h|\d+ min(?: \d+ s)?) more: {moves}"
    assert re.search(f"held: {waits}; it waits since [0-9]+s ago", " ".join(described.split()))
    assert re.search(waits, shown)
    assert re.search(rf"^0_\d +{first.process_id[:8]} -> [0-9a-f]{{8}}", shown, re.MULTILINE)
    assert "If approved now: The group is stable after" in " ".join(shown.split())
    assert approved == (0, f"{where[0]}: the rebalance of generation 2 is carried out\n", "")
    assert refused[:2] == (1, "")
    assert refused[2].startswith("error: ILLEGAL_GENERATION: no rebalance waits for approval; ")


def test_should_discard_what_waits_with_a_reason_only(service: ServiceProcess, client: httpx.Client) -> None:
    first, _ = held_rebalance(client)
    where = where_of(first, service)

    unexplained = assignor("groups", "discard", *where)
    discarded = assignor("groups", "discard", *where, "--reason", "not now", "--format", "json")

    assert unexplained == (2, "", "error: --reason: say why, for those who find it in the history\n")
    assert discarded == (0, f'{{"group_id":"{where[0]}","discarded":2}}\n', "")
    hold = last_rebalance(first)["hold"]
    assert isinstance(hold, dict)
    assert (hold["ended"], hold["reason"]) == ("discarded", "not now")


def test_should_say_that_nothing_waits_and_what_is_no_time_limit(service: ServiceProcess, client: httpx.Client) -> None:
    where = (new_group(client), "--coordinator", service.url)

    nothing = assignor("groups", "held", *where)
    wrong = assignor("groups", "hold", *where, "--time-limit", "soon")

    assert nothing == (0, f"{where[0]}: rebalances do not wait for approval\n", "")
    assert wrong == (2, "", "error: --time-limit: must be a duration such as 60s, 10m or 1h30m, not 'soon'\n")
