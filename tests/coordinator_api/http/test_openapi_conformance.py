"""schemathesis calls the service as its own OpenAPI document says, and as it says not to.

The service has groups with members and recorded rebalances, so that calls get past their validation; links lead from a
declared group to its members, their assignments and heartbeats, and the rebalances. No 5xx, no status or type of
content that the document does not have, no answer that its schema does not describe, nothing accepted that the schema
refuses, and nothing refused that it takes (`schemathesis.toml` names the exceptions).
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.checkout import ROOT
from tests.coordinator_api.group_members import definition, new_group, settled_member
from tests.coordinator_api.http.told_to_schemathesis import (
    ANSWERS_VARIABLE,
    DAMAGED,
    HOOKS,
    KNOWN_VARIABLE,
    LINKS,
    TOKEN,
)
from tests.coordinator_api.service_process import ServiceProcess, clean_environment

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
SESSION_MS = 1_800_000

LINKED = frozenset(
    {
        *("subscribe", "fetch_assignment", "heartbeat", "leave", "list_rebalances", "show_rebalance"),
        *("explain_rebalance", "describe_group", "drain_group", "delete_group"),
    }
)
"""Calls to which a link leads, each from one that succeeded."""

MORE_WALKS = 8
"""schemathesis follows links at random: one walk may miss one of them."""


class Populated(NamedTuple):
    """`known`: group and member, for `schemathesis_hooks.py`."""

    service: ServiceProcess
    known: list[tuple[str, str]]


class Answers(NamedTuple):
    """`successes`: by operation and phase. `refused`: calls that the hooks had made right."""

    successes: Counter[tuple[str, str]]
    refused: list[str]


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    flags = ("--group-initial-rebalance-delay-ms", "0", "--longpoll-max-wait-ms", "5000", "--group-max-count", "100000")
    secret = {"ASSIGNOR_AUTH_TOKEN": TOKEN}
    directory = tmp_path_factory.mktemp("populated")
    with (
        ServiceProcess(directory, *flags, environment=secret) as service,
        service.client(TOKEN) as client,
    ):
        known = []
        for _ in range(3):
            group_id = new_group(client)
            member = settled_member(client, group_id, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=SESSION_MS)
            assert member.generation_id == 1
            known.append((group_id, str(member.member_id)))
        client.put(f"/v1/groups/{DAMAGED}", json=definition())
        with sqlite3.connect(service.directory / "assignor.sqlite3") as database:
            database.execute("UPDATE group_records SET checksum = 1 WHERE group_id = ?", (DAMAGED,))
        database.close()
        yield Populated(service, known)


def conforms(populated: Populated, directory: Path, *options: str) -> Answers:
    service, known = populated
    answers = directory / "answers.json"
    command = Path(sys.executable).with_name("schemathesis")
    with_token = ("--header", f"Authorization: Bearer {TOKEN}")
    done = subprocess.run(
        [
            *(str(command), "--config-file", str(CONFIGURATION), "run", f"{service.url}/openapi.json"),
            *with_token,
            *options,
        ],
        cwd=directory,
        env=clean_environment(
            {
                KNOWN_VARIABLE: json.dumps(known),
                ANSWERS_VARIABLE: str(answers),
                "SCHEMATHESIS_HOOKS": HOOKS,
                "PYTHONPATH": str(ROOT),
                "COLUMNS": "120",
            }
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    with service.client() as client:
        assert client.get("/readyz").status_code == 200
    written = json.loads(answers.read_text(encoding="ascii"))
    successes: Counter[tuple[str, str]] = Counter()
    for operation, phase, status, count in written["counts"]:
        successes[operation, phase] += count if 200 <= status < 300 else 0
    return Answers(successes, written["refused"])


def operations(client: httpx.Client) -> set[str]:
    paths = client.get("/openapi.json").json()["paths"].values()
    return {call["operationId"] for path in paths for call in path.values()}


@pytest.mark.long
def test_should_answer_every_call_as_the_document_says(populated: Populated, tmp_path: Path) -> None:
    answers = conforms(populated, tmp_path)

    assert answers.refused == []
    with populated.service.client(TOKEN) as client:
        assert {name for name, _ in +answers.successes} == operations(client)
    by_links = linked(answers)
    for _ in range(MORE_WALKS):
        if by_links >= LINKED:
            break
        walked = conforms(populated, tmp_path, "--phases", "stateful")
        assert walked.refused == []
        by_links |= linked(walked)
    assert by_links >= LINKED


def linked(answers: Answers) -> set[str]:
    return {name for name, phase in +answers.successes if phase == LINKS}
