"""Who may read the stores of an instance: whoever has the token, and without one only this machine."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from assignor.errors import InputError
from streams_runtime.queries.client import StateStoreClient
from streams_runtime.queries.host_calls import QueryFailed
from streams_runtime.queries.problems import QueryCode
from streams_runtime.queries.server import QueryServer
from tests.streams_runtime.queries.fake_instance import STORE, FakeInstance, counts

QUICKLY_S = 3.0
TOKEN = "a-token-for-tests"
PATHS = ("/status", "/metrics", "/v1/metadata", f"/v1/stores/{STORE}/key?key=cat", "/openapi.json", "/nowhere")


@pytest.fixture
def guarded() -> Iterator[str]:
    with QueryServer("127.0.0.1:0", TOKEN) as server:
        server.start(FakeInstance().show(counts(cat=3)))
        yield str(server.endpoint)


def get(endpoint: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"http://{endpoint}{path}", headers=headers, timeout=QUICKLY_S, trust_env=False)


@pytest.mark.parametrize("authorization", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}])
@pytest.mark.parametrize("path", PATHS)
def test_should_refuse_a_call_without_the_token(guarded: str, path: str, authorization: dict[str, str]) -> None:
    answer = get(guarded, path, **authorization)

    assert (answer.status_code, answer.json()["code"]) == (401, "SASL_AUTHENTICATION_FAILED")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith('Bearer realm="assignor"')


def test_should_serve_a_call_with_the_token(guarded: str) -> None:
    assert get(guarded, "/v1/metadata", Authorization=f"Bearer {TOKEN}").status_code == 200


def test_should_say_that_it_lives_without_a_token(guarded: str) -> None:
    assert get(guarded, "/livez").json() == {"status": "ok"}


def test_should_be_asked_by_a_client_that_has_the_token(guarded: str) -> None:
    with StateStoreClient([guarded], timeout_s=QUICKLY_S, token=TOKEN) as stores:
        assert [copy["role"] for copy in stores.copies(guarded, STORE)] == ["active"]


def test_should_fail_at_once_when_the_client_has_another_token(guarded: str) -> None:
    with (
        StateStoreClient([guarded], timeout_s=60.0, token="another") as stores,
        pytest.raises(QueryFailed, match="the bearer token is not this service's") as failed,
    ):
        stores.get(STORE, b"cat")

    assert failed.value.code is QueryCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("headers", [{"Host": "attacker.example"}, {"Origin": "http://attacker.example"}])
def test_should_not_let_a_web_page_in_when_open_on_loopback(headers: dict[str, str]) -> None:
    with QueryServer("127.0.0.1:0") as server:
        server.start(FakeInstance())
        answer = get(str(server.endpoint), "/status", **headers)

    assert (answer.status_code, answer.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("address", ["192.0.2.1:0", "example.org:7001", "[2001:db8::1]:0"])
def test_should_not_listen_where_others_reach_it_without_a_token(address: str) -> None:
    with pytest.raises(InputError, match=r"application\.server: .* can be reached from outside this machine"):
        QueryServer(address)
