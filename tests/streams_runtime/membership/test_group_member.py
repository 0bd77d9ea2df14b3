"""Members against a real coordinator process: uvicorn, SQLite, HTTP."""

from __future__ import annotations

import threading

import pytest

from assignor.types import TaskId
from spark_jobs.workers.group_view import group_view, wait_for_group
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.calls import GroupIdNotFound
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_events import AssignmentFailed, MemberEnd
from tests.streams_runtime.membership.losing_proxy import losing_proxy
from tests.streams_runtime.running_member import TIMEOUT_S, RunningMember, owned_twice, wait_until_owned_once
from tests.streams_runtime.small_group import small_definition, task_names, without_source_topic

LONG_ENOUGH_TO_LEAVE_S = 0.3


def test_should_own_every_task_when_alone_in_the_group(client: CoordinatorClient) -> None:
    definition = small_definition("alone")
    client.declare("alone", definition.body())
    with RunningMember(client, definition, "a") as member:
        wait_until_owned_once([member], task_names(4))
        partitions = {str(task): {str(one) for one in of_task} for task, of_task in member.holder.held.active.items()}
    assert partitions == {f"0_{number}": {f"events-{number}"} for number in range(4)}
    assert member.end is MemberEnd.LEFT
    assert member.holder.names() == ["assign", "close"]
    assert group_view(client, "alone").members == ()


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


def test_should_lose_everything_and_join_anew_when_the_group_does_not_know_it_any_more(
    client: CoordinatorClient,
) -> None:
    definition = small_definition("forgotten")
    client.declare("forgotten", definition.body())
    with RunningMember(client, definition, "a") as member:
        wait_until_owned_once([member], task_names(4))
        member_id = member.holder.held.member_id
        client.leave("forgotten", member_id)
        member.holder.wait_for(lambda: "lost" in member.holder.names(), "the tasks to be lost")
        wait_until_owned_once([member], task_names(4))
        assert member.holder.names() == ["assign", "lost", "assign"]
        assert member.holder.held.member_id != member_id


def test_should_end_without_its_tasks_when_a_newer_incarnation_joins(client: CoordinatorClient) -> None:
    definition = small_definition("fenced")
    client.declare("fenced", definition.body())
    with RunningMember(client, definition, "a", static=True, incarnation=1) as older:
        wait_until_owned_once([older], task_names(4))
        with RunningMember(client, definition, "a", static=True, incarnation=2) as newer:
            older.join()
            assert older.end is MemberEnd.FENCED
            assert older.holder.names() == ["assign", "lost"]
            wait_until_owned_once([newer], task_names(4))
            assert newer.end is None, "the older one must not have left in its name"


def test_should_not_take_over_when_an_older_incarnation_joins(client: CoordinatorClient) -> None:
    definition = small_definition("late")
    client.declare("late", definition.body())
    with RunningMember(client, definition, "a", static=True, incarnation=2) as newer:
        wait_until_owned_once([newer], task_names(4))
        with RunningMember(client, definition, "a", static=True, incarnation=1) as older:
            older.join()
            assert older.end is MemberEnd.FENCED
            assert "assign" not in older.holder.names()
        assert newer.holder.names() == ["assign"]


def test_should_leave_in_good_order_when_the_coordinator_says_stop(client: CoordinatorClient) -> None:
    definition = small_definition("drained")
    client.declare("drained", definition.body())
    with RunningMember(client, definition, "a") as first, RunningMember(client, definition, "b") as second:
        wait_until_owned_once([first, second], task_names(4))
        client.drain("drained")
        first.join()
        second.join()
        assert (first.end, second.end) == (MemberEnd.STOPPED, MemberEnd.STOPPED)
        assert (first.holder.names()[-1], second.holder.names()[-1]) == ("close", "close")
        assert (
            wait_for_group(client, "drained", lambda seen: not seen.members, "no members", TIMEOUT_S).state == "Empty"
        )


def test_should_keep_working_with_its_generation_when_the_coordinator_is_killed_and_started_again(
    coordinator: CoordinatorProcess, client: CoordinatorClient
) -> None:
    definition = small_definition("ridden-out")
    client.declare("ridden-out", definition.body())
    with RunningMember(client, definition, "a") as first, RunningMember(client, definition, "b") as second:
        wait_until_owned_once([first, second], task_names(4))
        before = wait_for_group(client, "ridden-out", lambda seen: seen.is_settled, "the group to settle", TIMEOUT_S)
        calls = [list(first.holder.calls), list(second.holder.calls)]
        coordinator.kill()
        coordinator.start()
        after = wait_for_group(client, "ridden-out", lambda seen: seen.is_settled, "heartbeats to be back", TIMEOUT_S)
        assert after.generation_id == before.generation_id
        assert after.owners() == before.owners()
        assert [first.holder.calls, second.holder.calls] == calls


