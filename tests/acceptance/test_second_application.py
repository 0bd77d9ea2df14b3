"""Somebody starts another application under the id of one that runs: it is refused, and the healthy one goes on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_runtime.common.states import InstanceState
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.membership.calls import GroupRunsAnotherTopology
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.acceptance.word_application import WordApplication
from tests.spark_jobs.log_directories import LogDirectories
from tests.spark_jobs.small_application import address

ANOTHER = """
from streams_runtime import LONG, STRING, Application, StreamsBuilder

builder = StreamsBuilder()
orders = builder.stream("orders", STRING, STRING).group_by_key(key_serde=STRING, value_serde=STRING)
orders.count(store="totals").to_stream().to("order-totals", key_serde=STRING, value_serde=LONG)
app = Application(builder.build(), {{"application.id": "{id}", "bootstrap.servers": "{log}"}})
"""


@pytest.fixture
def words(
    coordinator: CoordinatorProcess, client: CoordinatorClient, log_directories: LogDirectories, tmp_path: Path
) -> Iterator[WordApplication]:
    application = WordApplication(coordinator.url, client, log_directories.take(), tmp_path)
    application.declare()
    application.start()
    yield application
    application.close()


def test_should_refuse_another_application_that_is_started_under_the_id_of_one_that_runs(
    words: WordApplication,
    coordinator: CoordinatorProcess,
    client: CoordinatorClient,
    log_directories: LogDirectories,
    tmp_path: Path,
) -> None:
    words.count_some_words()
    before = client.describe(words.id)
    log = address(log_directories.take())
    (tmp_path / "another.py").write_text(ANOTHER.format(id=words.id, log=log), encoding="utf-8")

    started = warm_program.run(
        ["workers", "run", "another:app", "--coordinator", coordinator.url], cwd=tmp_path, environment=os.environ
    )

    assert (started.returncode, started.stdout) == (1, "")
    (line,) = started.stderr.splitlines()
    assert line.startswith(
        f"error: INCONSISTENT_GROUP_PROTOCOL (409): group {words.id}: it has 1 member, which runs another"
    )
    assert "subtopology 0 reads lines, in the new one orders" in line
    assert "subtopology 1 (reads" in line
    assert log in line, "it is on another log, too"
    assert "give it another application.id" in line
    assert "?replace=true" in line
    assert f"process {os.getpid()}" in line, "who declared what runs"
    words.count_some_words()
    (healthy,) = words.instances
    assert healthy.state is InstanceState.RUNNING
    after = client.describe(words.id)
    assert [after[name] for name in ("revision", "generation_id")] == [
        before[name] for name in ("revision", "generation_id")
    ]


def test_should_refuse_the_same_application_on_another_log(
    words: WordApplication, log_directories: LogDirectories
) -> None:
    elsewhere = address(log_directories.take())

    with pytest.raises(GroupRunsAnotherTopology, match=f"the new one {elsewhere}"):
        words.declare(words.version(bootstrap_servers=elsewhere))

    words.count_some_words()
