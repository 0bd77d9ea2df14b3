"""What the generator promises of its rebalances: the same from the same seed, real ones, and as many spoiled as it
says.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.recording import document_of_line
from benchmarks.generated_rebalances import Generated, generate, main, unusable_line
from rebalance_analysis.measures import measure
from rebalance_analysis.rerun import RerunRebalance, run

REBALANCES = 200


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    return generate(tmp_path_factory.mktemp("generated"), REBALANCES, seed=7, files=3, processes=1)


def content(generated: Generated) -> list[bytes]:
    return [line for path in generated.files for line in path.read_bytes().splitlines()]


def usable(generated: Generated) -> list[RerunRebalance]:
    rebalances = []
    for line in content(generated):
        try:
            ran = run(document_of_line(line))
        except InputError:
            continue
        assert isinstance(ran, RerunRebalance)
        rebalances.append(ran)
    return rebalances


def test_should_write_the_same_bytes_when_the_seed_is_the_same(generated: Generated, tmp_path: Path) -> None:
    in_processes = generate(tmp_path / "in processes", REBALANCES, seed=7, files=3, processes=2)
    compressed = generate(tmp_path / "compressed", REBALANCES, seed=7, files=3, processes=1, compressed=True)
    again = generate(tmp_path / "again", REBALANCES, seed=7, files=3, processes=1, compressed=True)
    expected = [path.read_bytes() for path in generated.files]
    assert [path.read_bytes() for path in in_processes.files] == expected
    assert [gzip.decompress(path.read_bytes()) for path in compressed.files] == expected
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in compressed.files]


def test_should_write_other_bytes_when_the_seed_is_another(generated: Generated, tmp_path: Path) -> None:
    other = generate(tmp_path, REBALANCES, seed=8, files=3, processes=1)
    assert set(content(other)).isdisjoint(content(generated))


def test_should_write_as_many_rebalances_as_asked_for_and_spoil_as_many_as_said(generated: Generated) -> None:
    assert (generated.rebalances, generated.wrong_output, generated.unusable) == (REBALANCES, 1, 1)
    assert len(content(generated)) == REBALANCES
    equal = Counter(comparison.equal for ran in usable(generated) if (comparison := ran.comparison()))
    assert equal == {True: REBALANCES - 2, False: 1}


@pytest.mark.parametrize("number", range(3))
def test_should_spoil_lines_in_ways_that_a_reader_refuses(generated: Generated, number: int) -> None:
    line = content(generated)[0]
    with pytest.raises(InputError):
        run(document_of_line(unusable_line(line, number)))


def test_should_write_rebalances_of_about_six_kilobytes_of_groups_that_live(generated: Generated) -> None:
    sizes = [len(line) for line in content(generated)]
    assert 4_500 < sum(sizes) / len(sizes) < 7_500
    measures = []
    for ran in usable(generated):
        assert ran.result.problem is not None
        assert ran.result.placement is not None
        measures.append(measure(ran.result.problem, ran.result.placement))
    assert all(3 <= each.clients <= 8 and 20 <= each.tasks <= 60 for each in measures)
    assert sum(each.active_moved > 0 for each in measures) > REBALANCES // 5
    assert sum(each.warm_ups > 0 for each in measures) > REBALANCES // 3
    assert sum(each.standby_moved > 0 for each in measures) > 5


def test_should_say_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rebalances", "20", "--files", "2", "--processes", "1", "--output", str(tmp_path / "made"), "--gzip"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"20 rebalances in 2 files of {tmp_path / 'made'}, 0.0 MB (")
    assert "1 of them with a wrong output, 1 unusable" in said
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [
        "rebalances-00.jsonl.gz",
        "rebalances-01.jsonl.gz",
    ]


def test_should_refuse_a_number_below_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rebalances", "0", "--output", str(tmp_path)])
    assert "--rebalances must be at least 1" in capsys.readouterr().err
