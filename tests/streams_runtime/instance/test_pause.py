"""A paused thread: its tasks stand still, and are committed, handed over and closed all the same (KIP-834).

Kafka's: `PauseResumeIntegrationTest`, `TaskExecutionMetadataTest`, `StreamThreadTest`.
"""

from pathlib import Path

from streams_runtime.common.states import TaskState
from streams_runtime.processors.api import PunctuationType
from tests.streams_runtime.tasks.thread_rig import COUNT_0, COUNT_1, EVERYTHING, SENTENCES, SPLIT_0, Rig, rig


def test_should_process_nothing_while_paused_and_everything_afterwards(thread: Rig) -> None:
    thread.run(EVERYTHING)
    thread.write(SENTENCES)
    thread.paused.set()
    thread.passes()
    assert (thread.totals(), set(thread.committed().values())) == ({}, {0})

    thread.paused.clear()
    thread.passes()
    assert thread.totals() == dict(thread.words)


def test_should_commit_what_was_processed_before_the_pause(thread: Rig) -> None:
    thread.run([SPLIT_0])
    thread.write(SENTENCES)
    thread.commits = False
    thread.one_pass()
    assert thread.committed() == {"lines-0": 0}

    thread.paused.set()
    thread.commits = True
    thread.passes(2)
    assert thread.committed() == {"lines-0": 10}


def test_should_punctuate_neither_by_the_clock_nor_by_stream_time_while_paused(thread: Rig) -> None:
    thread.run(EVERYTHING)
    fired: list[PunctuationType] = []
    thread.active(COUNT_0).runtime.stream_time_ms = 5_000
    for kind in PunctuationType:
        thread.schedule(COUNT_0, kind, lambda _now_ms, kind=kind: fired.append(kind))  # type: ignore[misc]
    thread.paused.set()
    thread.passes()
    assert fired == []

    thread.paused.clear()
    thread.one_pass()
    assert sorted(fired) == sorted(PunctuationType), "what was missed meanwhile fires once"


def test_should_restore_nothing_while_paused_and_still_open_its_tasks(thread: Rig, tmp_path: Path) -> None:
    thread.write(SENTENCES)
    thread.run(EVERYTHING)
    thread.passes()
    other = rig(tmp_path / "other", "at_least_once", log=thread.log, topics=False)
    other.paused.set()
    other.assign([COUNT_0], [COUNT_1])
    other.passes()
    assert other.states() == {"active 1_0": "restoring", "standby 1_1": "running"}
    assert [other.work.restoration.restored(other.task(task)) for task in (COUNT_0, COUNT_1)] == [0, 0]
    assert not other.work.restoration.is_done

    other.paused.clear()
    other.passes()
    assert {task.state for task in other.tasks} == {TaskState.RUNNING}
    assert other.work.restoration.restored(other.task(COUNT_0)) > 0
    other.close()


def test_should_wait_for_the_next_poll_instead_of_looking_again_and_again(thread: Rig) -> None:
    thread.run(EVERYTHING)
    thread.schedule(COUNT_0, PunctuationType.WALL_CLOCK_TIME, lambda _now_ms: None)
    thread.clock.ms += 10_000
    assert thread.work._wait_ms() == 0, "a punctuation is due"
    thread.paused.set()
    assert thread.work._wait_ms() == 50, "poll.ms"


def test_should_hand_its_tasks_over_while_paused(thread: Rig) -> None:
    thread.run(EVERYTHING)
    thread.write(SENTENCES)
    thread.paused.set()
    thread.passes(2)
    thread.work.manager.handle_revocation(frozenset({SPLIT_0}))
    thread.assign([COUNT_0], [COUNT_1])
    thread.passes()

    assert sorted(str(task.id) for task in thread.tasks) == ["1_0", "1_1"]
