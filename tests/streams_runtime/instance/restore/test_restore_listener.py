"""The calls that a listener gets, and the message about a listener that fails."""

import pytest

from assignor.types import TopicPartition
from streams_runtime.instance.restore.restore_listener import RestoreListenerFailed
from tests.streams_runtime.instance.restore.conftest import StartReader
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import create, fill, numbered, write

COUNTS = TopicPartition("app-counts-changelog", 0)
TOLD = [
    ("start", str(COUNTS), "counts", (0, 10)),
    ("batch", str(COUNTS), "counts", (9, 10)),
    ("end", str(COUNTS), "counts", (10,)),
]


@pytest.fixture
def filled(log: FailingLog) -> None:
    fill(log, COUNTS, 10)


@pytest.mark.usefixtures("filled")
def test_should_tell_start_batches_and_end(start: StartReader) -> None:
    restoring = start()
    restoring.add(COUNTS)
    restoring.restore()
    assert restoring.listener.told == TOLD


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("what", "callback"), [("start", "on_restore_start"), ("batch", "on_batch_restored"), ("end", "on_restore_end")]
)
def test_should_name_the_listener_that_failed(start: StartReader, what: str, callback: str) -> None:
    restoring = start()
    task = restoring.add(COUNTS)
    restoring.listener.fail_at.add(what)
    with pytest.raises(RestoreListenerFailed) as raised:
        restoring.restore()
    listener = "tests.streams_runtime.instance.restore.restoring.SpyingListener"
    assert str(raised.value) == (
        f"restore listener {listener}.{callback} failed for store 'counts' "
        f"(changelog app-counts-changelog-0): RuntimeError: no {what} please"
    )
    assert raised.value.task_id == task.id
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_should_let_all_tasks_go_when_a_listener_fails_on_one(start: StartReader, log: FailingLog) -> None:
    restoring = start(restore_batch_records=4)
    partitions = [create(log, f"changelog-{number}") for number in range(3)]
    for partition in partitions:
        write(log, partition, numbered(0, 10))
        restoring.add(partition)
    restoring.restore(others_run=True)
    restoring.listener.fail_at.add("suspended")
    with pytest.raises(RestoreListenerFailed, match="on_restore_suspended"):
        restoring.reader.clear()
    assert restoring.reader.is_empty()
    assert restoring.consumer.assignment() == frozenset()
    suspended = {told[1] for told in restoring.listener.told if told[0] == "suspended"}
    assert suspended == {str(partition) for partition in partitions}
