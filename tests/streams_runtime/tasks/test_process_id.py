"""The process id outlives the process, in Kafka's own file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assignor.types import ProcessId
from streams_runtime.tasks.state_directory import PROCESS_FILE_NAME, stored_process_id

KNOWN = "2230ea3e-4048-4d7d-bee0-e650940ec648"


def test_should_find_the_same_id_again(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "app"
    drawn = stored_process_id(directory)
    assert stored_process_id(directory) == drawn
    assert json.loads((directory / "kafka-streams-process-metadata").read_text()) == {"processId": str(drawn)}
    assert [file.name for file in directory.iterdir()] == [PROCESS_FILE_NAME]


def test_should_draw_another_id_in_another_directory(tmp_path: Path) -> None:
    assert stored_process_id(tmp_path / "a") != stored_process_id(tmp_path / "b")


def test_should_read_what_kafka_wrote_and_ignore_fields_of_a_later_version(tmp_path: Path) -> None:
    (tmp_path / PROCESS_FILE_NAME).write_text(json.dumps({"processId": KNOWN, "later": 1}))
    assert stored_process_id(tmp_path) == ProcessId.parse(KNOWN)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"processId": null}', '{"processId": "x"}'])
def test_should_draw_a_new_id_when_the_file_cannot_be_read(tmp_path: Path, content: str) -> None:
    (tmp_path / PROCESS_FILE_NAME).write_text(content)
    drawn = stored_process_id(tmp_path)
    assert stored_process_id(tmp_path) == drawn
