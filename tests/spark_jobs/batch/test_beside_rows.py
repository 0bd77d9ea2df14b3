"""The directory for spooled inputs: one for each process, gone when its process is."""

from pathlib import Path

import pytest

from assignor.errors import InputError
from spark_engine.batch.output_directory import spool_directory


def test_should_be_gone_in_the_end_and_the_output_with_it_when_there_was_no_run(tmp_path: Path) -> None:
    with spool_directory(tmp_path / "out") as spool:
        (spool / "lines").touch()
    assert list(tmp_path.iterdir()) == []


def test_should_remove_what_a_process_that_was_killed_has_left_and_nothing_of_one_that_lives(tmp_path: Path) -> None:
    with spool_directory(tmp_path) as living:
        (living / "lines").touch()
        killed = living.with_name("spool-killed")
        killed.mkdir()
        (killed / "lines").touch()
        with spool_directory(tmp_path) as other:
            assert sorted(living.parent.iterdir()) == sorted([living, other])
        assert (living / "lines").exists()
    assert list(tmp_path.iterdir()) == []


def test_should_make_nothing_for_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is a URL"), spool_directory(Path("s3://bucket/out")):
        pass
    assert list(tmp_path.iterdir()) == []