def test_should_fail_when_the_leader_answers_with_an_error_assignment(client: CoordinatorClient) -> None:
    definition = small_definition("incomplete")
    client.declare("incomplete", without_source_topic(definition))
    with RunningMember(client, definition, "a") as member:
        member.join()
        assert isinstance(member.failure, AssignmentFailed)
        assert "INCOMPLETE_SOURCE_TOPIC_METADATA" in str(member.failure)
        assert group_view(client, "incomplete").members == ()


def test_should_fail_when_the_group_was_never_declared(client: CoordinatorClient) -> None:
    with RunningMember(client, small_definition("undeclared"), "a") as member:
        member.join()
        assert isinstance(member.failure, GroupIdNotFound)


def test_should_leave_the_group_when_its_holder_fails(client: CoordinatorClient) -> None:
    definition = small_definition("broken")
    client.declare("broken", definition.body())
    with RunningMember(client, definition, "a", fail_on="assign") as member:
        member.join()
        assert str(member.failure) == "assign failed on purpose"
        assert member.holder.names() == ["lost"]
        assert group_view(client, "broken").members == ()


def test_should_leave_the_group_when_its_heartbeats_fail(client: CoordinatorClient) -> None:
    definition = small_definition("heartless")
    client.declare("heartless", definition.body())
    with RunningMember(client, definition, "a") as member:
        wait_until_owned_once([member], task_names(4))
        member.holder.fail_on = "offset_sums"
        member.join()
        assert str(member.failure) == "offset_sums failed on purpose"
        assert member.holder.names() == ["assign", "lost"]
        assert group_view(client, "heartless").members == ()


def test_should_be_evicted_after_its_session_when_the_network_is_silent(
    coordinator: CoordinatorProcess, client: CoordinatorClient
) -> None:
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


def test_should_join_again_without_owned_partitions_when_its_holder_has_lost_its_tasks(
    client: CoordinatorClient,
) -> None:
    definition = small_definition("migrated")
    client.declare("migrated", definition.body())
    with RunningMember(client, definition, "a") as member:
        wait_until_owned_once([member], task_names(4))
        member_id, generation_id = member.holder.held.member_id, member.holder.held.generation_id
        member.member.tasks_were_lost("another thread has them")
        member.holder.wait_for(lambda: member.holder.names()[-2:] == ["lost", "assign"], "a new assignment")
        assert member.holder.names() == ["assign", "lost", "assign"]
        assert member.holder.held.member_id == member_id
        assert member.holder.held.generation_id > generation_id
        assert member.holder.active == task_names(4)


def test_should_go_through_a_round_with_everything_it_has_when_its_holder_asks_for_one(
    client: CoordinatorClient,
) -> None:
    definition = small_definition("asked")
    client.declare("asked", definition.body())
    with RunningMember(client, definition, "a") as member:
        wait_until_owned_once([member], task_names(4))
        generation_id = member.holder.held.generation_id
        member.member.request_rejoin()
        member.holder.wait_for(lambda: member.holder.held.generation_id > generation_id, "another round")
        assert member.holder.names() == ["assign", "assign"], "a rejoin that changes nothing takes nothing away"


def test_should_end_every_member_when_one_requests_shutdown(client: CoordinatorClient) -> None:
    definition = small_definition("shutdown")
    client.declare("shutdown", definition.body())
    with RunningMember(client, definition, "a") as first, RunningMember(client, definition, "b") as second:
        wait_until_owned_once([first, second], task_names(4))
        first.member.request_shutdown()
        first.join()
        second.join()
        assert (first.end, second.end) == (MemberEnd.SHUTDOWN_REQUESTED, MemberEnd.SHUTDOWN_REQUESTED)
        assert (first.holder.names()[-1], second.holder.names()[-1]) == ("close", "close")


def test_should_leave_only_after_its_tasks_are_closed_when_news_come_while_it_closes_them(
    client: CoordinatorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = small_definition("closing")
    client.declare("closing", definition.body())
    order: list[str] = []
    left = threading.Event()
    really_leave = client.leave

    def leave(group_id: str, member_id: str, *, timeout_s: float) -> None:
        order.append("leave")
        left.set()
        really_leave(group_id, member_id, timeout_s=timeout_s)

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


@pytest.mark.parametrize("times", [1, 2])
def test_should_end_at_once_when_closed_before_it_could_join(client: CoordinatorClient, times: int) -> None:
    definition = small_definition(f"early-{times}")
    client.declare(definition.group_id, definition.body())
    member = RunningMember(client, definition, "a")
    for _ in range(times):
        member.member.ask_to_close()
    with member:
        member.join()
        assert member.end is MemberEnd.LEFT
        assert group_view(client, definition.group_id).members == ()
