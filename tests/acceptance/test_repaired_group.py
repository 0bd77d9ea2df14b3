"""The group's log is damaged under an application that counts words, and the group is repaired over HTTP."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from streams_runtime.common.states import InstanceState
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.acceptance.test_lost_coordinator import TASKS, at_rest, generations, owners, statuses
from tests.acceptance.word_application import TIMEOUT_S, WordApplication
from tests.spark_jobs.log_directories import LogDirectories
from tests.streams_runtime.word_counting import wait_for
from tests.warm_coordinator import WarmCoordinator


@pytest.mark.long
def test_should_go_on_by_itself_after_the_repair_and_count_each_word_once(tmp_path: Path) -> None:
    """Nobody restarts an instance: each hears that it is unknown, drops its tasks and joins again."""
    directory, logs = tmp_path / "coordinator", LogDirectories(tmp_path / "logs")
    settings = {"group.initial.rebalance.delay.ms": 1_000, **logs.setting}
    with WarmCoordinator(directory, settings) as coordinator, CoordinatorClient(coordinator.url) as client:
        words = WordApplication(coordinator.url, client, logs.take(), tmp_path / "words")
        try:
            words.declare()
            words.start(instance="a")
            words.start(instance="b")
            words.count_some_words()
            wait_for(lambda: at_rest(words, 2), lambda: statuses(words), TIMEOUT_S)
            given_out = max(generations(words))

            coordinator.kill()
            damage_the_third_last_record(directory / "coordinator.sqlite3", words.id)
            coordinator.start()
            unreadable = httpx.get(f"{coordinator.url}/v1/groups").json()["unreadable"]
            repair = f"{coordinator.url}/v1/groups/{words.id}/repair"
            repaired = httpx.post(repair, params={"execute": "true"}, timeout=TIMEOUT_S).json()

            wait_for(lambda: at_rest(words, repaired["generation_id"]), lambda: statuses(words), TIMEOUT_S)
            words.count_some_words()
            assert [each["group_id"] for each in unreadable] == [words.id]
            assert (repaired["executed"], len(repaired["dropped"]["members"])) == (True, len(words.instances))
            assert repaired["generation_id"] > given_out
            assert owners(words) == Counter(TASKS)
            assert len(client.describe(words.id)["members"]) == len(words.instances)
            assert all(instance.state is InstanceState.RUNNING for instance in words.instances)
        finally:
            words.close()


def damage_the_third_last_record(file: Path, group_id: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        changed = database.execute(
            "UPDATE group_records SET body = substr(body, 1, 20) WHERE group_id = ? "
            "AND sequence = (SELECT sequence - 2 FROM groups WHERE group_id = ?)",
            (group_id, group_id),
        )
        assert changed.rowcount == 1
