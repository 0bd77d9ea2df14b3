"""The file of lines after a kill at any point: whole lines are known, half a line is gone, and nobody else writes."""

from contextlib import closing
from pathlib import Path

import pytest

from assignor.errors import InputError
from kafka_groups.recorder.generations import LastSeen
from kafka_groups.recorder.output import OutputFile, Position, read_position, write_position
from tests.known import known

SEEN = LastSeen(7, 3, 2, "digest")


def line(group: str, generation: int, offset: int) -> dict[str, object]:
    return {"format": "rebalance/1", "id": f"{group}.{generation}@3:{offset}", "note": "ü"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rebalances.jsonl"


def written(path: Path, *lines: dict[str, object]) -> OutputFile:
    output = OutputFile(path)
    for each in lines:
        output.append(each)
    return output


@pytest.fixture
def saved(path: Path) -> OutputFile:
    """A line, and a position that covers it."""
    output = written(path, line("wc", 3, 7))
    output.save({3: 12}, {"wc": SEEN})
    return output


def test_should_begin_without_a_position(path: Path) -> None:
    with closing(OutputFile(path)) as output:
        assert output.position is None
    assert path.read_bytes() == b""


def test_should_cut_off_an_interrupted_generation_without_the_one_that_came_next(path: Path) -> None:
    interrupted = {**line("wc", 4, 20), "id": "wc.4@3:20-interrupted", "interrupted": True}
    written(path, line("wc", 3, 7), interrupted, line("wc", 5, 20), {**interrupted, "id": "wc.6@3:30"}).close()
    with closing(OutputFile(path)) as again:
        assert known(again.position).groups == {"wc": LastSeen(20, 5, 0, "")}
        assert path.read_bytes().count(b"\n") == 3
        again.append({**interrupted, "id": "wc.6@3:30"}, line("wc", 7, 30))
        assert path.read_bytes().count(b"\n") == 5


def test_should_know_whole_lines_that_no_position_covers(path: Path, saved: OutputFile) -> None:
    saved.append(line("wc", 4, 20), line("a.b@1:2", 1, 30))
    saved.close()
    with closing(OutputFile(path)) as again:
        assert again.position == Position(
            {3: 12}, {"wc": LastSeen(20, 4, 2, ""), "a.b@1:2": LastSeen(30, 1, 0, "")}, path.stat().st_size
        )


def test_should_cut_off_half_a_line(path: Path, saved: OutputFile) -> None:
    saved.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"format":"rebalance/1","id":"wc.4@3:20"')
    with closing(OutputFile(path)) as again:
        assert again.position == Position({3: 12}, {"wc": SEEN}, len(whole))
        again.append(line("wc", 4, 20))
    assert path.read_bytes().startswith(whole + b'{"format":"rebalance/1","id":"wc.4@3:20","note"')


def test_should_know_from_the_lines_alone_where_to_go_on(path: Path) -> None:
    written(path, line("wc", 3, 7), line("wc", 4, 20)).close()
    with closing(OutputFile(path)) as again:
        assert again.position == Position({}, {"wc": LastSeen(20, 4, 0, "")}, path.stat().st_size)
        assert {group: document["id"] for group, document in again.last_lines().items()} == {"wc": "wc.4@3:20"}


def test_should_read_all_lines_of_a_file_shorter_than_its_position(path: Path, saved: OutputFile) -> None:
    saved.close()
    path.write_bytes(b"")  # somebody took the lines away
    with closing(OutputFile(path)) as again:
        assert again.position == Position({3: 12}, {"wc": SEEN}, 0)


def test_should_refuse_a_file_that_another_recorder_writes(path: Path) -> None:
    with closing(OutputFile(path)), pytest.raises(InputError, match="another `assignor record` writes to it"):
        OutputFile(path)


def test_should_refuse_names_that_promise_gzip(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is written line by line"):
        OutputFile(tmp_path / "rebalances.jsonl.gz")


def test_should_say_when_the_position_is_not_one(path: Path) -> None:
    path.with_name("rebalances.jsonl.position").write_text("[]")
    with pytest.raises(InputError, match=r"rebalances.jsonl.position: is not a position of `assignor record`"):
        OutputFile(path)


def test_should_replace_a_position_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "p.position"
    write_position(file, Position({1: 2}, {"wc": SEEN}, 9))
    write_position(file, Position({1: 3}, {"wc": SEEN, "other": LastSeen()}, 11))
    assert read_position(file) == Position({1: 3}, {"wc": SEEN, "other": LastSeen()}, 11)
    assert [each.name for each in tmp_path.iterdir()] == ["p.position"]
