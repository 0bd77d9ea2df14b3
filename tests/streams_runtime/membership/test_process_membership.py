"""All members of a process together, against a real coordinator: one heartbeat, one connection for it."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from assignor.types import ProcessId
from spark_jobs.ownership.group_view import wait_for_group
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.notices import NoticeBoard, NoticeCode
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.calls import CoordinatorUnavailable, MemberSettings, ProcessHeartbeatReply
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_events import AssignTasks, Done, Order
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import GroupMember, ProcessMembership
from tests.streams_runtime.membership.losing_proxy import LosingProxy, losing_proxy
from tests.streams_runtime.running_member import TIMEOUT_S, RememberingHolder, RunningMember, wait_until_owned_once
from tests.streams_runtime.small_group import GroupDefinition, small_definition, task_names
from tests.streams_runtime.stub_service import silent_service
from tests.streams_runtime.word_counting import wait_for

DEFAULT_SESSION_TIMEOUT_MS = 45_000
BEFORE_THE_NEXT_HEARTBEAT_S = 2.5
"""Less than the default heartbeat.interval.ms, and far less than the third of a session after which members would
otherwise hear of a rebalance."""


class SlowHolder(RememberingHolder):
    """Takes new tasks only when `may_assign` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_assign = threading.Event()
        self.asked_to_assign = threading.Event()

    def hand_over(self, order: Order, done: Done) -> None:
        if not isinstance(order, AssignTasks):
            super().hand_over(order, done)
            return
        self.asked_to_assign.set()

        def assign() -> None:
            self.may_assign.wait(TIMEOUT_S)
            RememberingHolder.hand_over(self, order, done)

        threading.Thread(target=assign, daemon=True).start()


class Process:
    """A process with members, which are closed in the end."""

    def __init__(self, url: str, definition: GroupDefinition, **times: int) -> None:
        self.notices = NoticeBoard(SystemClock())
        self.client = CoordinatorClient(url)
        self.session_timeout_ms = times.get("session_timeout_ms", DEFAULT_SESSION_TIMEOUT_MS)
        self.membership = ProcessMembership(
            self.client,
            definition.group_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=times.get("heartbeat_interval_ms"),
            notices=self.notices,
        )
        self.members: list[GroupMember] = []
        self._definition = definition
        self._id = ProcessId.from_bytes(uuid.uuid4().bytes)

    def start_member(self, holder: RememberingHolder | None = None) -> RememberingHolder:
        used = holder or RememberingHolder()
        settings = MemberSettings(
            self._definition.group_id, f"t{len(self.members)}", session_timeout_ms=self.session_timeout_ms
        )
        writer = SubscriptionWriter(self._id, self._definition.source_topics())
        self.members.append(self.membership.member(settings, writer, used, lambda: None))
        self.members[-1].start()
        return used

    def start_with_all_tasks(self) -> RememberingHolder:
        holder = self.start_member()
        holder.wait_for(lambda: holder.active == task_names(4), "all tasks")
        return holder

    def start_four(self) -> list[RememberingHolder]:
        """Of eight tasks, each has two."""
        holders = [self.start_member() for _ in range(4)]
        for holder in holders:
            holder.wait_for(lambda holder=holder: len(holder.active) == 2, "two tasks")  # type: ignore[misc]
        return holders

    def close(self) -> None:
        for member in self.members:
            member.ask_to_close()
        for member in self.members:
            assert member.wait(TIMEOUT_S)
        self.membership.close()
        self.client.close()


@contextmanager
def running_process(url: str, definition: GroupDefinition, **times: int) -> Iterator[Process]:
    process = Process(url, definition, **times)
    try:
        yield process
    finally:
        process.close()


def wait_until(proxy: LosingProxy, condition: Callable[[], bool], what: str) -> None:
    with proxy.changed:
        assert proxy.changed.wait_for(condition, TIMEOUT_S), what


def declared(client: CoordinatorClient, name: str, **more: int) -> GroupDefinition:
    definition = small_definition(name, **more)
    client.declare(name, definition.body())
    return definition


def test_should_hear_of_a_rebalance_when_it_starts_with_default_settings(client: CoordinatorClient) -> None:
    """By its next heartbeat alone, a member would hear of it up to 3 s later, and up to 15 s with a third of its
    session between two.
    """
    definition = declared(client, "default-settings")
    with RunningMember(client, definition, "a", session_timeout_ms=DEFAULT_SESSION_TIMEOUT_MS) as first:
        wait_until_owned_once([first], task_names(4))
        wait_for_group(client, definition.group_id, lambda seen: seen.is_settled, "the first one alone", TIMEOUT_S)
        started_s = time.monotonic()
        with RunningMember(client, definition, "b", session_timeout_ms=DEFAULT_SESSION_TIMEOUT_MS) as second:
            wait_until_owned_once([first, second], task_names(4))
            assert time.monotonic() - started_s < BEFORE_THE_NEXT_HEARTBEAT_S
            started_s = time.monotonic()
        wait_until_owned_once([first], task_names(4))
        assert time.monotonic() - started_s < BEFORE_THE_NEXT_HEARTBEAT_S


