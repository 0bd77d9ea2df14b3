"""Who may call what: each call with each right, at a real service with real groups and members."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from starlette.routing import Route

from coordinator_api.http.app import create_app
from coordinator_api.http.call_rights import OPEN_PATHS, is_page
from coordinator_api.settings import Settings
from coordinator_api.web.pages import WEB_PAGES
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of, format_entry
from tests.checkout import ROOT
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, settle
from tests.coordinator_api.http.endpoints import RIGHTS
from tests.coordinator_api.http.tenants import join_body
from tests.coordinator_api.reported_rebalances import new_name, reported
from tests.coordinator_api.service_process import ServiceProcess

PAGE = ROOT / "docs/how-to/protect-the-coordinator.md"
PRINCIPALS = {
    "reader": Principal("reader", Right.READER),
    "member": Principal("member", Right.MEMBER),
    "operator": Principal("operator", Right.OPERATOR),
    "admin": Principal("admin", Right.ADMIN),
    "own-prefix": Principal("own-prefix", Right.ADMIN, "group-"),
    "other-prefix": Principal("other-prefix", Right.ADMIN, "other-"),
}
"""The token of each is its name. Every group of this file begins with `group-`."""

STRANGER = "a caller without a token"
OF_ALL_GROUPS = {("GET", "/metrics")}
_MS = 30_000


class Place(NamedTuple):
    """A group with a member that has its assignment. `token`: the name of one that may be revoked."""

    group: str
    member: str
    token: str


class Sent(NamedTuple):
    path: str
    json: object = None
    parameters: Mapping[str, int | str] | None = None


Call = tuple[str, str]
BEAT = {"generation_id": 1}


def _token(place: Place) -> dict[str, str]:
    return {"name": place.token, "right": "reader", "groups": f"{place.group}*"}


BODIES: dict[Call, Callable[[Place], object]] = {
    ("POST", "/v1/assign"): lambda _: reported("g", 1),
    ("POST", "/v1/simulate"): lambda _: reported("g", 1),
    ("PUT", "/v1/groups/{group}"): lambda _: definition(),
    ("POST", "/v1/groups/{group}/rebalances"): lambda place: reported(place.group, 1),
    ("POST", "/v1/groups/{group}/subscriptions"): lambda _: join_body(),
    ("POST", "/v1/groups/{group}/heartbeat"): lambda place: {"members": {place.member: BEAT}},
    ("POST", "/v1/groups/{group}/members/{member}/heartbeat"): lambda _: BEAT,
    ("PUT", "/v1/groups/{group}/rejoin-grace"): lambda _: {"grace_ms": 1_000},
    ("PUT", "/v1/groups/{group}/hold"): lambda _: {"time_limit_ms": 1_000},
    # a name and a prefix that whoever is bound to a prefix may take
    ("POST", "/v1/tokens"): lambda place: {**_token(place), "name": f"{place.token}-more"},
}
QUERIES: dict[Call, Callable[[Place], Mapping[str, int | str]]] = {
    ("GET", "/v1/groups/{group}/members/{member}/assignment"): lambda _: {"min_generation": 1, "wait_ms": _MS},
    ("GET", "/v1/groups/{group}/drain"): lambda place: {"member": place.member},
    ("DELETE", "/v1/groups/{group}/drain"): lambda place: {"member": place.member},
    ("POST", "/v1/groups/{group}/discard"): lambda _: {"reason": "no"},
}
"""What a call needs besides its address to be carried out."""


def _sent(call: Call, place: Place) -> Sent:
    if call == ("POST", "/v1/groups/{group}/rebalances"):  # which is for a group that is led elsewhere
        place = place._replace(group=f"group-{new_name()}")
    path = call[1].format(group=place.group, member=place.member, name=place.token, generation=1)
    body, query = BODIES.get(call), QUERIES.get(call)
    return Sent(path, None if body is None else body(place), None if query is None else query(place))


REFUSED_BY_THE_GROUP = {
    ("DELETE", "/v1/groups/{group}"): 409,
    ("POST", "/v1/groups/{group}/repair"): 409,
    ("POST", "/v1/groups/{group}/approve"): 409,
    ("POST", "/v1/groups/{group}/discard"): 409,
    ("GET", "/v1/groups/{group}/drain"): 404,
}
"""The group of the cell has a member, which is not drained, its log is whole, and no rebalance waits: whoever may call
is told so.
"""


CHANGES_THE_PLACE = {
    ("POST", "/v1/groups/{group}/rebalance"),
    ("POST", "/v1/groups/{group}/subscriptions"),
    ("POST", "/v1/groups/{group}/drain"),
    ("DELETE", "/v1/groups/{group}/members/{member}"),
    ("DELETE", "/v1/tokens/{name}"),
}
"""One place serves all calls but these."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    entries = [format_entry(TokenEntry(each, digest_of(name.encode()))) for name, each in PRINCIPALS.items()]
    flags = ("--group-initial-rebalance-delay-ms", "0")
    environment = {"ASSIGNOR_AUTH_TOKENS": ";".join(entries)}
    with ServiceProcess(tmp_path_factory.mktemp("rights"), *flags, environment=environment) as process:
        yield process


