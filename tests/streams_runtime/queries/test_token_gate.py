"""Who may read the stores of an instance: whoever has the token, and without one only this machine."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path

import httpx
import pytest

from assignor.errors import InputError
from coordinator_api.settings import Settings
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.signed_tokens import IssuerSettings
from coordinator_client.access.tokens import TokenEntry, digest_of, format_entry
from coordinator_client.calls import CallerToken
from streams_runtime.queries import token_gate
from streams_runtime.queries.client import QueryFailed, StateStoreClient
from streams_runtime.queries.problems import QueryCode
from streams_runtime.queries.server import QueryServer
from tests.coordinator_api.http.oidc_issuer import AUDIENCE, ISSUER, KeyServer, published, signed
from tests.no_tls import NO_TLS
from tests.streams_runtime.queries.fake_instance import STORE, FakeInstance, counts
from tests.waiting import wait_until

QUICKLY_S = 3.0
TOKEN = "a-token-for-tests"
PATHS = ("/status", "/metrics", "/v1/metadata", f"/v1/stores/{STORE}/key?key=cat", "/openapi.json", "/nowhere")


@pytest.fixture
def guarded() -> Iterator[str]:
    with closing(QueryServer("127.0.0.1:0", TOKEN)) as server:
        server.start(FakeInstance().show(counts(cat=3)))
        yield str(server.endpoint)


def get(endpoint: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"http://{endpoint}{path}", headers=headers, timeout=QUICKLY_S, trust_env=False, verify=NO_TLS)


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
        pytest.raises(QueryFailed, match="the bearer token is none of this service's") as failed,
    ):
        stores.get(STORE, b"cat")

    assert failed.value.code is QueryCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("headers", [{"Host": "attacker.example"}, {"Origin": "http://attacker.example"}])
def test_should_not_let_a_web_page_in_when_open_on_loopback(headers: dict[str, str]) -> None:
    with closing(QueryServer("127.0.0.1:0")) as server:
        server.start(FakeInstance())
        answer = get(str(server.endpoint), "/status", **headers)

    assert (answer.status_code, answer.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("address", ["192.0.2.1:0", "example.org:7001", "[2001:db8::1]:0"])
def test_should_not_listen_where_others_reach_it_without_a_token(address: str) -> None:
    with pytest.raises(InputError, match=r"application\.server: .* can be reached from outside this machine"):
        QueryServer(address)


def entry(name: str, prefix: str) -> str:
    return format_entry(TokenEntry(Principal(name, Right.READER, prefix), digest_of(name.encode())))


@pytest.mark.parametrize("former_ms, former", [(3_600_000, 200), (0, 401)], ids=["soon after", "later"])
def test_should_take_several_tokens_for_its_application_and_a_changed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former_ms: int, former: int
) -> None:
    """Its own former token counts for a while: those who ask may not have seen the change yet."""
    monkeypatch.setattr(token_gate, "FORMER_TOKEN_MS", former_ms)
    own, listed = tmp_path / "own", tmp_path / "listed"
    own.write_text("mine")
    application = FakeInstance().application_id
    listed.write_text(entry("from-the-file", application))
    monkeypatch.setenv("ASSIGNOR_AUTH_TOKENS", f"{entry('anywhere', '')};{entry('elsewhere', f'{application}-2')}")
    monkeypatch.setenv("ASSIGNOR_AUTH_TOKENS_FILE", str(listed))
    with closing(QueryServer("127.0.0.1:0", CallerToken(file=own))) as server:
        server.start(FakeInstance().show(counts(cat=3)))
        endpoint = str(server.endpoint)

        def status(token: str) -> int:
            return get(endpoint, "/v1/metadata", Authorization=f"Bearer {token}").status_code

        tokens = ("mine", "anywhere", "from-the-file", "elsewhere", "nobodys")
        assert [status(token) for token in tokens] == [200, 200, 200, 403, 401]
        own.write_text("changed")
        listed.write_text(entry("new-in-the-file", application))
        new = ("changed", "new-in-the-file")
        wait_until(lambda: [status(token) for token in new] == [200, 200], "the new tokens")
        assert [status(token) for token in ("mine", "from-the-file", "anywhere")] == [former, 401, 200]


OIDC = "ASSIGNOR_SASL_OAUTHBEARER"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyServer]:
    """Of which the environment says all that has to be said."""
    server = KeyServer()
    monkeypatch.setenv(f"{OIDC}_JWKS_ENDPOINT_URL", server.url)
    monkeypatch.setenv(f"{OIDC}_EXPECTED_ISSUER", ISSUER)
    monkeypatch.setenv(f"{OIDC}_EXPECTED_AUDIENCE", f"another, {AUDIENCE}")
    yield server
    server.close()


def status(server: QueryServer, token: str) -> int:
    return get(str(server.endpoint), "/v1/metadata", Authorization=f"Bearer {token}").status_code


def test_should_take_tokens_that_an_issuer_has_signed_for_its_application(issuer: KeyServer) -> None:
    application = FakeInstance().application_id
    scopes = ("assignor:reader:*", f"assignor:reader:{application}*", f"assignor:admin:{application}-2*")
    with closing(QueryServer("127.0.0.1:0", TOKEN)) as server:
        server.start(FakeInstance().show(counts(cat=3)))

        assert [status(server, signed(scope=scope)) for scope in scopes] == [200, 200, 403]
        assert status(server, TOKEN) == 200
        assert status(server, signed(aud="payments")) == 401
        assert status(server, signed(iss="https://else.example")) == 401
        assert status(server, signed(exp=int(time.time()) - 60)) == 401
        assert status(server, signed(scope=None)) == 401
        assert issuer.asked == 1, "no call asks the issuer"


def test_should_fetch_the_keys_again_when_there_may_be_new(issuer: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{OIDC}_JWKS_ENDPOINT_REFRESH_MS", "1000")
    issuer.document = None
    with closing(QueryServer("127.0.0.1:0")) as server:
        server.start(FakeInstance())
        assert status(server, signed()) == 401
        for kid in ("ec", "later"):
            issuer.document = published(kid)
            wait_until(lambda kid=kid: status(server, signed(kid)) == 200, kid)  # type: ignore[misc]


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("EXPECTED_ISSUER", "", f"{OIDC}_JWKS_ENDPOINT_URL needs {OIDC}_EXPECTED_ISSUER and {OIDC}_EXPECTED_AUDIENCE"),
        ("EXPECTED_AUDIENCE", " , ", f"{OIDC}_JWKS_ENDPOINT_URL needs {OIDC}_EXPECTED_ISSUER"),
        ("JWKS_ENDPOINT_URL", "", f"{OIDC}_EXPECTED_AUDIENCE need {OIDC}_JWKS_ENDPOINT_URL"),
        ("JWKS_ENDPOINT_URL", "issuer.example/keys", f"{OIDC}_JWKS_ENDPOINT_URL: must be a URL such as https://"),
        ("CLOCK_SKEW_SECONDS", "-1", f"{OIDC}_CLOCK_SKEW_SECONDS: must be a whole number from 0 to 3600, not '-1'"),
        ("JWKS_ENDPOINT_REFRESH_MS", "1 h", f"{OIDC}_JWKS_ENDPOINT_REFRESH_MS: must be a whole number from 1000 to"),
    ],
)
def test_should_refuse_an_issuer_of_which_something_is_missing_or_wrong(
    issuer: KeyServer, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"{OIDC}_{name}", value)
    with pytest.raises(InputError) as refused:
        QueryServer("127.0.0.1:0")
    (line,) = str(refused.value).splitlines()
    assert said in line


def test_should_have_the_coordinators_defaults_for_an_issuer() -> None:
    defaults = {name.removeprefix("sasl_oauthbearer_"): field.default for name, field in Settings.model_fields.items()}
    usual = IssuerSettings()
    assert {field.name: defaults[field.name] for field in fields(usual)} == asdict(usual)