@pytest.mark.parametrize("lost", [1, 3])
def test_should_make_one_member_of_lost_joins(
    coordinator: CoordinatorProcess, client: CoordinatorClient, lost: int
) -> None:
    definition = declared(client, f"lost-{lost}")
    with losing_proxy(coordinator.url) as proxy:
        proxy.lose, proxy.lost_call = lost, "/subscriptions"
        with running_process(proxy.url, definition) as process:
            holder = process.start_member()
            holder.wait_for(lambda: holder.active == task_names(4), "all tasks: no ghost has any")
            assert proxy.lose == 0
            assert len(proxy.calls("/subscriptions")) == lost + 1
            view = wait_for_group(client, definition.group_id, lambda seen: seen.is_settled, "it alone", TIMEOUT_S)
            assert [member.member_id for member in view.members] == [process.members[0].machine.member_id]


def test_should_send_the_heartbeats_of_all_members_over_one_connection_of_their_own(
    coordinator: CoordinatorProcess, client: CoordinatorClient
) -> None:
    definition = declared(client, "one-connection", partitions=8)
    with losing_proxy(coordinator.url) as proxy, running_process(proxy.url, definition) as process:
        process.start_four()
        (connection,) = proxy.connections_with("/heartbeat")
        assert {call.split("?")[0] for call in connection.calls} == {"POST /v1/groups/one-connection/heartbeat"}
        assert not any("/members/" in call and "/heartbeat" in call for call in proxy.calls("/heartbeat"))


def test_should_go_on_as_the_same_members_when_the_connection_of_their_heartbeats_breaks(
    coordinator: CoordinatorProcess, client: CoordinatorClient
) -> None:
    definition = declared(client, "broken")
    with losing_proxy(coordinator.url) as proxy, running_process(proxy.url, definition) as process:
        holder = process.start_with_all_tasks()
        before = wait_for_group(client, "broken", lambda seen: seen.is_settled, "it alone", TIMEOUT_S)
        for number in range(1, 4):
            proxy.connections_with("/heartbeat")[-1].break_off()
            wait_until(proxy, lambda n=number: len(proxy.connections_with("/heartbeat")) > n, "another connection")  # type: ignore[misc]
        client.drain("broken")  # the member gets this over the new connection
        assert process.members[0].wait(TIMEOUT_S)
        assert "lost" not in holder.names()
        assert before.generation_id == holder.calls[0].generation_id


@pytest.mark.long
@pytest.mark.parametrize("is_first", [True, False])
def test_should_keep_a_member_with_a_short_session_when_another_address_says_nothing(
    coordinator: CoordinatorProcess, client: CoordinatorClient, is_first: bool
) -> None:
    group = f"silent-{is_first}"
    definition = declared(client, group)
    with (
        silent_service() as silent,
        losing_proxy(coordinator.url) as proxy,
        running_process(
            ",".join((silent, proxy.url) if is_first else (proxy.url, silent)), definition, session_timeout_ms=1_000
        ) as process,
    ):
        holder = process.start_with_all_tasks()
        before = wait_for_group(client, group, lambda seen: seen.is_settled, "it alone", TIMEOUT_S)
        for _ in range(4):
            count = len(proxy.connections_with("/heartbeat"))
            proxy.lose, proxy.lost_call = 2, "/heartbeat"  # the one of a connection that it has, and of the next one
            wait_until(proxy, lambda n=count: len(proxy.connections_with("/heartbeat")) >= n + 2, "another address")  # type: ignore[misc]
        after = wait_for_group(client, group, lambda seen: seen.is_settled, "it alone", TIMEOUT_S)
        assert after.generation_id == before.generation_id
        assert [each.member_id for each in after.members] == [each.member_id for each in before.members]
        assert holder.names() == ["assign"]


