"""Which end of a connection is the death of a process, and which is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.coordinator_api.service_process import ServiceProcess

SESSION_MS = 600_000
"""So long that no session ends within a test."""


class Processes:
    """Processes of one group, each with one member and a connection of its own, and somebody who watches them."""

    def __init__(self, service: ServiceProcess, count: int, opened: ExitStack) -> None:
        self.watcher = opened.enter_context(service.client())
        self.group_id = new_group(self.watcher)
        self.all = [
            HttpMember(
                opened.enter_context(service.client()),
                self.group_id,
                leave_on_disconnect=True,
                session_timeout_ms=SESSION_MS,
            )
            for _ in range(count)
        ]
        for each in self.all:
            assert each.subscribe().status_code == 201
        settle(*self.all)
        for each in self.all:
            assert each.process_heartbeat().status_code == 200

    def members(self) -> set[str]:
        document = self.watcher.get(f"/v1/groups/{self.group_id}").json()
        return {each["member_id"] for each in document["members"]}


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def ids(*members: HttpMember) -> set[str]:
    return {str(each.member_id) for each in members}


def test_should_remove_a_process_that_dies_while_another_one_is_between_two_heartbeats(
    service: ServiceProcess, opened: ExitStack
) -> None:
    processes = Processes(service, 2, opened)
    living, dying = processes.all

    dying.client.close()

    wait_for(lambda: processes.members() == ids(living))
    assert living.process_heartbeat().json()["members"][living.member_id]["rejoin"]


def test_should_wait_for_the_sessions_when_more_than_half_of_the_connections_are_gone(
    service: ServiceProcess, opened: ExitStack
) -> None:
    processes = Processes(service, 3, opened)
    first, second, third = processes.all

    first.client.close()
    second.client.close()
    with service.client() as later:
        later_processes = Processes(service, 2, opened)
        later_processes.all[1].client.close()
        wait_for(lambda: later_processes.members() == ids(later_processes.all[0]))
        assert later.get("/livez").status_code == 200

    assert processes.members() == ids(first, second, third)


def test_should_take_no_connection_for_a_death_that_its_own_answer_ended(
    service: ServiceProcess, opened: ExitStack
) -> None:
    processes = Processes(service, 3, opened)
    living, closing, dying = processes.all
    assert closing.process_heartbeat(Connection="close").status_code == 200

    dying.client.close()

    wait_for(lambda: processes.members() == ids(living, closing))


def test_should_count_open_connections(service: ServiceProcess, client: httpx.Client) -> None:
    def count() -> float:
        text = client.get("/metrics").text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith("assignor_connections ")))

    before = count()
    with service.client() as other:
        other.get("/livez")
        assert count() == before + 1
    wait_for(lambda: count() == before)