@pytest.fixture
def admin(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.client("admin") as client:
        yield client


@pytest.fixture(scope="module")
def built() -> set[tuple[str, str]]:
    """Every method and address of the application, but the open ones and those of `PAGE_RIGHTS`."""
    routes: list[Any] = list(create_app(Settings(), pages=WEB_PAGES).routes)
    asked = [route for route in routes if route.path not in OPEN_PATHS and not is_page(route.path)]
    return {(method, route.path) for route in asked for method in route.methods - {"HEAD"}}


def _new_place(admin: httpx.Client) -> Place:
    group = new_group(admin)
    member = HttpMember(admin, group)
    assert member.subscribe().is_success
    settle(member)
    place = Place(group, str(member.member_id), f"{group}-token")
    assert admin.post("/v1/tokens", json=_token(place)).is_success
    return place


def _send(client: httpx.Client, method: str, sent: Sent) -> httpx.Response:
    return client.request(method, sent.path, json=sent.json, params=sent.parameters)


def _expected(call: tuple[str, str], caller: str) -> int:
    """200 stands for any success."""
    if caller == STRANGER:
        return 401
    principal = PRINCIPALS[caller]
    may = (
        principal.right.includes(RIGHTS[call])
        and ("{group}" not in call[1] or principal.sees("group-"))
        and (call not in OF_ALL_GROUPS or principal.sees_all)
    )
    # the token of the cell is of its group: for whom it is not, it does not exist
    if may and call == ("DELETE", "/v1/tokens/{name}") and not principal.sees("group-"):
        return 404
    return REFUSED_BY_THE_GROUP.get(call, 200) if may else 403


@pytest.mark.parametrize("caller", [STRANGER, *PRINCIPALS])
def test_should_let_everybody_make_the_calls_of_their_right_and_no_others(
    service: ServiceProcess, admin: httpx.Client, built: set[tuple[str, str]], caller: str
) -> None:
    shared = _new_place(admin)
    before = admin.get(f"/v1/groups/{shared.group}/rebalances").json()
    document = admin.get("/openapi.json").json()
    wrong = []
    with service.client(None if caller == STRANGER else caller) as client:
        for call in sorted(RIGHTS.keys() & built):
            expected = _expected(call, caller)
            # what is refused changes nothing
            place = _new_place(admin) if call in CHANGES_THE_PLACE and expected not in (401, 403) else shared
            sent = _sent(call, place)
            if call == ("POST", "/v1/tokens") and caller == "other-prefix":
                sent = Sent("/v1/tokens", {"name": "other-one", "right": "reader", "groups": "other-*"})
            answer = _send(client, call[0], sent)
            found = 200 if answer.is_success or answer.is_redirect else answer.status_code
            if answer.is_success and answer.content:
                _check_as_described(document, call, answer)
            if found != expected:
                wrong.append((call, expected, answer.status_code, answer.text))

    assert wrong == []
    assert admin.get(f"/v1/groups/{shared.group}/rebalances").json() == before
    listed = {each["name"] for each in admin.get("/v1/tokens").json()["tokens"]}
    assert shared.token in listed


def _check_as_described(document: Any, call: Call, answer: httpx.Response) -> None:
    """Its status, its type and its form are those of the OpenAPI document, which has no pages."""
    if call[1] in document["paths"]:
        operation = document["paths"][call[1]][call[0].lower()]
        media_type = answer.headers["content-type"].partition(";")[0]
        schema = operation["responses"][str(answer.status_code)]["content"][media_type]["schema"]
        if media_type == "application/json":
            Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())


