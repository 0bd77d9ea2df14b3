"""Which rebalances of their input what-if and simulate answer for."""

import json
from pathlib import Path

import pytest

from rebalance_analysis.reading.lines import LineChoice, read_lines
from tests.recorded import RECORDINGS, documents

GROUPS = (RECORDINGS[0], RECORDINGS[2])


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Two groups, each one's rounds in two files, the later rounds first."""
    paths = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    for path, part in zip(paths, (slice(2, None), slice(None, 2)), strict=True):
        lines = [line for name in GROUPS for line in documents(name)[part]]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tuple(map(str, paths))


def ids(files: tuple[str, ...], choice: LineChoice) -> list[object]:
    return [None if line.document is None else line.document["id"] for line in choice.among(read_lines(files))]


def test_should_choose_the_latest_round_of_each_group_when_files_come_in_any_order(files: tuple[str, ...]) -> None:
    assert ids(files, LineChoice()) == [documents(name)[-1]["id"] for name in GROUPS]


def test_should_choose_by_group_by_id_and_all(files: tuple[str, ...]) -> None:
    first, second = (documents(name) for name in GROUPS)

    assert ids(files, LineChoice(group=second[0]["group_id"])) == [second[-1]["id"]]
    assert ids(files, LineChoice(id=first[1]["id"])) == [first[1]["id"]]
    assert sorted(map(str, ids(files, LineChoice(all=True)))) == sorted(line["id"] for line in (*first, *second))


def test_should_choose_by_group_and_generation_what_a_recorder_has_written(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    written = [{"id": f"orders.{generation}@0:{generation}5", "group_id": "orders"} for generation in (1, 11)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in written))

    assert ids((str(path),), LineChoice(id="orders.1")) == ["orders.1@0:15"]
    assert ids((str(path),), LineChoice(id="orders.11@0:115")) == ["orders.11@0:115"]
    assert ids((str(path),), LineChoice(id="orders")) == []


def test_should_choose_the_placement_that_is_read_last_and_every_broken_line(tmp_path: Path) -> None:
    file = tmp_path / "placements.jsonl"
    lines = [json.dumps(line) for line in documents("placements.jsonl.gz")[:3]]
    file.write_text("\n".join(["{broken", *lines]))

    assert ids((str(file),), LineChoice()) == [None, json.loads(lines[-1])["id"]]
