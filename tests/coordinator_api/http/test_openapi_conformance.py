"""schemathesis calls the service as its own OpenAPI document says, and as it says not to.

The service has groups with members and recorded rebalances, so that calls get past their validation. No 5xx, no status
or type of content that the document does not have, no answer that its schema does not describe, nothing accepted that
the schema refuses, and nothing refused that it takes (`schemathesis.toml` names the exceptions).
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.coordinator_api.group_members import new_group, settled_member
from tests.coordinator_api.http.told_to_schemathesis import (
    ANSWERS_VARIABLE,
    HOOKS,
    KNOWN_VARIABLE,
    OF_KNOWN_MEMBERS,
    TOKEN,
)
from tests.coordinator_api.service_process import ServiceProcess, clean_environment

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
SESSION_MS = 1_800_000


@pytest.mark.long
def test_should_answer_every_call_as_the_document_says(tmp_path: Path) -> None:
    flags = ("--group-initial-rebalance-delay-ms", "0", "--longpoll-max-wait-ms", "5000", "--group-max-count", "100000")
    with (
        ServiceProcess(tmp_path, *flags, environment={"ASSIGNOR_AUTH_TOKEN": TOKEN}) as service,
        service.client(TOKEN) as client,
    ):
        known = []
        for _ in range(3):
            group_id = new_group(client)
            member = settled_member(client, group_id, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=SESSION_MS)
            assert member.generation_id == 1
            known.append((group_id, member.member_id))
        answers = tmp_path / "answers.json"
        command = (str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIGURATION))
        done = subprocess.run(
            [*command, "run", f"{service.url}/openapi.json", "--header", f"Authorization: Bearer {TOKEN}"],
            cwd=tmp_path,
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
        assert client.get("/readyz").status_code == 200
    written = json.loads(answers.read_text(encoding="ascii"))
    assert written["refused"] == []
    assert set(written["succeeded"]) >= {*OF_KNOWN_MEMBERS, "subscribe", "assign_once", "forecast_once"}
