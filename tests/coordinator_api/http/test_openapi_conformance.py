"""schemathesis calls the service as its own OpenAPI document says, and as it says not to.

The service has groups with members and recorded rebalances, so that calls get past their validation; links lead from a
declared group to its members, their assignments and heartbeats. No 5xx, no status or type of content that the document
does not have, no answer that its schema does not describe, and nothing accepted that the schema refuses.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.http import schemathesis_hooks
from tests.coordinator_api.service_process import ServiceProcess, clean_environment

# it takes 4xx for a refusal of data that the schema allows: a subscription's bytes, a generation that has not been
WITHOUT = "positive_data_acceptance"


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServiceProcess, dict[str, str]]]:
    """The service, and the variables that name what is in it."""
    flags = ("--group-initial-rebalance-delay-ms", "0", "--longpoll-max-wait-ms", "5000", "--group-max-count", "100000")
    with ServiceProcess(tmp_path_factory.mktemp("populated"), *flags) as service, service.client() as client:
        members = [HttpMember(client, new_group(client), session_timeout_ms=1_800_000) for _ in range(3)]
        for member in members:
            member.subscribe()
            settle(member)
        yield (
            service,
            {
                schemathesis_hooks.GROUPS_VARIABLE: ",".join(each.path.rpartition("/")[2] for each in members),
                schemathesis_hooks.MEMBERS_VARIABLE: ",".join(str(each.member_id) for each in members),
            },
        )


def conforms(populated: tuple[ServiceProcess, dict[str, str]], directory: Path, *options: str) -> None:
    service, known = populated
    command = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [
            *(str(command), "run", f"{service.url}/openapi.json"),
            *("--exclude-checks", WITHOUT, "--request-timeout", "60", "--no-color", "--warnings", "off"),
            *("--suppress-health-check", "all", "--continue-on-failure", *options),
        ],
        cwd=directory,
        env=clean_environment(
            {**known, "SCHEMATHESIS_HOOKS": schemathesis_hooks.__name__, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    with service.client() as client:
        assert client.get("/readyz").status_code == 200


def test_should_answer_members_as_the_document_says(
    populated: tuple[ServiceProcess, dict[str, str]], tmp_path: Path
) -> None:
    conforms(populated, tmp_path, "--include-tag", "members", "--phases", "examples,coverage")


@pytest.mark.long
def test_should_answer_every_call_as_the_document_says(
    populated: tuple[ServiceProcess, dict[str, str]], tmp_path: Path
) -> None:
    examples = os.environ.get("SCHEMATHESIS_EXAMPLES", "100")
    conforms(populated, tmp_path, "--max-examples", examples, "--max-time", "300")
