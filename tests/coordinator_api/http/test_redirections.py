"""Calls about groups of other coordinators, in one process: who is sent where, and what is answered while nobody knows.

`tests/coordinator_api/test_several_coordinators.py` has real ones.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from coordinator_api.errors import GroupIsLoading
from coordinator_api.lease.coordinator_lease import CoordinatorLease
from coordinator_api.lease.decisions import Elsewhere, Here, NoSuchGroup
from coordinator_api.lease.owned_groups import OtherGroup
from coordinator_api.store.lease_store import FileLeaseStore
from coordinator_api.store.store_errors import LeaseEnded, NotOwner
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import definition, problem
from tests.coordinator_api.http.tenants import Tenants, join_body, tenants

PRINCIPALS = {"olga": (Right.ADMIN, ""), "tom": (Right.READER, "t-")}
OTHER = "http://127.0.0.1:1"
HTML = {"Accept": "text/html"}


class OneOfSeveral(CoordinatorLease):
    """`whereabouts`: where groups are that are not here; others do not exist. `has_lease`: whether it may answer."""

    def __init__(self, service: Tenants) -> None:
        coordinator = service.coordinator
        store = FileLeaseStore(coordinator.repository.stored_bytes)
        super().__init__(store, "http://here", "1", coordinator, coordinator.metrics)
        self.is_shared = True
        self.whereabouts: dict[str, Elsewhere | None] = {}
        self.asked: list[str] = []
        self.has_lease = True

    def check(self) -> None:
        if not self.has_lease:
            raise LeaseEnded(LeaseEnded.public)

    async def located(self, group_id: str) -> Here | Elsewhere | NoSuchGroup:
        self.asked.append(group_id)
        self.check()
        if group_id not in self.whereabouts:
            return NoSuchGroup()
        found = self.whereabouts[group_id]
        if found is None:
            raise GroupIsLoading(f"group {group_id} is being taken over")
        return found

    def is_unknown(self, group_id: str) -> bool:
        return group_id not in self.whereabouts

    def elsewhere(self) -> list[OtherGroup]:
        found = sorted(self.whereabouts.items())
        return [OtherGroup(group_id, None if where is None else where.url, 3) for group_id, where in found]

    def problem(self) -> str | None:
        return None if self.has_lease else "it has ended, and was not renewed yet"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Tenants]:
    async with tenants(tmp_path, PRINCIPALS) as running:
        olga = await running.client("olga")
        assert (await olga.put("/v1/groups/here", json=definition())).status_code == 201
        yield running


@pytest.fixture
def owner(service: Tenants) -> OneOfSeveral:
    service.coordinator.lease = owner = OneOfSeveral(service)
    owner.whereabouts = {"there": Elsewhere(OTHER), "nowhere": None, "t-1": Elsewhere(OTHER)}
    return owner


@pytest.fixture
async def client(service: Tenants) -> httpx.AsyncClient:
    return await service.client("olga")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/groups/there"),
        ("PUT", "/v1/groups/there?replace=true"),
        ("DELETE", "/v1/groups/there"),
        ("GET", "/v1/groups/there/rebalances?before=3&limit=5"),
        ("POST", "/v1/groups/there/subscriptions"),
        ("POST", "/v1/groups/there/heartbeat?wait_ms=1"),
        ("POST", "/v1/groups/there/members/m%C3%A9%20x/heartbeat"),
        ("GET", "/v1/groups/there/members/m/assignment"),
        ("DELETE", "/v1/groups/there/members/m"),
        ("POST", "/v1/groups/there/repair?execute=true"),
        ("GET", "/ui/groups/there/topology"),
    ],
)
async def test_should_lead_to_the_owner(owner: OneOfSeveral, client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path, json={})

    assert problem(answer) == (307, "NOT_COORDINATOR")
    assert answer.headers["location"] == OTHER + path


async def test_should_answer_what_is_here_or_names_no_group(owner: OneOfSeveral, client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/groups/here")).status_code == 200
    assert (await client.post("/v1/groups/here/subscriptions", json=join_body())).status_code == 201
    assert (await client.get("/ui/groups/here")).status_code == 200
    assert (await client.get("/version")).status_code == 200
    assert problem(await client.get("/v1/groups/not%20one")) == (422, "INVALID_GROUP_ID")
    assert problem(await client.get("/v1/groups/there/no/such/address")) == (404, "RESOURCE_NOT_FOUND")
    assert owner.asked == []


async def test_should_say_that_nobody_has_a_group_and_create_it(owner: OneOfSeveral, client: httpx.AsyncClient) -> None:
    assert problem(await client.get("/v1/groups/new")) == (404, "GROUP_ID_NOT_FOUND")
    assert problem(await client.post("/v1/groups/new/heartbeat", json={})) == (404, "GROUP_ID_NOT_FOUND")
    assert (await client.put("/v1/groups/new", json=definition())).status_code == 201


async def test_should_have_all_wait_while_a_group_is_taken_over(owner: OneOfSeveral, client: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/v1/groups/nowhere"), ("POST", "/v1/groups/nowhere/heartbeat")):
        answer = await client.request(method, path, json={})
        assert problem(answer) == (503, "COORDINATOR_LOAD_IN_PROGRESS")
        assert answer.headers["retry-after"] == "1"


async def test_should_answer_nothing_without_a_lease(owner: OneOfSeveral, client: httpx.AsyncClient) -> None:
    member = (await client.post("/v1/groups/here/subscriptions", json=join_body())).json()["member_id"]
    owner.has_lease = False
    for method, path in (
        ("GET", "/v1/groups"),
        ("GET", "/v1/groups/here"),
        ("GET", "/v1/groups/there"),
        ("GET", "/v1/groups/new"),
        ("PUT", "/v1/groups/new"),
        ("GET", "/v1/groups/here/hold"),
        ("GET", "/v1/groups/here/rebalances"),
        ("POST", "/v1/groups/here/rebalance"),
        ("POST", "/v1/groups/here/subscriptions"),
        ("POST", f"/v1/groups/here/members/{member}/heartbeat"),
        ("GET", f"/v1/groups/here/members/{member}/assignment"),
        ("DELETE", f"/v1/groups/here/members/{member}"),
        ("GET", "/ui/groups"),
        ("GET", "/ui/groups/here"),
        ("GET", "/ui/groups.json"),
    ):
        answer = await client.request(method, path, json=join_body())
        assert problem(answer) == (503, "COORDINATOR_NOT_AVAILABLE"), path
        assert answer.headers["retry-after"] == "1"
    ready = await client.get("/readyz")
    assert problem(ready) == (503, "COORDINATOR_NOT_AVAILABLE")
    assert ready.json()["parts"]["lease"] == "it has ended, and was not renewed yet"
    assert (await client.get("/livez")).status_code == 200
    owner.has_lease = True
    assert (await client.get("/readyz")).json()["parts"]["lease"] == "ok"


async def test_should_never_say_that_a_group_is_gone_when_it_was_lost_under_a_call(
    service: Tenants, owner: OneOfSeveral, client: httpx.AsyncClient
) -> None:
    """A member that heard so would end for good."""
    service.coordinator.groups["here"].lease.end()  # the guard still finds it open
    for method, path in (
        ("POST", "/v1/groups/here/subscriptions"),
        ("POST", "/v1/groups/here/members/m/heartbeat"),
        ("GET", "/v1/groups/here"),
        ("POST", "/v1/groups/here/rebalance"),
        ("PUT", "/v1/groups/here"),
    ):
        body = definition() if method == "PUT" else join_body()
        answer = await client.request(method, path, json={"generation_id": 0} if "heartbeat" in path else body)
        assert problem(answer) == (503, "COORDINATOR_LOAD_IN_PROGRESS"), path
    owner.whereabouts["here"] = Elsewhere(OTHER)
    service.coordinator.lose("here")
    assert problem(await client.get("/v1/groups/here")) == (307, "NOT_COORDINATOR")
    with pytest.raises(NotOwner):
        service.coordinator.group("here")


async def test_should_ask_for_the_right_before_it_says_where_a_group_is(owner: OneOfSeveral, service: Tenants) -> None:
    tom = await service.client("tom")
    assert problem(await tom.get("/v1/groups/there")) == (403, "GROUP_AUTHORIZATION_FAILED")
    assert problem(await tom.get("/v1/groups/t-1")) == (307, "NOT_COORDINATOR")
    assert problem(await tom.delete("/v1/groups/t-1")) == (403, "GROUP_AUTHORIZATION_FAILED")
    nobody = await service.client(None)
    assert problem(await nobody.get("/v1/groups/t-1")) == (401, "SASL_AUTHENTICATION_FAILED")


async def test_should_send_a_page_to_the_owner_as_a_whole(owner: OneOfSeveral, client: httpx.AsyncClient) -> None:
    whole = await client.get("/ui/groups/there/time?limit=5", headers=HTML)
    assert (whole.status_code, whole.headers["location"]) == (307, f"{OTHER}/ui/groups/there/time?limit=5")
    part = await client.get("/ui/groups/there/time?limit=5", headers={**HTML, "HX-Request": "true"})
    assert (part.status_code, part.headers["hx-redirect"]) == (204, f"{OTHER}/ui/groups/there/time?limit=5")


async def test_should_list_groups_as_unknown(owner: OneOfSeveral, client: httpx.AsyncClient, service: Tenants) -> None:
    listed = (await client.get("/v1/groups")).json()["groups"]

    assert [(each["group_id"], each["state"], each["members"]) for each in listed] == [
        ("here", "Empty", 0),
        ("nowhere", "Unknown", 3),
        ("t-1", "Unknown", 3),
        ("there", "Unknown", 3),
    ]
    page = (await client.get("/ui/groups", headers=HTML)).text
    assert page.count("its coordinator does not answer") == 3
    tom = await service.client("tom")
    assert [each["group_id"] for each in (await tom.get("/v1/groups")).json()["groups"]] == ["t-1"]


async def test_should_show_other_coordinators_own_groups_only(owner: OneOfSeveral, client: httpx.AsyncClient) -> None:
    asked_by = {"Assignor-Asked-By": "coordinator"}
    for path in ("/v1/groups", "/ui/groups.json"):
        listed = (await client.get(path, headers=asked_by)).json()["groups"]
        assert [each["group_id"] for each in listed] == ["here"]
