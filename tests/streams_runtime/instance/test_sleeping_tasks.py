"""A running task sleeps when it has nothing to do, and no pass asks it until something happens."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.instance.thread_work import PUBLISH_INTERVAL_MS
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox
from streams_runtime.processors.api import PunctuationType
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.tasks.thread_rig import COUNT_0, EVERYTHING, SPLIT_0, SPLIT_1, Rig, rig

ASKED_IN_A_PASS = (
    "is_process_ready",
    "maybe_punctuate_stream_time",
    "maybe_punctuate_system_time",
    "next_wall_clock_punctuation_ms",
    "commit_needed",
    "commit_requested",
)
LONG_MS = 1_000_000


@pytest.fixture(params=["exactly_once_v2", "at_least_once"])
def thread(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Its tasks run, and where they begin is committed. Passes do not commit any more."""
    made = rig(tmp_path, str(request.param), commit_interval_ms=LONG_MS, poll_ms=50)
    made.run(EVERYTHING)
    made.commits = False
    commit(made)
    made.one_pass()
    yield made
    made.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[TaskId]:
    """The tasks that are asked something from now on."""
    found: set[TaskId] = set()

    def noting(answer: Callable[..., Any]) -> Callable[..., Any]:
        def note(task: StreamTask, *arguments: Any) -> Any:
            found.add(task.id)
            return answer(task, *arguments)

        return note

    for name in ASKED_IN_A_PASS:
        monkeypatch.setattr(StreamTask, name, noting(getattr(StreamTask, name)))
    return found


def awake(thread: Rig) -> list[TaskId]:
    return [task.id for task in thread.tasks.awake]


def commit(thread: Rig) -> None:
    thread.clock.ms += LONG_MS
    thread.one_pass()


def test_should_ask_no_task_in_a_pass_in_which_nothing_happens(thread: Rig, asked: set[TaskId]) -> None:
    thread.passes()
    assert thread.work._wait_ms() == 50, "poll.ms"
    assert (awake(thread), asked) == ([], set())


def test_should_ask_only_the_task_that_gets_records(thread: Rig, asked: set[TaskId]) -> None:
    thread.write([""])  # a line without a word, of the first partition
    thread.passes(3)
    assert asked == {SPLIT_0}
    assert thread.work._executor.processed == {SPLIT_0: 1}


def test_should_let_tasks_take_turns_in_the_order_of_their_ids_however_they_woke(thread: Rig) -> None:
    thread.tasks.wake([COUNT_0])
    thread.tasks.wake([SPLIT_1])
    thread.tasks.wake([SPLIT_0, SPLIT_1])
    assert awake(thread) == [SPLIT_0, SPLIT_1, COUNT_0]


def test_should_sleep_only_when_everything_is_committed(thread: Rig) -> None:
    thread.write([""])
    thread.passes(3)
    assert awake(thread) == [SPLIT_0]
    assert thread.committed()["lines-0"] == 0

    commit(thread)
    assert thread.committed()["lines-0"] == 1
    thread.one_pass()
    assert awake(thread) == []


def test_should_stay_awake_with_records_that_it_may_not_process(thread: Rig) -> None:
    thread.paused.set()
    thread.write([""])
    thread.passes(3)
    assert awake(thread) == [SPLIT_0]
    thread.paused.clear()
    thread.one_pass()
    assert thread.work._executor.processed == {SPLIT_0: 1}


def test_should_sleep_until_wall_clock_time_reaches_its_next_punctuation(thread: Rig, asked: set[TaskId]) -> None:
    fired: list[int] = []
    began_ms = thread.clock.ms
    thread.tasks.wake([COUNT_0])
    thread.active(COUNT_0).runtime.schedule("count", 30, PunctuationType.WALL_CLOCK_TIME, fired.append, None)
    thread.one_pass()
    asked.clear()
    thread.clock.ms += 20
    thread.one_pass()
    assert (thread.work._wait_ms(), asked, fired) == (10, set(), [])

    thread.clock.ms += 10
    assert thread.work._wait_ms() == 0
    thread.one_pass()
    assert (fired, awake(thread)) == ([began_ms + 30], [COUNT_0])
    commit(thread)
    assert fired == [began_ms + 30, thread.clock.ms], "what was missed fires once"


def test_should_sleep_on_when_a_punctuation_was_cancelled(thread: Rig) -> None:
    thread.tasks.wake([COUNT_0])
    runtime = thread.active(COUNT_0).runtime
    schedule = runtime.schedule("count", 30, PunctuationType.WALL_CLOCK_TIME, lambda _now_ms: None, None)
    thread.one_pass()
    schedule.cancel()
    thread.clock.ms += 30
    thread.passes(2)
    assert (awake(thread), thread.work._wait_ms()) == ([], 50)


def test_should_commit_the_gaps_that_a_sleeping_task_has_passed(thread: Rig) -> None:
    thread.write(["a", "b"])  # one of each partition
    thread.work._consumer.seek(TopicPartition("lines", 0), 1)  # as behind a transaction marker
    thread.work._consumer.seek(TopicPartition("lines", 1), 1)
    thread.one_pass()
    assert (awake(thread), thread.committed()["lines-0"]) == ([], 0)
    commit(thread)
    assert (thread.committed()["lines-0"], thread.committed()["lines-1"]) == (1, 1)


def test_should_wake_every_task_when_the_tasks_of_the_thread_change(thread: Rig) -> None:
    thread.assign(EVERYTHING)
    assert awake(thread) == list(EVERYTHING)
    thread.passes(2)
    assert awake(thread) == []


def test_should_make_no_snapshot_for_others_while_nothing_happens(thread: Rig) -> None:
    mailbox = cast("RebalanceMailbox", Published())

    def pass_later() -> int:
        thread.clock.ms += PUBLISH_INTERVAL_MS
        thread.one_pass()
        thread.work.maybe_publish(mailbox)
        return cast("Published", mailbox).times

    assert [pass_later() for _ in range(3)] == [1, 1, 1], "the news of the first passes"
    thread.write([""])
    assert [pass_later() for _ in range(3)] == [2, 3, 4], "as long as something is not committed"
    (split, *_) = thread.work.published_tasks
    assert (split.task_id, split.processed) == (SPLIT_0, 1)
    commit(thread)
    assert [pass_later() for _ in range(4)] == [5, 5, 5, 5]


class Published:
    """In place of the mailbox: how many snapshots were made."""

    times = 0

    def publish(self, _offset_sums: object, _flows: object) -> None:
        self.times += 1