@pytest.mark.long
def test_should_go_on_at_the_next_address(coordinator: CoordinatorProcess, client: CoordinatorClient) -> None:
    """As when it freezes with a heartbeat in its hands, and the group is somewhere else by now."""
    definition = declared(client, "falls-silent")
    with (
        losing_proxy(coordinator.url) as first,
        losing_proxy(coordinator.url) as second,
        running_process(f"{first.url},{second.url}", definition, session_timeout_ms=3_000) as process,
    ):
        holder = process.start_with_all_tasks()
        before = wait_for_group(client, "falls-silent", lambda seen: seen.is_settled, "it alone", TIMEOUT_S)
        for silent, other in ((first, second), (second, first), (first, second)):
            count = len(other.calls("/heartbeat"))
            silent.carries.clear()
            wait_until(other, lambda of=other, n=count: len(of.calls("/heartbeat")) >= n + 5, "heartbeats")  # type: ignore[misc]
            silent.carries.set()
        after = wait_for_group(client, "falls-silent", lambda seen: seen.is_settled, "it alone", TIMEOUT_S)
        assert after.generation_id == before.generation_id
        assert holder.names() == ["assign"]


def test_should_send_heartbeats_during_a_slow_order(coordinator: CoordinatorProcess, client: CoordinatorClient) -> None:
    """A stream thread that restores, or is in the middle of a long pass, must not cost its process the session."""
    definition = declared(client, "slow")
    times = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100}
    with losing_proxy(coordinator.url) as proxy, running_process(proxy.url, definition, **times) as process:
        slow = SlowHolder()
        process.start_member(slow)
        assert slow.asked_to_assign.wait(TIMEOUT_S)
        count = len(proxy.calls("/heartbeat"))
        wait_until(proxy, lambda: len(proxy.calls("/heartbeat")) > count + 15, "heartbeats for longer than a session")
        slow.may_assign.set()
        slow.wait_for(lambda: slow.active == task_names(4), "the tasks")
        assert slow.names() == ["assign"]


def test_should_tell_what_is_new_once_and_all_of_it_again_when_there_was_no_answer(
    coordinator: CoordinatorProcess, client: CoordinatorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = declared(client, "telling")
    with running_process(coordinator.url, definition, heartbeat_interval_ms=20) as process:
        sent: list[list[int]] = []
        fails = threading.Event()
        send = process.membership._heartbeats.send

        def recorded(members: Any, **more: Any) -> ProcessHeartbeatReply:
            sent.append([notice.count for notice in more["notices"]])
            if fails.is_set():
                fails.clear()
                raise CoordinatorUnavailable("as when it is started again")
            return send(members, **more)

        def assert_sent(description: str, *counts: list[int]) -> None:
            wait_for(lambda: [each for each in sent if each] == list(counts), lambda: (description, sent))

        monkeypatch.setattr(process.membership._heartbeats, "send", recorded)
        process.start_with_all_tasks()
        process.notices.add(NoticeCode.RECORDS_DROPPED, "late, SUM", 3)
        assert_sent("what is new", [3])
        before = len(sent)
        wait_for(lambda: len(sent) > before + 3, lambda: sent)
        process.notices.add(NoticeCode.RECORDS_DROPPED, "late, SUM", 4)
        assert_sent("what was added", [3], [7])
        fails.set()
        assert_sent("all of it", [3], [7], [7])
        described = client.describe("telling")["notices"]
    assert [(each["code"], each["count"], each["text"]) for each in cast("list[dict[str, Any]]", described)] == [
        ("RECORDS_DROPPED", 7, "late, SUM: 7")
    ]


def test_should_keep_other_members_when_one_fails(client: CoordinatorClient, coordinator: CoordinatorProcess) -> None:
    definition = declared(client, "one-fails")
    with running_process(coordinator.url, definition) as process:
        good = process.start_member()
        process.start_member(RememberingHolder(fail_on="assign"))
        assert process.members[1].wait(TIMEOUT_S)
        assert str(process.members[1].failure) == "assign failed on purpose"
        good.wait_for(lambda: good.active == task_names(4), "all tasks")
        assert not process.members[0].has_ended


def test_should_end_soon_without_its_coordinator(coordinator: CoordinatorProcess, client: CoordinatorClient) -> None:
    definition = declared(client, "away")
    with losing_proxy(coordinator.url) as proxy, running_process(proxy.url, definition) as process:
        holder = process.start_with_all_tasks()
        proxy.close()
        process.close()
        assert holder.names() == ["assign", "close"]


def test_should_leave_with_all_members_at_once(coordinator: CoordinatorProcess, client: CoordinatorClient) -> None:
    definition = declared(client, "closed", partitions=8)
    with running_process(coordinator.url, definition) as process:
        holders = process.start_four()
    assert client.describe("closed")["members"] == []
    assert [holder.names()[-1] for holder in holders] == ["close"] * 4
