"""What the generator promises of its rebalances: the same from the same seed, real ones, and as many spoiled as it
says.
"""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from assignor.errors import InputError
from assignor.recording import document_of_line
from benchmarks.generated_rebalances import Generated, generate, unusable_line
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
