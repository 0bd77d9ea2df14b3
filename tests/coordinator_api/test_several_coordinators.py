"""Several real `assignor serve` on one real PostgreSQL: each group has one owner, and others say which; when an owner
dies, stands still or stops, members go on elsewhere with what they have.
"""

import json
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from coordinator_client.access.tls import CLIENT_CERTFILE, TRUST_VARIABLE
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.coordinator_api.group_members import HttpMember, definition, problem, settle
from tests.coordinator_api.http.hostile_callers import metric, wait_for
from tests.coordinator_api.roaming import roaming_client
from tests.coordinator_api.service_process import ServiceProcess
from tests.coordinator_api.slow_line import SlowLine
from tests.coordinator_api.store.postgresql import Postgresql, programs
from tests.tls_certificates import Authority
from tests.told import Tell

LEASE_MS = 1_200
QUICK = ("--group-initial-rebalance-delay-ms", "50", "--log-format", "json")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


class Fleet:
    """Coordinators of one database. Ends those that still run."""

    def __init__(self, database_url: str, directory: Path, stack: ExitStack) -> None:
        self._database_url = database_url
        self._directory = directory
        self._stack = stack
        self.lease_ms = LEASE_MS

    def reach_database_at(self, port: int) -> None:
        """Services that are started from now on connect to this port of the machine."""
        self._database_url = urlsplit(self._database_url)._replace(netloc=f"coordinator@127.0.0.1:{port}").geturl()

    def service(self, *flags: str, **environment: str) -> ServiceProcess:
        """Not started."""
        lease = ("--lease-timeout-ms", str(self.lease_ms))
        directory = self._directory / uuid.uuid4().hex[:8]
        directory.mkdir()
        return ServiceProcess(
            directory, "--database-url", self._database_url, *lease, *QUICK, *flags, environment=environment
        )

    def start(self, *flags: str, **environment: str) -> ServiceProcess:
        return self._stack.enter_context(self.service(*flags, **environment))

    def start_together(self, count: int) -> list[ServiceProcess]:
        services = [self.service() for _ in range(count)]
        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(self._stack.enter_context, services))

    def client(self, *services: ServiceProcess, token: str | None = None) -> httpx.Client:
        return self._stack.enter_context(roaming_client(*(each.url for each in services), token=token))


