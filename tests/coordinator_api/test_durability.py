"""Everything that was answered is committed first: `kill -9` at any moment, restart, and members go on as they were."""

import signal
from pathlib import Path

import httpx

from tests.checkout import ROOT
from tests.coordinator_api import held_assignor
from tests.coordinator_api.group_members import HttpMember, new_group, settle, settled_member
from tests.coordinator_api.http.hostile_callers import held
from tests.coordinator_api.service_process import ServiceProcess

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


def test_should_stop_gracefully_on_an_interrupt_though_it_was_started_in_the_background(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, *QUICK, ignored=(signal.SIGINT,)) as service:
        assert service.stop(signal.SIGINT) == 0

    assert any("stopping" in line and "SIGINT" in line for line in service.log)


def test_should_stop_gracefully_and_let_held_requests_go(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        client = service.client()
        member = settled_member(client)
        with held(service.client(), lambda: member.fetch(min_generation=member.generation_id + 1)) as fetch:
            assert service.stop() == 0

    assert fetch.result().status_code == 204
    bad = [line for line in service.log if "Traceback" in line or "[error" in line or "[warning" in line]
    assert [line for line in bad if "service_stood_still" not in line] == [], "but for what a busy machine does to it"