def test_should_have_a_right_for_every_address_and_nothing_else(built: set[tuple[str, str]]) -> None:
    assert built - RIGHTS.keys() == set(), "a new call needs its right in call_rights.ENDPOINTS"
    assert RIGHTS.keys() - built <= {("GET", "/v1/groups/{group}/log"), ("POST", "/v1/groups/{group}/repair")}


def test_should_build_every_route_before_the_first_request() -> None:
    """A router that is included would be built within it."""
    routes = create_app(Settings(), pages=WEB_PAGES).routes
    documents = [route.path for route in routes if type(route) is Route]  # no group is named there, and nothing changed
    calls = [route for route in routes if isinstance(route, APIRoute)]

    assert sorted(documents) == ["/openapi.json"]
    assert len(calls) == len(routes) - len(documents)


def test_should_say_on_the_page_which_right_each_call_needs() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    said = {}
    for right, calls in rows:
        for method, path in re.findall(r"`([A-Z]+) (/[^` ]*)`", calls):
            said[method, path] = Right(right)
    assert said == dict(RIGHTS)


def test_should_let_operators_alone_replace_a_running_topology(service: ServiceProcess, admin: httpx.Client) -> None:
    place = _new_place(admin)
    other = definition(topology={**definition()["topology"], "copartition_groups": [["events"]]})
    found = {}
    for name in ("reader", "member", "operator", "admin"):
        with service.client(name) as client:
            answer = client.put(f"/v1/groups/{place.group}", json=other, params={"replace": "true"})
            found[name] = answer.status_code

    assert found == {"reader": 403, "member": 403, "operator": 200, "admin": 200}


def test_should_tell_a_token_of_another_prefix_nothing_of_a_group(service: ServiceProcess, admin: httpx.Client) -> None:
    """Neither that it exists, nor how many there are: the answers are those for a group that nobody has declared."""
    place = _new_place(admin)
    nobodys = place._replace(group=f"{place.group[:-1]}_", member=f"{place.member[:-1]}_", token=f"{place.token}_")
    with service.client("other-prefix") as other:
        assert other.put("/v1/groups/other-mine", json=definition()).status_code == 201
        differing = []
        for call in sorted(RIGHTS):
            real, none = (_send(other, call[0], _sent(call, each)) for each in (place, nobodys))
            if "{" in call[1] and (real.status_code, real.content) != (none.status_code, none.content):
                differing.append((call, real.text, none.text))
        assert differing == []
        groups, tokens = other.get("/v1/groups"), other.get("/v1/tokens")
        assert [each["group_id"] for each in groups.json()["groups"]] == ["other-mine"]
        assert groups.json()["unreadable"] == []
        assert {each["name"] for each in tokens.json()["tokens"]} <= {"other-prefix", "other-one"}
        assert problem(other.get("/metrics")) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        for address in ("", "/nonsense", "/members", f"/members/{place.member}/nonsense"):
            assert other.get(f"/v1/groups/{place.group}{address}").status_code == 403
        shown = "".join(other.get(path).text for path in ("/", "/version", "/v1/groups", "/v1/tokens", "/openapi.json"))
        assert place.group not in shown


def test_should_not_tell_how_many_groups_others_have_when_there_are_enough(tmp_path_factory: Any) -> None:
    entries = [format_entry(TokenEntry(each, digest_of(name.encode()))) for name, each in PRINCIPALS.items()]
    environment = {"ASSIGNOR_AUTH_TOKENS": ";".join(entries), "ASSIGNOR_GROUP_MAX_COUNT": "3"}
    with ServiceProcess(tmp_path_factory.mktemp("full"), environment=environment) as service:
        with service.client("admin") as admin:
            for number in range(3):
                assert admin.put(f"/v1/groups/theirs-{number}", json=definition()).status_code == 201
        with service.client("other-prefix") as other:
            refused = other.put("/v1/groups/other-mine", json=definition())
        with service.client() as stranger:
            ready = stranger.get("/readyz").text

    assert problem(refused) == (429, "POLICY_VIOLATION")
    assert not re.search(r"\d", refused.json()["detail"])
    assert not re.search(r"\d", ready)
