"""Tokens that an OIDC issuer has signed, at a real service: the issuer is a small HTTP server of this test."""

import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from cryptography.hazmat.primitives import serialization

from assignor.errors import InputError
from coordinator_api.http.auth import Access
from coordinator_api.http.settings_sources import load
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.signed_tokens import UNKNOWN_KEY_EVERY_S, IssuerSettings, SignedTokens
from tests.coordinator_api.group_members import definition, problem
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.coordinator_api.http.oidc_issuer import AUDIENCE, ISSUER, KEYS, KeyServer, claims, published, signed
from tests.coordinator_api.service_process import ServiceProcess


@pytest.fixture(scope="module")
def key_server() -> Iterator[KeyServer]:
    server = KeyServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, key_server: KeyServer) -> Iterator[ServiceProcess]:
    flags = {
        "jwks-endpoint-url": key_server.url,
        "expected-issuer": ISSUER,
        "expected-audience": f"another,{AUDIENCE}",
        "clock-skew-seconds": "0",
    }
    given = [word for name, value in flags.items() for word in (f"--sasl-oauthbearer-{name}", value)]
    with ServiceProcess(tmp_path_factory.mktemp("signed"), *given) as process:
        yield process


def forged(algorithm: str, signature: bytes = b"") -> str:
    parts = [{"alg": algorithm, "typ": "JWT", "kid": "rsa"}, claims()]
    packed = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in parts]
    return b".".join([*packed, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def with_public_key_as_password() -> str:
    """What a library that lets the token choose would take."""
    of_rsa, kind = KEYS["rsa"].public_key(), serialization.PublicFormat.SubjectPublicKeyInfo
    public = of_rsa.public_bytes(serialization.Encoding.PEM, kind)
    unsigned = forged("HS256").rpartition(".")[0]
    return forged("HS256", hmac.new(public, unsigned.encode(), hashlib.sha256).digest())


def status(service: ServiceProcess, token: str, path: str = "/v1/groups") -> int:
    with service.client(token) as client:
        answer = client.get(path)
    if answer.status_code == 401:
        assert problem(answer) == (401, "SASL_AUTHENTICATION_FAILED")
    return answer.status_code


@pytest.mark.parametrize("kid, algorithm", [("rsa", "RS256"), ("rsa", "PS256"), ("ec", "ES256"), ("ed", "EdDSA")])
def test_should_take_what_the_issuer_has_signed(service: ServiceProcess, kid: str, algorithm: str) -> None:
    assert status(service, signed(kid, algorithm)) == 200


def test_should_give_the_right_and_the_groups_that_the_scope_names(service: ServiceProcess) -> None:
    member = signed(scope="assignor:member:payments-*", sub="pay")
    with service.client(member) as client:
        assert client.put("/v1/groups/payments-eu", json=definition()).status_code == 201
        assert client.get("/v1/groups/payments-eu").json()["declared_by"].startswith("pay, ")
        assert problem(client.put("/v1/groups/orders", json=definition())) == (403, "GROUP_AUTHORIZATION_FAILED")
        assert problem(client.delete("/v1/groups/payments-eu")) == (403, "GROUP_AUTHORIZATION_FAILED")
        assert problem(client.get("/v1/tokens")) == (403, "CLUSTER_AUTHORIZATION_FAILED")


REFUSED: dict[str, Callable[[], str]] = {
    "alg none": lambda: forged("none"),
    "the public key as a password": with_public_key_as_password,
    "another algorithm of the key": lambda: signed("rsa", "RS512"),
    "another issuer": lambda: signed(iss="https://else.example"),
    "another audience": lambda: signed(aud="payments"),
    "no audience": lambda: signed(aud=None),
    "expired": lambda: signed(exp=int(time.time()) - 5),
    "not yet valid": lambda: signed(nbf=int(time.time()) + 600),
    "without an end": lambda: signed(exp=None),
    "an unknown key": lambda: signed("later"),
    "another key under this name": lambda: signed("later", header="ec"),
    "no scope": lambda: signed(scope=None),
    "a scope of others": lambda: signed(scope="openid assignor"),
    "two scopes": lambda: signed(scope="assignor:admin:* assignor:reader:*"),
    "an unknown right": lambda: signed(scope="assignor:owner:*"),
    "no name": lambda: signed(sub=None),
    "a changed signature": lambda: signed()[:-8] + "AAAAAAAA",
    "no token at all": lambda: "a.b.c",
}


@pytest.mark.parametrize("what", REFUSED)
def test_should_refuse_every_other_token(service: ServiceProcess, what: str) -> None:
    assert status(service, REFUSED[what]()) == 401
    assert status(service, signed()) == 200, "the next one is taken"


def test_should_refuse_a_token_when_it_has_expired_although_it_knows_it(service: ServiceProcess) -> None:
    short = signed(exp=int(time.time()) + 2, scope="assignor:member:*")
    with service.client(signed(scope="assignor:operator:*")) as operator:
        operator.put("/v1/groups/g", json=definition())
        assert status(service, short, "/v1/groups/g") == 200
        wait_for(lambda: status(service, short, "/v1/groups/g") == 401)
        assert operator.get("/v1/groups/g").json()["health"]["level"] == "busy", "only calls of members count"
        with service.client(short) as member:
            member.post("/v1/groups/g/heartbeat", json={"members": {"m": {"generation_id": 1}}})
        (expired, _) = operator.get("/v1/groups/g").json()["health"]["reasons"]
    assert expired["code"] == "TOKEN_EXPIRED"


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_should_fetch_new_keys_beside_the_calls_and_keep_them_when_the_issuer_is_down(key_server: KeyServer) -> None:
    told: list[str] = []
    clock = Clock()
    tokens = SignedTokens(IssuerSettings(key_server.url, ISSUER, (AUDIENCE,)), told.append, clock)
    admin = Principal("payments", Right.ADMIN)
    tokens.refresh_if_due()
    known, new = signed().encode(), signed("later").encode()
    assert tokens.find(known) == admin

    asked = key_server.asked
    for _ in range(50):
        assert tokens.find(new) is None
    assert key_server.asked == asked, "no call asks the issuer"
    tokens.refresh_if_due()
    assert key_server.asked == asked + 1
    assert tokens.find(new) is None
    tokens.refresh_if_due()
    assert key_server.asked == asked + 1, "once a minute, however many unknown keys come"

    key_server.document = published("ec", "later")
    clock.now_s += UNKNOWN_KEY_EVERY_S
    assert tokens.find(new) is None
    tokens.refresh_if_due()
    assert tokens.find(new) == admin
    assert tokens.find(known) == admin
    assert told == []

    for broken in (None, b"no json", b'{"keys": []}', b"[]"):
        key_server.document = broken
        clock.now_s += 3_600
        tokens.refresh_if_due()
        assert [tokens.find(each) for each in (known, new)] == [admin, admin]
        assert "2 former ones stay in force" in told[-1]
    key_server.document = published("later")
    clock.now_s += 3_600
    tokens.refresh_if_due()
    assert tokens.find(known) is None, "the key was taken back"
    key_server.document = published("rsa", "ec", "ed")


@pytest.mark.parametrize(
    "answer, why",
    [
        (b"hello\r\n", "its answer is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "its answer is no HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000, "its document is nested too deeply"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"keys": [{"kty": "RSA", "kid": "k", "n": 1, "e": 1, "alg": []}]}', "no key"),
    ],
)
def test_should_go_on_whatever_the_issuer_answers(answer: bytes, why: str) -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_once() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=answer_once, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/keys"
        SignedTokens(IssuerSettings(url, ISSUER, (AUDIENCE,)), told.append).refresh_if_due()
        thread.join()

    (sentence,) = told
    assert why in sentence


def test_should_not_repeat_the_password_of_a_url() -> None:
    told: list[str] = []
    url = "http://somebody:a-pass:word@127.0.0.1/keys"
    SignedTokens(IssuerSettings(url, ISSUER, (AUDIENCE,)), told.append).refresh_if_due()

    (sentence,) = told
    assert "word" not in sentence


@pytest.mark.parametrize(
    "given, said",
    [
        ({"jwks_endpoint_url": "file:///k", "expected_issuer": "i"}, r"needs sasl\.oauthbearer\.expected\.issuer and"),
        ({"expected_issuer": "i", "expected_audience": "a"}, r"need sasl\.oauthbearer\.jwks\.endpoint\.url"),
    ],
)
def test_should_want_the_keys_the_issuer_and_the_audience(given: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Access(load({f"sasl_oauthbearer_{name}": value for name, value in given.items()}))
