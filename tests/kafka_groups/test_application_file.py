"""The assignor of an application is read from its own properties by `record` and `lead` alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_groups.application import configured_assignor
from tests.program import assignor

_INTERNALS = "org.apache.kafka.streams.processor.internals.assignment"


@pytest.mark.parametrize(
    "properties, name",
    [
        ({}, None),
        (
            {"internal.task.assignor.class": f"{_INTERNALS}.HighAvailabilityTaskAssignor"},
            "HighAvailabilityTaskAssignor",
        ),
        ({"internal.task.assignor.class": f"{_INTERNALS}.StickyTaskAssignor"}, "LegacyStickyTaskAssignor"),
        (
            {"task.assignor.class": "org.apache.kafka.streams.processor.assignment.StickyTaskAssignor"},
            "StickyTaskAssignor",
        ),
    ],
)
def test_should_know_the_assignor_of_an_application_by_its_class(properties: dict[str, str], name: str | None) -> None:
    assert configured_assignor(properties) == name


@pytest.mark.parametrize(
    "written, words",
    [
        ("metadata.max.age.ms=soon", "metadata.max.age.ms"),
        ("no.such.key=1", "no.such.key"),
    ],
)
def test_should_name_the_key_when_the_leader_cannot_use_the_client_s_properties(
    tmp_path: Path, written: str, words: str
) -> None:
    (tmp_path / "client.properties").write_text(f"{written}\n")
    (tmp_path / "topology.json").write_text('{"subtopologies": [], "copartition_groups": []}')
    files = ["--topology", str(tmp_path / "topology.json"), "--command-config", str(tmp_path / "client.properties")]
    ended = assignor("lead", "--bootstrap-server", "127.0.0.1:1", "--group", "orders", *files)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert ended.stderr.count("\n") <= 2
    assert "Traceback" not in ended.stderr
