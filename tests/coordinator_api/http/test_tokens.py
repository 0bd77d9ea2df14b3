"""Tokens from every source at the same time; created, listed and revoked over HTTP; files that change."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of, format_entry
from tests.coordinator_api.group_members import HttpMember, definition, new_group, problem, settled_member
from tests.coordinator_api.http.hostile_callers import held
from tests.coordinator_api.service_process import ServiceProcess
from tests.waiting import wait_until


def entry(name: str, right: Right, prefix: str = "", token: str | None = None) -> str:
    return format_entry(TokenEntry(Principal(name, right, prefix), digest_of((token or name).encode())))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """With a token of each setting: each one is the name of it."""
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "plain").write_text("from-a-file\n")
    (directory / "entries").write_text(f"# ours\n{entry('listed', Right.READER)}\n")
    environment = {
        "ASSIGNOR_AUTH_TOKEN": "from-the-environment",
        "ASSIGNOR_AUTH_TOKENS": f"{entry('reads', Right.READER)};{entry('pay', Right.ADMIN, 'payments-')}",
    }
    flags = ("--auth-token-file", "plain", "--auth-tokens-file", "entries", "--group-initial-rebalance-delay-ms", "0")
    with ServiceProcess(directory, *flags, environment=environment) as process:
        yield process


@pytest.fixture
def admin(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.client("from-the-environment") as client:
        yield client


def status(service: ServiceProcess, token: str, path: str = "/v1/groups") -> int:
    with service.client(token) as client:
        return client.get(path).status_code


def create(client: httpx.Client, name: str, right: str, groups: str = "*", **more: str) -> str:
    answer = client.post("/v1/tokens", json={"name": name, "right": right, "groups": groups, **more})
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


def await_status(service: ServiceProcess, token: str, expected: int) -> None:
    wait_until(lambda: status(service, token) == expected, f"status {expected}")


def test_should_take_tokens_of_every_source_at_the_same_time(service: ServiceProcess, admin: httpx.Client) -> None:
    created = create(admin, "created", "reader")
    tokens = ("from-the-environment", "from-a-file", "reads", "pay", "listed", created)

    assert [status(service, token) for token in tokens] == [200] * 6
    assert status(service, "nobodys") == 401
    assert [status(service, token, "/v1/tokens") for token in tokens] == [200, 200, 403, 200, 403, 403]
    listed = {each["name"]: each["source"] for each in admin.get("/v1/tokens").json()["tokens"]}
    assert listed == {
        "auth.token": "auth.token",
        "auth.token.file": "auth.token.file",
        "reads": "auth.tokens",
        "pay": "auth.tokens",
        "listed": "auth.tokens.file",
        "created": "database",
        **{name: source for name, source in listed.items() if source == "database"},
    }


def test_should_tell_a_token_once_and_keep_its_hash_alone(service: ServiceProcess, admin: httpx.Client) -> None:
    answer = admin.post("/v1/tokens", json={"name": "once", "right": "member", "groups": "once-*", "expires": "P90D"})

    token = answer.json()["token"]
    assert token.startswith("asg_")
    assert len(token) == len("asg_") + 43, "256 bits"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["note"] is None
    (line,) = [each for each in admin.get("/v1/tokens").json()["tokens"] if each["name"] == "once"]
    assert (line["right"], line["groups"], line["created_by"]) == ("member", "once-*", "auth.token")
    assert line["expires_ms"] > line["created_ms"] + 89 * 86_400_000
    assert token not in admin.get("/v1/tokens").text
    stored = b"".join(file.read_bytes() for file in service.directory.iterdir() if "sqlite" in file.name)
    assert digest_of(token.encode()).encode() in stored
    assert token.encode() not in stored
    assert not any(token in line or digest_of(token.encode()) in line for line in service.log)


def test_should_refuse_a_revoked_token_and_one_that_has_expired(service: ServiceProcess, admin: httpx.Client) -> None:
    revoked = create(admin, "to-be-revoked", "reader")
    short = create(admin, "short", "reader", expires="PT1S")

    assert status(service, revoked) == 200
    assert admin.delete("/v1/tokens/to-be-revoked").status_code == 204
    assert status(service, revoked) == 401
    assert problem(admin.delete("/v1/tokens/to-be-revoked")) == (404, "RESOURCE_NOT_FOUND")
    await_status(service, short, 401)


def test_should_answer_a_held_call_of_a_revoked_token_but_no_more(service: ServiceProcess, admin: httpx.Client) -> None:
    group_id = new_group(admin)
    token = create(admin, "of-a-member", "member")
    with service.client(token) as client:
        member = settled_member(client, group_id)
        news = member.process_heartbeat().json()["news"]
        with held(admin, lambda: member.process_heartbeat(news, wait_ms=60_000)) as heartbeat:
            assert admin.delete("/v1/tokens/of-a-member").status_code == 204
            assert not heartbeat.done()
            HttpMember(admin, group_id).subscribe()
        answer = heartbeat.result()
        assert answer.status_code == 200
        assert answer.json()["news"] != news, "it tells that another member has come"

        assert problem(member.process_heartbeat(news)) == (401, "SASL_AUTHENTICATION_FAILED")
    assert status(service, token) == 401


def test_should_show_an_admin_of_a_prefix_nothing_of_others(service: ServiceProcess, admin: httpx.Client) -> None:
    create(admin, "orders-member", "member", "orders-*")
    with service.client("pay") as pay:
        own = create(pay, "payments-eu", "member", "payments-eu-*")
        assert {each["name"] for each in pay.get("/v1/tokens").json()["tokens"]} == {"pay", "payments-eu"}
        outside = [
            pay.post("/v1/tokens", json={"name": name, "right": "reader", "groups": groups})
            for name, groups in (("payments-1", "*"), ("payments-1", "orders-*"), ("payments-1", "payment*"))
        ]
        foreign_name = pay.post("/v1/tokens", json={"name": "orders-member", "right": "reader", "groups": "payments-*"})
        foreign, missing = pay.delete("/v1/tokens/orders-member"), pay.delete("/v1/tokens/nobody")
        assert pay.delete("/v1/tokens/payments-eu").status_code == 204

    assert [problem(each) for each in outside] == [(403, "CLUSTER_AUTHORIZATION_FAILED")] * 3
    assert problem(foreign_name) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    assert foreign.status_code == 404
    assert foreign.content == missing.content
    assert status(service, own) == 401


@pytest.mark.parametrize(
    "body, where",
    [
        ({"right": "reader"}, "body.name"),
        ({"name": "a b", "right": "reader"}, "body.name"),
        ({"name": "x", "right": "owner"}, "body.right"),
        ({"name": "x", "right": "reader", "groups": "payments-"}, "body.groups"),
        ({"name": "x", "right": "reader", "expires": "soon"}, "body.expires"),
        ({"name": "x", "right": "reader", "expires": "2001-01-01T00:00:00Z"}, "body.expires"),
        ({"name": "x", "right": "reader", "token": "mine"}, "body.token"),
    ],
)
def test_should_say_what_is_wrong_with_a_token(admin: httpx.Client, body: dict[str, str], where: str) -> None:
    answer = admin.post("/v1/tokens", json=body)

    assert problem(answer) == (422, "INVALID_REQUEST")
    assert answer.json()["detail"].startswith(where)


def test_should_refuse_a_name_that_there_is_in_any_source(admin: httpx.Client) -> None:
    create(admin, "twice", "reader")

    for name in ("twice", "reads", "auth.token"):
        answer = admin.post("/v1/tokens", json={"name": name, "right": "reader"})
        assert problem(answer) == (409, "DUPLICATE_RESOURCE")
    refused = admin.delete("/v1/tokens/reads")
    assert problem(refused) == (409, "UNACCEPTABLE_CREDENTIAL")
    assert "auth.tokens" in refused.json()["detail"]


def test_should_close_an_open_service_with_an_admins_token_and_keep_the_last_one(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service, service.client() as anybody:
        assert anybody.put("/v1/groups/g", json=definition()).status_code == 201
        for right, groups in (("operator", "*"), ("admin", "g*")):
            early = anybody.post("/v1/tokens", json={"name": "first", "right": right, "groups": groups})
            assert problem(early) == (409, "UNACCEPTABLE_CREDENTIAL")
            assert "the first token has to be an admin's for all groups" in early.json()["detail"]
        first = anybody.post("/v1/tokens", json={"name": "first", "right": "admin"})
        assert first.json()["note"] == "from now on every call of this service needs a token"
        assert problem(anybody.get("/v1/groups")) == (401, "SASL_AUTHENTICATION_FAILED")
        with service.client(first.json()["token"]) as admin:
            short_lived = create(admin, "short-lived", "admin", expires="PT1S")
            create(admin, "tenant", "admin", "g*")
            await_status(service, short_lived, 401)
            kept = admin.delete("/v1/tokens/first")
            assert problem(kept) == (409, "UNACCEPTABLE_CREDENTIAL")
            assert "create that one first" in kept.json()["detail"]
            second = create(admin, "second", "admin")
            assert admin.delete("/v1/tokens/first").status_code == 204

    same_name = {"ASSIGNOR_AUTH_TOKENS": entry("tenant", Right.READER)}
    exposed = ServiceProcess(tmp_path, "--host", "0.0.0.0", environment=same_name)  # the database has tokens
    with exposed as service:
        service.url = service.url.replace("0.0.0.0", "127.0.0.1")
        assert "(with a bearer token)" in "".join(service.log)
        assert [status(service, token) for token in (second, first.json()["token"])] == [200, 401]
        with service.client(second) as admin:
            revoked = [admin.delete("/v1/tokens/tenant").status_code for _ in range(2)]
        assert revoked == [204, 409], "the one of the database, and then the one of the setting, which cannot be"
        assert not any("tokens_expired" in line for line in service.log)


def test_should_say_at_its_start_that_every_token_has_expired(tmp_path: Path) -> None:
    ended = format_entry(TokenEntry(Principal("ended", Right.ADMIN), digest_of(b"ended"), expires_ms=1_000))
    with ServiceProcess(tmp_path, environment={"ASSIGNOR_AUTH_TOKENS": ended}) as service:
        refused = status(service, "ended")
        service.stop()

    assert refused == 401
    (line,) = [line for line in service.log if "tokens_expired" in line]
    assert "every token has expired, so every call is refused: set auth.token.file" in line


def test_should_read_a_changed_file_and_keep_the_tokens_of_one_that_is_broken(tmp_path: Path) -> None:
    plain, entries = tmp_path / "plain", tmp_path / "entries"
    plain.write_text("old")
    entries.write_text(entry("ops", Right.ADMIN, token="ops-1"))
    flags = ("--auth-token-file", "plain", "--auth-tokens-file", "entries", "--log-format", "json")
    with ServiceProcess(tmp_path, *flags) as service:
        assert [status(service, token) for token in ("old", "ops-1")] == [200, 200]
        plain.write_text("new")
        (tmp_path / "next").write_text(
            f"{entry('ops', Right.ADMIN, token='ops-1')}\n{entry('more', Right.READER, token='more')}\n"
        )
        (tmp_path / "next").replace(entries)
        await_status(service, "new", 200)
        await_status(service, "more", 200)
        assert [status(service, token) for token in ("old", "ops-1")] == [401, 200]

        entries.write_text("ops admin * 12")
        plain.unlink()
        service.logged(lambda line: "auth.tokens.file" in line and "stay in force" in line, 1)
        service.logged(lambda line: "auth.token.file" in line and "cannot be read" in line, 1)
        assert [status(service, token) for token in ("new", "ops-1", "more", "nobodys")] == [200, 200, 200, 401]
