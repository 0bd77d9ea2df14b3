"""Everything that was answered is committed first: `kill -9` at any moment, restart, and members go on as they were."""

from __future__ import annotations

import random
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.checkout import ROOT
from tests.coordinator_api import held_assignor
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, settle
from tests.coordinator_api.service_process import ServiceProcess, run_command

QUICK = ("--group-initial-rebalance-delay-ms", "50")


def reconnect(service: ServiceProcess, *members: HttpMember) -> httpx.Client:
    client = service.client()
    for member in members:
        member.client = client
    return client


def test_should_go_on_with_the_same_generation_and_bytes_after_a_kill(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        client = service.client()
        group_id = new_group(client, configs={"num.standby.replicas": 1, "acceptable.recovery.lag": 0})
        members = [HttpMember(client, group_id, session_timeout_ms=5_000) for _ in range(3)]
        for member in members:
            member.subscribe()
        settle(*members)
        before = [member.fetch().json() for member in members]
        probing_at_ms = client.get(f"/v1/groups/{group_id}").json()["probing_rebalance_at_ms"]
        rebalances = client.get(f"/v1/groups/{group_id}/rebalances").json()

        service.kill()
        service.start()
        client = reconnect(service, *members)

        assert [member.heartbeat().json() for member in members] == [
            {"state": "Stable", "rejoin": False, "stop": False, "generation_id": member.generation_id}
            for member in members
        ]
        assert [member.fetch().json() for member in members] == before
        assert client.get(f"/v1/groups/{group_id}").json()["probing_rebalance_at_ms"] == probing_at_ms
        assert client.get(f"/v1/groups/{group_id}/rebalances").json() == rebalances
        client.close()


@pytest.mark.long
def test_should_evict_nobody_before_its_session_has_run_out_anew(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        client = service.client()
        member = HttpMember(client, new_group(client), session_timeout_ms=1_500)
        member.subscribe()
        settle(member)

        service.kill()
        time.sleep(2)  # what is tested: more than the session goes by while nobody is there to count it
        service.start()
        reconnect(service, member)

        assert member.heartbeat().json() == {
            "state": "Stable",
            "rejoin": False,
            "stop": False,
            "generation_id": member.generation_id,
        }
        held = member.fetch(wait_ms=30_000, min_generation=member.generation_id + 1)
        assert problem(held) == (404, "UNKNOWN_MEMBER_ID")


def test_should_finish_a_rebalance_that_was_prepared_when_the_service_was_killed(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        client = service.client()
        group_id = new_group(client)
        old, new = HttpMember(client, group_id), HttpMember(client, group_id)
        old.subscribe()
        settle(old)
        assert new.subscribe().json()["state"] == "PreparingRebalance"

        service.kill()
        service.start()
        reconnect(service, old, new)

        assert old.heartbeat().json()["rejoin"] is True
        assert new.heartbeat().json()["rejoin"] is False
        assert old.subscribe().status_code == 200
        settle(old, new)
        assert old.active == ("0_0", "0_1", "0_2", "0_3")


def test_should_compute_a_rebalance_again_that_was_computed_when_the_service_was_killed(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    environment = {"PYTHONPATH": str(ROOT), held_assignor.HOLD_FILE_VARIABLE: str(hold)}
    flags = (*QUICK, "--task-assignor-classes", held_assignor.CLASS_PATH)
    service = ServiceProcess(tmp_path, *flags, environment=environment)
    with service:
        client = service.client()
        member = HttpMember(client, new_group(client, assignor=held_assignor.CLASS_PATH))
        member.subscribe()
        while member.heartbeat(generation_id=0).json()["state"] != "CompletingRebalance":
            pass

        service.kill()
        service.start()
        client = reconnect(service, member)
        assert member.heartbeat(generation_id=0).json()["state"] == "CompletingRebalance"
        hold.unlink()

        assert member.fetch().json()["generation_id"] == 1
        assert member.active == ("0_0", "0_1", "0_2", "0_3")
        assert len(client.get(f"{member.path}/rebalances").json()["rebalances"]) == 1


def test_should_say_so_when_a_users_own_assignor_fails_and_go_on(tmp_path: Path) -> None:
    broken = held_assignor.BrokenAssignor.name
    environment = {"PYTHONPATH": str(ROOT)}
    with (
        ServiceProcess(tmp_path, *QUICK, "--task-assignor-classes", broken, environment=environment) as service,
        service.client() as client,
    ):
        group_id = new_group(client, assignor=broken)
        member = HttpMember(client, group_id)
        member.subscribe()
        assert member.fetch().status_code == 200

        assert client.get(f"/v1/groups/{group_id}").json()["error"] == "RuntimeError: no idea"
        assert client.get(f"/v1/groups/{group_id}/rebalances/1").json()["output"]["error"] == "RuntimeError: no idea"
        assert client.put(f"/v1/groups/{group_id}", json=definition()).status_code == 200
        member.subscribe()
        settle(member)
        assert member.active == ("0_0", "0_1", "0_2", "0_3")


class RestlessMember(threading.Thread):
    """Lives through restarts: heartbeats, rejoins when told, fetches; notes everything that must not happen."""

    def __init__(self, service: ServiceProcess, group_id: str) -> None:
        super().__init__(daemon=True)
        self.service = service
        self.member = HttpMember(service.client(), group_id)
        self.first_join = {"join_id": uuid.uuid4().hex}
        self.faults: list[str] = []
        self.bytes_by_generation: dict[int, str] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self._step()
            except httpx.TransportError:
                self.over.wait(0.05)
                if self.service.url:
                    reconnect(self.service, self.member)
            except Exception as fault:
                self.faults.append(repr(fault))
                return

    def _step(self) -> None:
        member = self.member
        if member.member_id is None or member.awaited == 0:
            of_first: dict[str, Any] = self.first_join if member.member_id is None else {}
            assert member.subscribe(**of_first).status_code in (200, 201)
        if member.generation_id < member.awaited:
            self._fetch()
            return
        beat = member.heartbeat()
        if beat.status_code != 200:
            self.faults.append(f"heartbeat of {member.member_id}: {beat.text}")
        elif beat.json()["rejoin"]:
            rejoined = member.subscribe()
            if rejoined.status_code != 200:
                self.faults.append(f"rejoin of {member.member_id}: {rejoined.text}")
        elif beat.json()["generation_id"] > member.generation_id:
            self._fetch()
        else:
            self.over.wait(0.02)

    def _fetch(self) -> None:
        before = self.member.generation_id
        response = self.member.fetch(wait_ms=1_000)
        if response.status_code == 409 and response.json()["code"] == "REBALANCE_IN_PROGRESS":
            self.member.subscribe()
        elif response.status_code == 200:
            answer = response.json()
            known = self.bytes_by_generation.setdefault(answer["generation_id"], answer["assignment"])
            if known != answer["assignment"] or answer["generation_id"] < before:
                self.faults.append(f"generation {answer['generation_id']} was another one before")
        elif response.status_code != 204:
            self.faults.append(f"fetch of {self.member.member_id}: {response.text}")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_should_lose_nothing_that_was_answered_when_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    service = ServiceProcess(tmp_path, *QUICK, "--records-compaction-bytes", "4096")
    with service:
        group_id = new_group(service.client(), partitions=8, configs={"acceptable.recovery.lag": 1_000_000})
        members: list[RestlessMember] = []
        for _ in range(4):
            for _ in range(2):
                members.append(RestlessMember(service, group_id))
                members[-1].start()
            time.sleep(chance.uniform(0.05, 0.6))
            service.kill()
            service.start()
        deadline = time.monotonic() + 60
        with service.client() as client:
            while time.monotonic() < deadline:
                group = client.get(f"/v1/groups/{group_id}").json()
                joined = {entry["member_id"] for entry in group["members"]}
                is_stable = group["state"] == "Stable" and group["last_rebalance"]["outcome"] == "stable"
                if is_stable and joined == {member.member.member_id for member in members}:
                    break
                time.sleep(0.05)
        for member in members:
            member.over.set()
        for member in members:
            member.join(60)

        assert [fault for member in members for fault in member.faults] == []
        assert group["last_rebalance"]["outcome"] == "stable", group
        # one whose first answer was lost has joined again, and is the same member
        assert {member.member.member_id for member in members} == joined
        assert [entry["task"] for entry in group["tasks"] if entry["role"] == "active"] == [
            f"0_{partition}" for partition in range(8)
        ]


@pytest.mark.long
def test_should_not_evict_members_for_time_in_which_the_service_itself_stood_still(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        client = service.client()
        member = HttpMember(client, new_group(client), session_timeout_ms=1_000)
        member.subscribe()
        settle(member)

        service.process.send_signal(signal.SIGSTOP)
        answers: list[int] = []
        beat = threading.Thread(target=lambda: answers.append(member.heartbeat().status_code))
        beat.start()
        time.sleep(2.5)  # what is tested: more than a session goes by
        service.process.send_signal(signal.SIGCONT)
        beat.join(30)

        assert answers == [200]
        silent = member.fetch(wait_ms=30_000, min_generation=member.generation_id + 1)
        assert problem(silent) == (404, "UNKNOWN_MEMBER_ID")


def test_should_refuse_a_second_service_on_the_same_database_until_the_first_is_gone(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    with service:
        for command in (("serve", "--port", "0"), ("migrate",)):
            second = run_command(tmp_path, *command)
            assert second.returncode == 2
            assert second.stderr.splitlines()[-1] == (
                f"error: {tmp_path / 'assignor.sqlite3'} is in use by another coordinator "
                f"(process {service.process.pid}): stop that one, or name another database"
            )
        service.kill()
        service.start()


def test_should_stop_gracefully_on_an_interrupt_though_it_was_started_as_a_backgrebalance_job(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, *QUICK, ignored=(signal.SIGINT,)) as service:
        assert service.stop(signal.SIGINT) == 0

    assert any("stopping" in line and "SIGINT" in line for line in service.log)


def test_should_stop_gracefully_and_let_held_requests_go(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        client = service.client()
        member = HttpMember(client, new_group(client))
        member.subscribe()
        settle(member)
        held: list[httpx.Response] = []
        waiting = threading.Thread(target=lambda: held.append(member.fetch(min_generation=member.generation_id + 1)))
        waiting.start()
        with service.client() as other:
            while "assignor_long_polls 1.0" not in other.get("/metrics").text:
                pass

        assert service.stop() == 0
        waiting.join(30)

    assert held[0].status_code == 204
    bad = [line for line in service.log if "Traceback" in line or "[error" in line or "[warning" in line]
    assert [line for line in bad if "service_stood_still" not in line] == [], "but for what a busy machine does to it"
