"""The steps of docs/how-to/upgrade-an-application.md and upgrade-the-coordinator.md, each tried."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.common.states import InstanceState
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.calls import GroupRunsAnotherTopology
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.acceptance.word_application import TIMEOUT_S, WordApplication, counting_words
from tests.coordinator_api.service_process import clean_environment
from tests.spark_jobs.log_directories import LogDirectories
from tests.streams_runtime.word_counting import wait_for


@pytest.fixture
def words(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directories: LogDirectories, tmp_path: Path
) -> Iterator[WordApplication]:
    """Two instances of the first version have counted some words."""
    application = WordApplication(coordinator.url, client, log_directories.take(), tmp_path)
    application.declare()
    for instance in ("a", "b"):
        application.start(instance=instance)
    application.count_some_words()
    yield application
    application.close()


@pytest.mark.long
def test_should_replace_one_instance_after_the_other_when_the_topology_stays(words: WordApplication) -> None:
    for name in ("a", "b"):
        old = next(each for each in words.instances if each.application.configs.state_dir.name == name)
        old.close(TIMEOUT_S)
        next_version = words.version(instance=name, commit_interval_ms=50)
        words.declare(next_version)  # as its driver does: nothing that members go by has changed
        words.start(next_version)
        words.count_some_words()

    assert [each.state for each in words.instances[:2]] == [InstanceState.NOT_RUNNING] * 2


@pytest.mark.long
def test_should_take_other_configs_of_the_group_without_a_restart(
    words: WordApplication, client: CoordinatorClient
) -> None:
    words.declare(words.version(num_standby_replicas=1))

    words.count_some_words()
    assert client.describe(words.id)["revision"] == 2
    wait_for(  # the rebalance that it sets off, or the one that was under way
        lambda: client.describe(words.id)["last_rebalance"]["revision"] == 2, lambda: client.describe(words.id)
    )
    assert all(each.wait_until_running(TIMEOUT_S) for each in words.instances)


def test_should_drain_then_start_the_next_version_with_the_state_of_the_last(
    words: WordApplication, coordinator: CoordinatorProcess, tmp_path: Path
) -> None:
    next_topology = counting_words(also_orders=True)
    with pytest.raises(GroupRunsAnotherTopology, match=r"subtopology 2 .* is only in the new one"):
        words.declare(words.version(next_topology))

    drained = warm_program.run(
        ["groups", "drain", words.id, "--coordinator", coordinator.url], cwd=tmp_path, environment=clean_environment()
    )
    ends = [instance.wait(TIMEOUT_S) for instance in words.instances]
    words.declare(words.version(next_topology))
    words.start(words.version(next_topology))

    assert drained.returncode == 0
    assert ends == [InstanceState.NOT_RUNNING] * 2
    words.count_some_words()  # on top of what the last version counted


def test_should_replace_the_topology_under_members_that_can_run_the_new_one(words: WordApplication) -> None:
    """Another output is no other task: whoever runs the old version goes on, and is replaced instance by instance."""
    next_topology = counting_words(output="order-totals")
    words.declare(words.version(next_topology), replace=True)
    words.count_some_words()  # by the old version, to the old topic
    for name in ("a", "b"):
        words.instances.pop(0).close(TIMEOUT_S)
        words.start(words.version(next_topology, instance=name))

    assert all(each.wait_until_running(TIMEOUT_S) for each in words.instances)


@pytest.mark.long
def test_should_go_on_when_the_coordinator_is_stopped_upgraded_and_started(
    words: WordApplication, coordinator: CoordinatorProcess, client: CoordinatorClient, tmp_path: Path
) -> None:
    before = client.describe(words.id)
    coordinator.stop()
    # what the page tells to do in between: a copy of the database, and migrate on its own
    database = f"sqlite:///{coordinator.log_file.parent / 'coordinator.sqlite3'}"
    migrated = warm_program.run(["migrate", "--database-url", database], cwd=tmp_path, environment=clean_environment())
    coordinator.start()

    words.count_some_words()
    after = client.describe(words.id)
    assert migrated.returncode == 0, migrated.stderr
    assert [after[name] for name in ("revision", "declared_by")] == [
        before[name] for name in ("revision", "declared_by")
    ]
    assert member_ids(after) == member_ids(before), "nobody was put out, and nobody had to come back"
    assert all(each.state is not InstanceState.ERROR for each in words.instances)


def member_ids(described: Any) -> set[str]:
    return {member["member_id"] for member in described["members"]}
