"""Members change their token while they send heartbeats: nobody is refused, and nobody is taken for dead."""

import re
import threading
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from coordinator_client.calls import CallerToken
from streams_runtime.membership.calls import JoinRequest, MemberHeartbeat, MemberSettings
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.coordinator_api.group_members import definition, subscription
from tests.coordinator_api.service_process import ServiceProcess
from tests.waiting import wait_until

MEMBERS = 8
ROTATIONS = 3
BETWEEN_S = 0.01
"""Between two heartbeats of a member: all together send some hundred a second."""

WITHIN_S = 60.0
SESSION_MS = 60_000
REBALANCE_MS = 600_000
"""The members never fetch their assignments, and a busy machine needs more than a minute."""

GROUP = "rotated"


class Beating:
    """One member with a connection of its own. `outcomes`: of its heartbeats, by what came of them."""

    def __init__(self, url: str, token_file: Path, number: int) -> None:
        self._client = CoordinatorClient(url, token=CallerToken(file=token_file))
        raw = subscription(str(UUID(int=number + 1)))
        self.member_id = self._client.join(
            GROUP, JoinRequest(raw, MemberSettings(GROUP, "c", None, None, SESSION_MS, REBALANCE_MS, False))
        ).member_id
        self._heartbeats = self._client.process_heartbeats(GROUP)
        self.outcomes: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(WITHIN_S)
        self._heartbeats.close()
        self._client.close()

    def _run(self) -> None:
        while not self._stop.wait(BETWEEN_S):
            try:
                reply = self._heartbeats.send({self.member_id: MemberHeartbeat(0)})
                self.outcomes[type(reply.members[self.member_id]).__name__] += 1
            except Exception as error:  # whatever it is, it is a lost call
                self.outcomes[f"{type(error).__name__}: {error}"] += 1


def wait_for(members: list[Beating], more: int) -> None:
    """Until each has sent so many more."""
    for each in members:
        wanted = each.outcomes.total() + more
        wait_until(lambda each=each, wanted=wanted: each.outcomes.total() >= wanted, "heartbeats")  # type: ignore[misc]


@pytest.mark.long
def test_should_lose_no_call_when_tokens_are_rotated_under_load(tmp_path: Path) -> None:
    with (
        ServiceProcess(tmp_path, environment={"ASSIGNOR_AUTH_TOKEN": "of-the-admin"}) as service,
        service.client("of-the-admin") as admin,
    ):
        assert admin.put(f"/v1/groups/{GROUP}", json=definition()).status_code == 201
        token_file = tmp_path / "members.token"

        def rotate(number: int) -> str:
            name = f"members-{number}"
            answer = admin.post("/v1/tokens", json={"name": name, "right": "member", "groups": f"{GROUP}*"})
            assert answer.status_code == 201, answer.text
            fresh = tmp_path / "fresh"
            fresh.write_text(answer.json()["token"])
            fresh.replace(token_file)
            return name

        named = rotate(0)
        members = [Beating(service.url, token_file, number) for number in range(MEMBERS)]
        began_s = time.monotonic()
        for number in range(1, ROTATIONS + 1):
            wait_for(members, 10)
            before, named = named, rotate(number)
            if number % 2:
                wait_for(members, 100)
            # else the old token is revoked at once: a member is refused, reads the file again, and sends the new one
            assert admin.delete(f"/v1/tokens/{before}").status_code == 204
        wait_for(members, 100)
        took_s = time.monotonic() - began_s
        for each in members:
            each.end()
        left = {each["member_id"] for each in admin.get(f"/v1/groups/{GROUP}").json()["members"]}
        metrics: httpx.Response = admin.get("/metrics")

    outcomes = sum((each.outcomes for each in members), Counter[str]())
    print(f"{outcomes.total()} heartbeats in {took_s:.1f} s: {dict(outcomes)}")
    assert [what for what in outcomes if ":" in what] == [], "no call was lost"
    assert outcomes.total() > MEMBERS * 100
    assert left == {each.member_id for each in members}
    assert re.search(r"^assignor_session_expired_total 0\.0$", metrics.text, re.MULTILINE)