@pytest.fixture
def fleet(postgresql: Postgresql, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(postgresql.new_database(), tmp_path, stack)


def declare(service: ServiceProcess, **changes: Any) -> str:
    """A new group, which this coordinator owns."""
    group_id = f"group-{uuid.uuid4().hex[:12]}"
    with service.client() as client:
        response = client.put(f"/v1/groups/{group_id}", json=definition(**changes))
        assert response.status_code == 201, response.text
    return group_id


def group_on(owner: ServiceProcess, *others: ServiceProcess) -> str:
    """A new group that stays where it is made: the others have as many."""
    group_id = declare(owner)
    for other in others:
        declare(other)
    return group_id


def status(service: ServiceProcess, path: str) -> int:
    with service.client() as client:
        return client.get(path).status_code


def logged(service: ServiceProcess, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in list(service.log) if line.startswith("{")]
    return [line for line in lines if line.get("event") == event]


def measured(service: ServiceProcess, name: str) -> float:
    with service.client() as client:
        return metric(client, name)


def rebalances(client: httpx.Client, group_id: str) -> list[int]:
    return [each["generation_id"] for each in client.get(f"/v1/groups/{group_id}/rebalances").json()["rebalances"]]


def members_of(client: httpx.Client, group_id: str, **join: Any) -> list[HttpMember]:
    members = [HttpMember(client, group_id, **join) for _ in range(2)]
    for member in members:
        assert member.subscribe().status_code == 201
    settle(*members)
    return members


def check_all_go_on(members: list[HttpMember]) -> None:
    """Nobody is told to do anything: each has what it had."""
    for member in members:
        heard = member.heartbeat()
        assert heard.status_code == 200, heard.text
        told = heard.json()
        assert (told["state"], told["rejoin"], told["generation_id"]) == ("Stable", False, member.generation_id)


def test_should_go_on_when_the_owner_is_killed(fleet: Fleet, tell: Tell) -> None:
    first, second = fleet.start(), fleet.start()
    group_id = group_on(first, second)
    client = fleet.client(first, second)
    members = members_of(client, group_id)
    before = rebalances(client, group_id)

    first.kill()
    began_s = time.monotonic()
    check_all_go_on(members)
    tell(f"lease {LEASE_MS} ms: the first heartbeat was answered {time.monotonic() - began_s:.2f} s after kill -9")

    assert rebalances(client, group_id) == before
    check_all_go_on(members)
    assert logged(second, "coordinator_ended")
    assert group_id in {each["group"] for each in logged(second, "group_taken")}
    assert measured(second, "assignor_takeover_total") >= 1
    newcomer = HttpMember(client, group_id)
    assert newcomer.subscribe().status_code == 201
    settle(*members, newcomer)


def test_should_refuse_late_answers_of_one_that_stood_still(fleet: Fleet) -> None:
    first, second = fleet.start(), fleet.start()
    group_id = group_on(first, second)
    client = fleet.client(second, first)
    members = members_of(client, group_id)
    before = rebalances(client, group_id)
    path = f"/v1/groups/{group_id}"
    with first.client() as late, ThreadPoolExecutor(4) as threads:
        late.get("/livez")
        first.process.send_signal(signal.SIGSTOP)
        beat = {"generation_id": members[0].generation_id}
        asked: list[Future[httpx.Response]] = [
            threads.submit(late.post, f"{path}/members/{members[0].member_id}/heartbeat", json=beat),
            threads.submit(late.get, path),
            threads.submit(late.get, f"{path}/hold"),
            threads.submit(late.post, f"{path}/rebalance"),
        ]
        check_all_go_on(members)  # at the second one, as soon as it has taken the group
        first.process.send_signal(signal.SIGCONT)
        answers = [each.result() for each in asked]

    assert {problem(each) for each in answers} <= {
        (503, "COORDINATOR_NOT_AVAILABLE"),
        (307, "NOT_COORDINATOR"),
        (429, "THROTTLING_QUOTA_EXCEEDED"),  # it is behind
    }
    wait_for(lambda: bool(logged(first, "coordinator_removed")), "it finds out that its row is gone")
    wait_for(lambda: status(first, "/readyz") == 200, "it enters anew")
    assert logged(first, "lease_ended")
    check_all_go_on(members)
    assert rebalances(client, group_id) == before


def test_should_hand_everything_over_before_a_clean_stop(fleet: Fleet, tell: Tell) -> None:
    fleet.lease_ms = 30_000  # nobody waits for that
    first, second = fleet.start(), fleet.start()
    group_id = group_on(first, second)
    client = fleet.client(first, second)
    members = members_of(client, group_id)
    before = rebalances(client, group_id)
    with first.client() as held, ThreadPoolExecutor(1) as threads:
        body: dict[str, Any] = {"members": {members[0].member_id: {"generation_id": members[0].generation_id}}}
        body["known"] = held.post(f"/v1/groups/{group_id}/heartbeat", json=body).json()["news"]
        waits = threads.submit(held.post, f"/v1/groups/{group_id}/heartbeat?wait_ms=30000", json=body)
        wait_for(lambda: measured(first, "assignor_long_polls") == 1, "it is held")

        began_s = time.monotonic()
        stopping = threading.Thread(target=lambda: codes.append(first.stop()))
        codes: list[int] = []
        stopping.start()
        sent_on = waits.result()
        assert problem(sent_on) == (307, "NOT_COORDINATOR")
        check_all_go_on(members)
        tell(f"after SIGTERM, all members were answered by the other one after {time.monotonic() - began_s:.2f} s")
        stopping.join()

    assert codes == [0]
    assert group_id in {each["group"] for each in logged(first, "group_given")}
    assert rebalances(client, group_id) == before
    check_all_go_on(members)


def test_should_come_back_with_the_database_and_evict_nobody(fleet: Fleet, postgresql: Postgresql) -> None:
    first, second = fleet.start(), fleet.start()
    group_id = group_on(first, second)
    session_ms = 2 * LEASE_MS
    members = members_of(fleet.client(first), group_id, session_timeout_ms=session_ms)
    client = fleet.client(first, second)
    before = rebalances(client, group_id)
    with first.client() as direct, postgresql.frozen():
        wait_for(lambda: status(first, "/livez") == 200 and bool(logged(first, "lease_ended")), "its lease ends")
        heartbeat = f"/v1/groups/{group_id}/members/{members[0].member_id}/heartbeat"
        answer = direct.post(heartbeat, json={"generation_id": members[0].generation_id})
        assert problem(answer) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert answer.headers["retry-after"] == "1"
        assert problem(direct.get("/v1/groups")) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert problem(direct.get("/readyz")) == (503, "COORDINATOR_NOT_AVAILABLE")
        assert status(first, "/livez") == 200
        time.sleep(2 * session_ms / 1000)  # what is tested: longer than their sessions

    wait_for(lambda: bool(logged(first, "lease_regained")), "it renews its lease")
    check_all_go_on(members)
    assert rebalances(client, group_id) == before
    for service in (first, second):
        assert not logged(service, "coordinator_ended")
        assert not logged(service, "member_removed")


def test_should_move_no_group_while_each_statement_takes_a_second(fleet: Fleet, postgresql: Postgresql) -> None:
    with SlowLine(postgresql.port) as line:
        fleet.reach_database_at(line.port)
        services = fleet.start_together(3)
        group_ids = [declare(service) for service in services]

        def owners() -> dict[str, int]:
            """By group, the number of the only service that answers for it."""
            found: dict[str, int] = {}
            for number, service in enumerate(services):
                with service.client() as client:
                    for group_id in group_ids:
                        if client.get(f"/v1/groups/{group_id}").status_code == 200:
                            assert found.setdefault(group_id, number) == number, "it has one owner"
            return found

        before = dict(zip(group_ids, range(3), strict=True))
        wait_for(lambda: owners() == before, "each has its group")
        line.delay_s = 1.0
        wait_for(lambda: all(logged(service, "lease_ended") for service in services), "renewals come too late")
        time.sleep(5 * LEASE_MS / 1000)  # what is tested: for several leases
        line.delay_s = 0.0

        wait_for(lambda: owners() == before, "each answers for its group again")
        for service in services:
            for event in ("coordinator_ended", "coordinator_removed", "group_lost", "group_given"):
                assert not logged(service, event), event


def test_should_share_the_groups_of_a_database_when_several_start_at_once(fleet: Fleet) -> None:
    only = fleet.start()
    group_ids = sorted(declare(only) for _ in range(12))
    assert only.stop() == 0

    services = fleet.start_together(3)

    def owned() -> list[set[str]]:
        found = []
        for service in services:
            with service.client() as client:
                answer = client.get("/v1/groups", headers={"Assignor-Asked-By": "coordinator"})
                found.append({each["group_id"] for each in answer.json()["groups"]})
        return found

    # nobody gives away less than a quarter above its share
    wait_for(lambda: max(map(len, owned())) <= 5 and sum(map(len, owned())) == 12, "each has its share")
    assert sorted(group_id for each in owned() for group_id in each) == group_ids
    for service in services:
        with service.client() as client:
            for group_id in group_ids:
                answer = client.get(f"/v1/groups/{group_id}", follow_redirects=True)
                assert answer.json()["group_id"] == group_id


def test_should_list_all_groups_wherever_it_is_asked(fleet: Fleet) -> None:
    fleet.lease_ms = 30_000  # nobody takes over what is silent
    secret = {"ASSIGNOR_AUTH_TOKEN": "a token for a test"}
    first, second = fleet.start(**secret), fleet.start(**secret)
    token = secret["ASSIGNOR_AUTH_TOKEN"]
    with first.client(token) as one, second.client(token) as other:
        for client, group_id in ((one, "a"), (other, "b"), (one, "c"), (other, "d")):
            assert client.put(f"/v1/groups/{group_id}", json=definition()).status_code == 201

        def listed(client: httpx.Client) -> dict[str, str]:
            return {each["group_id"]: each["state"] for each in client.get("/v1/groups").json()["groups"]}

        whole = dict.fromkeys("abcd", "Empty")
        wait_for(lambda: listed(one) == listed(other) == whole, "both show all")
        assert list(listed(one)) == sorted(whole)
        page = other.get("/ui/groups", headers={"Accept": "text/html"}).text
        assert all(f'id="group-{each}"' in page for each in whole)
        assert "not known yet" not in page, "what the other one has worked out is shown, too"

        first.process.send_signal(signal.SIGSTOP)
        time.sleep(1.1)  # what was said before is not kept for longer
        began_s = time.monotonic()
        assert listed(other) == {"a": "Unknown", "b": "Empty", "c": "Unknown", "d": "Empty"}
        assert time.monotonic() - began_s < 30, "it does not wait for the silent one"
        assert "its coordinator does not answer" in other.get("/ui/groups", headers={"Accept": "text/html"}).text
        first.process.send_signal(signal.SIGCONT)


def test_should_speak_tls_to_all(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path, "authority")
    server, caller = authority.issue("server", for_servers=True), authority.issue("caller")
    known = ("--ssl-certfile", str(server), "--ssl-ca-certs", str(authority.file), "--ssl-cert-reqs", "required")
    trusts = {TRUST_VARIABLE: str(authority.file), CLIENT_CERTFILE: str(caller)}
    first, second = fleet.start(*known, **trusts), fleet.start(*known, **trusts)
    for name, value in trusts.items():
        monkeypatch.setenv(name, value)

    with CoordinatorClient(first.url) as one, CoordinatorClient(second.url) as other:
        one.declare("a", definition())
        other.declare("b", definition())

        assert first.url.startswith("https://")
        assert [client.describe(group)["group_id"] for client in (one, other) for group in "ab"] == list("abab")
        wait_for(lambda: one.group_ids() == other.group_ids() == ["a", "b"], "both list both")
    assert not logged(first, "coordinator_not_heard") + logged(second, "coordinator_not_heard")


def test_should_know_a_token_that_another_coordinator_created(fleet: Fleet) -> None:
    secret = {"ASSIGNOR_AUTH_TOKEN": "a token for a test"}
    first, second = fleet.start(**secret), fleet.start(**secret)
    with first.client("a token for a test") as admin:
        body = {"name": "ops", "right": "admin", "groups": "*"}
        token = admin.post("/v1/tokens", json=body).json()["token"]
        with second.client(token) as client:
            wait_for(lambda: client.get("/v1/groups").status_code == 200, "it is known")
            assert admin.delete("/v1/tokens/ops").status_code == 204
            wait_for(lambda: client.get("/v1/groups").status_code == 401, "it is revoked")


def test_should_create_a_group_once_when_two_are_asked_at_one_moment(fleet: Fleet) -> None:
    services = fleet.start_together(2)  # on an empty database: one of them makes its tables
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        clients = [stack.enter_context(each.client()) for each in services]
        for number in range(10):
            path = f"/v1/groups/raced-{number}"
            answers = list(
                threads.map(lambda client: client.put(path, json=definition(), follow_redirects=True), clients)  # noqa: B023
            )
            if not any(each.status_code == 503 for each in answers):  # on a busy machine a lease may end
                assert sorted(each.status_code for each in answers) == [200, 201], [each.text for each in answers]
            for client in clients:
                wait_for(lambda: client.put(path, json=definition()).status_code in (200, 307), "both know it")  # noqa: B023


def test_should_count_groups_of_others_for_quotas(fleet: Fleet) -> None:
    first, second = fleet.start(), fleet.start()
    with first.client() as client:
        body = {"name": "root", "right": "admin", "groups": "*"}
        root = client.post("/v1/tokens", json=body).json()["token"]
    with first.client(root) as client:
        tenant = client.post("/v1/tokens", json={"name": "t", "right": "member", "groups": "t-*"}).json()["token"]
    with first.client(tenant) as one, second.client(tenant) as other:
        wait_for(lambda: other.get("/v1/groups").status_code == 200, "the token is known")
        wait_for(lambda: one.put("/v1/groups/t-1", json=definition()).status_code in (200, 201), "the first makes one")
        wait_for(
            lambda: other.put("/v1/groups/t-2", json=definition()).status_code in (200, 201), "the second makes one"
        )

        def used(client: httpx.Client) -> tuple[int, bool]:
            quotas = client.get("/v1/groups").json().get("quotas")  # none while a lease has ended
            return (0, False) if quotas is None else (quotas["groups"]["used"], quotas["bytes"]["used"] > 0)

        wait_for(lambda: used(one) == used(other) == (2, True), "both count both")


def test_should_evict_nobody_because_connections_moved(fleet: Fleet) -> None:
    first, second = fleet.start(), fleet.start()
    group_id = group_on(first, second)
    client = fleet.client(first, second)
    members = members_of(client, group_id, leave_on_disconnect=True)
    before = rebalances(client, group_id)
    body = {"members": {each.member_id: {"generation_id": each.generation_id} for each in members}}
    connections = [first.client() for _ in range(3)]
    for each in connections:
        assert each.post(f"/v1/groups/{group_id}/heartbeat", json=body).status_code == 200
    first.stop()
    for each in connections:
        each.close()
    for _ in range(20):
        heard = client.post(f"/v1/groups/{group_id}/heartbeat", json=body).json()
        assert not any(news.get("rejoin", True) for news in heard["members"].values()), heard
        time.sleep(0.05)  # longer than the grace of a broken connection, all together
    assert rebalances(client, group_id) == before
    assert not logged(second, "member_removed")
