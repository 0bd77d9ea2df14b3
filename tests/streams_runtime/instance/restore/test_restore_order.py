"""The order in which a reader restores active tasks: the tasks that lack least come first."""

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.instance.restore.restore_order import STALLED_MS, TASKS_AT_ONCE, RestoreOrder
from tests.streams_runtime.instance.restore.conftest import StartReader
from tests.streams_runtime.instance.restore.failing_log import FailingLog
from tests.streams_runtime.instance.restore.restoring import Restoring, contents, fill


@pytest.fixture
def restoring(start: StartReader) -> Restoring:
    return start(restore_batch_records=100)


def filled(log: FailingLog, records: int) -> TopicPartition:
    partition = TopicPartition(f"changelog-{records}", 0)
    fill(log, partition, records)
    return partition


def events(restoring: Restoring, *kinds: str) -> list[str]:
    """The topics of the listener's calls of these kinds, without repetitions in a row."""
    topics = [partition.rsplit("-", 1)[0] for kind, partition, *_ in restoring.listener.told if kind in kinds]
    return [topic for index, topic in enumerate(topics) if index == 0 or topics[index - 1] != topic]


def restore_all(restoring: Restoring, *changelogs: TopicPartition) -> None:
    while not restoring.reader.completed_changelogs() >= set(changelogs):
        assert restoring.restore(others_run=True), restoring.reader.lags()


def test_should_restore_first_the_tasks_that_lack_least(restoring: Restoring, log: FailingLog) -> None:
    changelogs = [filled(log, size) for size in (8_000, 510, 5_000, 260)]
    tasks = {each: restoring.add(each) for each in changelogs}
    restore_all(restoring, *changelogs)
    assert events(restoring, "end") == ["changelog-260", "changelog-510", "changelog-5000", "changelog-8000"]
    batches = events(restoring, "batch", "end")
    assert batches.index("changelog-5000") < batches.index("changelog-8000"), "two tasks are read at a time"
    for changelog, task in tasks.items():
        assert task.content() == contents(0, int(changelog.topic.removeprefix("changelog-")))


def test_should_measure_what_a_task_lacks_and_not_how_much_it_has(restoring: Restoring, log: FailingLog) -> None:
    large, medium, small = (filled(log, size) for size in (5_000, 2_000, 1_000))
    restoring.add(small)
    restoring.add(medium)
    restoring.add(large, applied=4_979)
    restore_all(restoring, large, medium, small)
    assert events(restoring, "end") == [large.topic, small.topic, medium.topic]


def test_should_read_all_changelogs_of_a_task_together(restoring: Restoring, log: FailingLog) -> None:
    of_one = [filled(log, size) for size in (300, 1_500)]
    others = [filled(log, size) for size in (1_000, 1_100)]
    restoring.add(of_one[0], second=of_one[1])
    for each in others:
        restoring.add(each)
    restore_all(restoring, *others)
    assert restoring.reader.positions().keys() == set(of_one)
    assert not any(topic == "changelog-300" for topic in events(restoring, "end")), "its task lacks 1,800"
    restore_all(restoring, *of_one)


def test_should_overtake_larger_tasks_which_go_on_afterwards(restoring: Restoring, log: FailingLog) -> None:
    large = [filled(log, size) for size in (3_000, 4_000)]
    for each in large:
        restoring.add(each)
    restoring.restore(others_run=True)
    small = [filled(log, size) for size in (200, 150)]
    for each in small:
        restoring.add(each)
    before = restoring.reader.positions()
    while not restoring.reader.completed_changelogs():
        restoring.restore(others_run=True)
        assert {each: restoring.reader.positions()[each] for each in large} == {each: before[each] for each in large}
    restore_all(restoring, *large, *small)
    assert events(restoring, "end") == ["changelog-150", "changelog-200", "changelog-3000", "changelog-4000"]


def test_should_not_let_a_task_without_progress_delay_others(restoring: Restoring, log: FailingLog) -> None:
    stuck = [filled(log, size) for size in (10, 20)]
    larger = filled(log, 300)
    for each in (*stuck, larger):
        restoring.add(each)
    log.stuck = set(stuck)
    assert [restoring.restore(others_run=True) for _ in range(3)] == [0, 0, 0]
    restoring.clock.advance(STALLED_MS)
    restore_all(restoring, larger)
    log.stuck.clear()
    restore_all(restoring, *stuck)


def test_should_choose_by_task_id_when_tasks_lack_the_same() -> None:
    tasks = [TaskId(subtopology, partition) for subtopology in range(2) for partition in (0, 2, 10)]
    order = RestoreOrder()
    assert order.choose(dict.fromkeys(reversed(tasks), 7), 0) == set(tasks[:TASKS_AT_ONCE])
    assert order.choose({}, 0) == set()
