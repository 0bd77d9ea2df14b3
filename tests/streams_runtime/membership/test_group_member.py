"""Members against a real coordinator process: uvicorn, SQLite, HTTP."""

import threading
from typing import Any

import pytest

from assignor.types import TaskId
from spark_jobs.ownership.group_view import group_view, wait_for_group
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_events import MemberEnd
from tests.streams_runtime.membership.losing_proxy import losing_proxy
from tests.streams_runtime.running_member import TIMEOUT_S, RunningMember, owned_twice, wait_until_owned_once
from tests.streams_runtime.small_group import small_definition, task_names

LONG_ENOUGH_TO_LEAVE_S = 0.3


def test_should_give_tasks_up_before_another_member_gets_them_when_one_joins(client: CoordinatorClient) -> None:
    definition = small_definition("handover")
    client.declare("handover", definition.body())
    with RunningMember(client, definition, "a") as first:
        wait_until_owned_once([first], task_names(4))
        with RunningMember(client, definition, "b") as second:
            wait_until_owned_once([first, second], task_names(4))
            assert len(first.holder.active) == len(second.holder.active) == 2
            assert first.holder.standby == second.holder.active
            assert owned_twice([first, second]) == []
            revoked = next(call for call in first.holder.calls if call.name == "revoke")
            taken = next(call for call in second.holder.calls if call.active)
            assert revoked.at_s < taken.at_s
            assert taken.active.isdisjoint(revoked.active)
            kept = first.holder.active
        wait_until_owned_once([first], task_names(4))
        assert second.end is MemberEnd.LEFT
        assert owned_twice([first, second]) == []
        # what it kept, it had all the time
        assert all(kept <= call.active for call in first.holder.calls)


def test_should_be_evicted_after_its_session(coordinator: CoordinatorProcess, client: CoordinatorClient) -> None:
    """Its connection does not break, so only its session ends. It learns of the eviction when the network is back."""
    definition = small_definition("silent")
    client.declare("silent", definition.body())
    with losing_proxy(coordinator.url) as proxy, CoordinatorClient(proxy.url) as through_proxy:
        silent = RunningMember(through_proxy, definition, "a", session_timeout_ms=1_000)
        with silent, RunningMember(client, definition, "b", session_timeout_ms=1_000) as other:
            wait_until_owned_once([silent, other], task_names(4))
            proxy.carries.clear()
            other.holder.wait_for(lambda: other.holder.active == task_names(4), "the other to own all tasks")
            assert "lost" not in silent.holder.names()
            proxy.carries.set()
            silent.holder.wait_for(lambda: "lost" in silent.holder.names(), "the silent member to hear of its eviction")
            assert "lost" not in other.holder.names()


def test_should_report_how_far_it_is_when_it_heartbeats(client: CoordinatorClient) -> None:
    definition = small_definition("lagging", end_offset=700, standbys=1)
    client.declare("lagging", definition.body())
    with RunningMember(client, definition, "a") as first, RunningMember(client, definition, "b") as second:
        wait_until_owned_once([first, second], task_names(4))

        def standbys_known() -> dict[str, int]:
            lags = group_view(client, "lagging").lags
            return {task: lag for (task, _), lag in lags.items() if lag >= 0}

        wait_for_group(
            client,
            "lagging",
            lambda seen: standbys_known() == {str(TaskId(0, number)): 700 for number in range(4)},
            "the standbys' lags",
            TIMEOUT_S,
        )


def test_should_go_through_a_round_with_all_it_has_when_its_holder_asks_for_one(client: CoordinatorClient) -> None:
    definition = small_definition("asked")
    client.declare("asked", definition.body())
    with RunningMember(client, definition, "a") as member:
        wait_until_owned_once([member], task_names(4))
        generation_id = member.holder.held.generation_id
        member.member.request_rejoin()
        member.holder.wait_for(lambda: member.holder.held.generation_id > generation_id, "another round")
        assert member.holder.names() == ["assign", "assign"], "a rejoin that changes nothing takes nothing away"


def test_should_leave_only_after_its_tasks_are_closed_when_news_come_while_it_closes_them(
    client: CoordinatorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = small_definition("closing")
    client.declare("closing", definition.body())
    order: list[str] = []
    left = threading.Event()
    really_leave = client.leave

    def leave(group_id: str, member_id: str, **more: Any) -> None:
        order.append("leave")
        left.set()
        really_leave(group_id, member_id, **more)

    with RunningMember(client, definition, "a") as member:

        def close() -> None:
            member.member.request_rejoin()
            left.wait(LONG_ENOUGH_TO_LEAVE_S)
            order.append("closed")

        wait_until_owned_once([member], task_names(4))
        monkeypatch.setattr(client, "leave", leave)
        member.holder.before_close = close
    assert order == ["closed", "leave"]
    assert member.end is MemberEnd.LEFT
