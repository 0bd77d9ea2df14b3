"""Who may call: loopback without a token, everybody with it, nobody else."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from assignor.errors import InputError
from coordinator_api.http.auth import Access
from coordinator_api.http.call_rights import caller_of
from coordinator_api.http.problems import Problem
from coordinator_api.settings import Settings, SettingsError
from coordinator_client.access.principals import Right
from tests.coordinator_api.group_members import problem
from tests.coordinator_api.http.endpoints import RIGHTS
from tests.coordinator_api.http.tenants import tenants
from tests.coordinator_api.service_process import ServiceProcess, run_command

TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    with ServiceProcess(directory, "--auth-token-file", "token", "--host", "0.0.0.0") as process:
        process.url = process.url.replace("0.0.0.0", "127.0.0.1")
        yield process


def test_should_answer_health_checks_alone_without_the_token(guarded: ServiceProcess) -> None:
    with guarded.client() as client:
        for path in ("/v1/groups", "/metrics", "/openapi.json", "/nowhere"):
            for authorization in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                response = client.get(path, headers=authorization)
                assert problem(response) == (401, "SASL_AUTHENTICATION_FAILED")
                assert response.headers["www-authenticate"].startswith('Bearer realm="assignor"')
        assert [client.get(path).status_code for path in ("/livez", "/readyz")] == [200, 200]


async def test_should_answer_no_address_that_the_rights_do_not_have(tmp_path: Path) -> None:
    principals = {"eve": (Right.READER, "")}
    body = {"name": "mallory", "right": "admin"}
    async with tenants(tmp_path, principals) as service:
        eve = await service.client("eve")
        answers = {
            (method, route, end): await eve.request(
                method, route.format(group="g", member="m", name="eve", generation=1) + end, json=body
            )
            for method, route in sorted(RIGHTS)
            for end in ("%0A", "%0D", "%00", "%20", "/", "%2F", "%3F", ";", "%0A%0A")
            if route.startswith(("/v1", "/metrics")) and not route.endswith("}")  # there it belongs to the name
        }

    answered = {call: answer.status_code for call, answer in answers.items() if answer.status_code not in (404, 405)}
    assert answered == {}


def test_should_answer_programs_of_this_machine_and_no_web_page_when_open_on_loopback(client: httpx.Client) -> None:
    for headers in ({"Host": "attacker.example"}, {"Origin": "http://attacker.example"}):
        assert problem(client.get("/v1/groups", headers=headers)) == (403, "CLUSTER_AUTHORIZATION_FAILED")
    for headers in ({"Host": "localhost:1"}, {"Origin": "http://127.0.0.1:9"}):
        assert client.get("/v1/groups", headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_should_not_start_where_others_reach_it_without_a_token(tmp_path: Path, host: str) -> None:
    if host == "0.0.0.0":
        done = run_command(tmp_path, "serve", "--host", host)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (
            2,
            f"error: host {host} can be reached from outside this machine, and there is no token: set auth.token.file "
            "or auth.tokens.file, or listen on 127.0.0.1 (`assignor tokens create` creates tokens there)",
        )
    with pytest.raises(SettingsError, match="there is no token"):
        Access(Settings()).check_exposure(host)
    Access(Settings(auth_token=TOKEN)).check_exposure(host)


def test_should_neither_take_nor_compare_tokens_that_are_not_ascii() -> None:
    credentials = Access(Settings(auth_token="secret")).credentials

    for sent in ("s\xe9cret", "sécret".encode().decode("latin-1")):
        with pytest.raises(Problem):
            caller_of("/v1/groups", {"authorization": f"Bearer {sent}"}, credentials)
    with pytest.raises(InputError, match=r"auth\.token: a token is one line of printable ASCII"):
        Access(Settings(auth_token="sécret"))
