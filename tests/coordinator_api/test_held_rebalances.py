"""A rebalance that waits for approval survives `kill -9`, and so does what was said about it."""

from __future__ import annotations

from pathlib import Path

from tests.coordinator_api.group_members import settle
from tests.coordinator_api.held_rebalance import ADA, held_rebalance, last_rebalance
from tests.coordinator_api.service_process import ServiceProcess

QUICK = ("--group-initial-rebalance-delay-ms", "50")


def test_should_carry_out_after_a_kill_what_was_computed_before_it(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path, *QUICK)
    with service:
        first, second = held_rebalance(service.client())
        before, recorded = first.client.get(f"{first.path}/hold").json(), last_rebalance(first)

        service.kill()
        service.start()
        first.client = second.client = service.client()

        assert first.client.get(f"{first.path}/hold").json() == before
        assert last_rebalance(first) == recorded
        assert first.heartbeat().json()["rejoin"] is False
        assert first.fetch(wait_ms=0).status_code == 204
        assert first.client.post(f"{first.path}/approve", headers=ADA).json() == {"generation_id": 2}
        assert (first.fetch().status_code, second.fetch().status_code) == (200, 200)
        settle(first, second)
        assert (len(first.active), len(second.active)) == (2, 2)
