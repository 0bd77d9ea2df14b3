"""What the service says about itself: `/`, `/version`, `/openapi.json` and the page `/docs`."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from bs4 import BeautifulSoup
from jsonschema import Draft202012Validator

from coordinator_api.http.app import create_app
from coordinator_api.http.openapi import described
from coordinator_api.settings import Settings
from tests.coordinator_api.group_members import problem
from tests.coordinator_api.service_process import ServiceProcess

TOKEN = "a-token-for-tests"


@pytest.fixture(scope="module")
def document(service: ServiceProcess) -> Any:
    with service.client() as client:
        return client.get("/openapi.json").json()


def operations(document: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def schemas_with_default(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "default" in part and ({"type", "anyOf", "$ref"} & part.keys()):
            yield part
        for inner in part.values():
            yield from schemas_with_default(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from schemas_with_default(inner)


def test_should_have_only_defaults_that_their_schema_takes(document: Any) -> None:
    """A generated client sends them."""
    found = list(schemas_with_default(document))
    assert len(found) > 20
    for schema in found:
        Draft202012Validator({**schema, "components": document["components"]}).validate(schema["default"])


def test_should_say_whether_calls_carry_a_token(document: Any, tmp_path: Path) -> None:
    token = {"ASSIGNOR_AUTH_TOKEN": TOKEN}
    with ServiceProcess(tmp_path, environment=token) as guarded, guarded.client(TOKEN) as client:
        with_token = client.get("/openapi.json").json()
        page = client.get("/docs")
        with guarded.client() as stranger:
            refused = [problem(stranger.get(path)) for path in ("/", "/version", "/docs", "/redoc", "/openapi.json")]

    scheme = {"type": "http", "scheme": "bearer"}
    for each in (document, with_token):
        (name,) = each["components"]["securitySchemes"]
        assert scheme.items() <= each["components"]["securitySchemes"][name].items()
        open_calls = [path for _, path, operation in operations(each) if operation.get("security") == []]
        assert open_calls == ["/livez", "/readyz"]
    assert with_token["security"] == [{name: []}]
    assert document["security"] == [{}, {name: []}], "it is not needed"
    assert refused == [(401, "SASL_AUTHENTICATION_FAILED")] * 5
    assert page.status_code == 200


def test_should_describe_the_calls_alike_below_each_prefix() -> None:
    app = create_app(Settings())

    assert described(app) == described(app)


def test_should_show_the_calls_on_a_page_that_loads_nothing_from_elsewhere(service: ServiceProcess) -> None:
    with service.client() as client:
        answer = client.get("/docs")
        moved = client.get("/redoc")
        page = BeautifulSoup(answer.text, "html.parser")
        loaded = [str(each.get("src") or each.get("href")) for each in page.select("[src], link")]
        found = {address: client.get(address).status_code for address in loaded}

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert moved.url.join(moved.headers["location"]).path == "/docs"
    assert set(found.values()) == {200}
    assert all(address.startswith("./ui/static/") for address in loaded)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")


def test_should_say_what_it_is_and_where_to_go(service: ServiceProcess) -> None:
    with service.client() as client:
        for_programs = client.get("/")
        for_people = client.get("/", headers={"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"})
        links = for_programs.json()["links"]
        found = {path: client.get(path).status_code for path in links.values()}

    assert for_programs.json()["service"] == "assignor coordinator"
    assert set(found.values()) == {200}
    assert (for_people.status_code, for_people.headers["location"]) == (303, "./ui/groups")
    assert {for_programs.headers["vary"], for_people.headers["vary"]} == {"Accept"}


def test_should_say_which_release_it_is_and_which_kafka_it_equals(service: ServiceProcess) -> None:
    with service.client() as client:
        answer: httpx.Response = client.get("/version")

    assert answer.json() == {"version": version("assignor"), "api_versions": ["v1"], "kafka_version": "4.3.1 and 4.4.0"}
