"""The coordinator's database is lost under an application that counts words, and a backup from before is restored."""

from collections import Counter
from pathlib import Path

import pytest

from coordinator_api.group.snapshot import LOST_GENERATIONS
from streams_runtime.common.states import InstanceState, TaskType
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.acceptance.word_application import TIMEOUT_S, WordApplication
from tests.coordinator_api.service_process import clean_environment
from tests.spark_jobs.log_directories import LogDirectories
from tests.streams_runtime.word_counting import wait_for
from tests.warm_coordinator import WarmCoordinator

TASKS = {"0_0", "0_1", "1_0", "1_1"}


def assignor(directory: Path, *arguments: str) -> None:
    ended = warm_program.run(arguments, cwd=directory, environment=clean_environment())
    assert ended.returncode == 0, ended.stderr


def generations(words: WordApplication) -> set[int]:
    return {thread.generation_id for instance in words.instances for thread in instance.status().threads}


def owners(words: WordApplication) -> Counter[str]:
    """How many threads run each task as its active owner."""
    return Counter(
        str(task.task_id)
        for instance in words.instances
        for thread in instance.status().threads
        for task in thread.tasks
        if task.role is TaskType.ACTIVE
    )


@pytest.mark.long
def test_should_go_on_by_itself_and_count_each_word_once(tmp_path: Path) -> None:
    """Between backup and loss, an instance joins and the tasks move: the backup knows nothing of it."""
    directory, logs = tmp_path / "coordinator", LogDirectories(tmp_path / "logs")
    settings = {"group.initial.rebalance.delay.ms": 1_000, **logs.setting}
    database = f"sqlite:///{directory / 'coordinator.sqlite3'}"
    with WarmCoordinator(directory, settings) as coordinator, CoordinatorClient(coordinator.url) as client:
        words = WordApplication(coordinator.url, client, logs.take(), tmp_path / "words")
        try:
            words.declare()
            words.start(instance="a")
            words.count_some_words()
            assignor(tmp_path, "backup", "b", "--database-url", database)
            at_backup = max(generations(words))
            words.start(instance="b")
            words.count_some_words()
            wait_for(lambda: at_rest(words, at_backup + 1), lambda: statuses(words), TIMEOUT_S)

            coordinator.kill()
            for left in directory.glob("coordinator.sqlite3*"):
                left.unlink()
            assignor(tmp_path, "restore", "b", "--database-url", database)
            coordinator.start()

            wait_for(lambda: at_rest(words, at_backup + LOST_GENERATIONS), lambda: statuses(words), TIMEOUT_S)
            words.count_some_words()
            assert owners(words) == Counter(TASKS)
            assert len(client.describe(words.id)["members"]) == len(words.instances)
            assert all(instance.state is InstanceState.RUNNING for instance in words.instances)
        finally:
            words.close()


def at_rest(words: WordApplication, since: int) -> bool:
    """Whether all threads have the same assignment, of generation `since` or later, and each task one owner."""
    found = generations(words)
    return len(found) == 1 and min(found) >= since and owners(words) == Counter(TASKS)


def statuses(words: WordApplication) -> object:
    return [(instance.status(), instance.errors) for instance in words.instances]
