"""The group's log is damaged under an application that counts words, and the group is repaired over HTTP."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.acceptance.word_application import TIMEOUT_S, words_on_a_coordinator


@pytest.mark.long
def test_should_go_on_by_itself_after_the_repair_and_count_each_word_once(tmp_path: Path) -> None:
    """Nobody restarts an instance: each hears that it is unknown, drops its tasks and joins again."""
    with words_on_a_coordinator(tmp_path) as (words, coordinator):
        words.start(instance="a")
        words.start(instance="b")
        words.count_some_words()
        words.wait_until_at_rest(2)
        given_out = max(words.generations())

        coordinator.kill()
        damage_the_third_last_record(tmp_path / "coordinator" / "coordinator.sqlite3", words.id)
        coordinator.start()
        unreadable = httpx.get(f"{coordinator.url}/v1/groups").json()["unreadable"]
        repair = f"{coordinator.url}/v1/groups/{words.id}/repair"
        repaired = httpx.post(repair, params={"execute": "true"}, timeout=TIMEOUT_S).json()

        words.wait_until_at_rest(repaired["generation_id"])
        words.count_some_words()
        assert [each["group_id"] for each in unreadable] == [words.id]
        assert (repaired["executed"], len(repaired["dropped"]["members"])) == (True, len(words.instances))
        assert repaired["generation_id"] > given_out
        words.assert_whole()


def damage_the_third_last_record(file: Path, group_id: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        changed = database.execute(
            "UPDATE group_records SET body = substr(body, 1, 20) WHERE group_id = ? "
            "AND sequence = (SELECT sequence - 2 FROM groups WHERE group_id = ?)",
            (group_id, group_id),
        )
        assert changed.rowcount == 1
