"""The coordinator's database is lost under an application that counts words, and a backup from before is restored."""

from pathlib import Path

import pytest

from coordinator_api.group.snapshot import LOST_GENERATIONS
from tests import warm_program
from tests.acceptance.word_application import words_on_a_coordinator
from tests.coordinator_api.service_process import clean_environment


def assignor(directory: Path, *arguments: str) -> None:
    ended = warm_program.run(arguments, cwd=directory, environment=clean_environment())
    assert ended.returncode == 0, ended.stderr


@pytest.mark.long
def test_should_go_on_by_itself_and_count_each_word_once(tmp_path: Path) -> None:
    """Between backup and loss, an instance joins and the tasks move: the backup knows nothing of it."""
    directory = tmp_path / "coordinator"
    database = f"sqlite:///{directory / 'coordinator.sqlite3'}"
    with words_on_a_coordinator(tmp_path) as (words, coordinator):
        words.start(instance="a")
        words.count_some_words()
        assignor(tmp_path, "backup", "b", "--database-url", database)
        at_backup = max(words.generations())
        words.start(instance="b")
        words.count_some_words()
        words.wait_until_at_rest(at_backup + 1)

        coordinator.kill()
        for left in directory.glob("coordinator.sqlite3*"):
            left.unlink()
        assignor(tmp_path, "restore", "b", "--database-url", database)
        coordinator.start()

        words.wait_until_at_rest(at_backup + LOST_GENERATIONS)
        words.count_some_words()
        words.assert_whole()
