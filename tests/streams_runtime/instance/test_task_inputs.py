"""Claims, releases and committed offsets: how often the log is asked does not depend on the number of tasks."""

import pytest

from streams_runtime.logs.log_errors import CommitFenced, LogTimeout
from tests.streams_runtime.tasks.thread_rig import (
    APPLICATION,
    COUNT_0,
    COUNT_1,
    EVERYTHING,
    SENTENCES,
    SPLIT_0,
    SPLIT_1,
    MakeRig,
    inputs,
)
from tests.streams_runtime.tasks.watched_log import WatchedLog


@pytest.fixture
def log() -> WatchedLog:
    return WatchedLog()


def asked(log: WatchedLog) -> dict[str, int]:
    found = {call: log.count(call) for call in ("claim", "release", "committed_offsets")}
    log.calls.clear()
    return found


def test_should_ask_the_log_once_for_all_tasks_that_start_or_go(make: MakeRig, guarantee: str, log: WatchedLog) -> None:
    thread = make(guarantee, log=log)
    thread.write(SENTENCES)
    thread.assign(EVERYTHING)
    asked(log)

    thread.one_pass()  # nothing has to be restored
    assert set(thread.states().values()) == {"running"}
    assert asked(log) == {"claim": 1, "release": 0, "committed_offsets": 1}

    thread.passes()
    asked(log)
    thread.work.manager.handle_revocation(frozenset(EVERYTHING))
    assert asked(log) == {"claim": 0, "release": 1, "committed_offsets": 0}

    thread.assign(EVERYTHING)  # and all of it comes back, stores open
    thread.one_pass()
    assert asked(log) == {"claim": 1, "release": 0, "committed_offsets": 1}

    thread.work.manager.shutdown()
    assert asked(log) == {"claim": 0, "release": 1, "committed_offsets": 0}
    assert thread.totals() == dict(thread.words)


@pytest.mark.parametrize(("policy", "compacted"), [({}, True), ({"topic_cleanup_policy": "compact,delete"}, False)])
def test_should_know_which_changelogs_are_compacted_alone(
    make: MakeRig, guarantee: str, policy: dict[str, str], compacted: bool
) -> None:
    thread = make(guarantee, **policy)
    thread.assign(EVERYTHING)
    state = thread.task(COUNT_1).state_manager
    assert state.compacted_changelogs == (state.changelog_partitions if compacted else set())
    assert {changelog.partition for changelog in state.changelog_partitions} == {COUNT_1.partition}


def test_should_claim_nothing_again_for_a_task_that_is_recycled_alone(make: MakeRig, guarantee: str) -> None:
    log = WatchedLog()
    thread = make(guarantee, log=log)
    thread.run([SPLIT_0, SPLIT_1, COUNT_0], [COUNT_1])
    before = thread.active(COUNT_0).claim
    asked(log)
    thread.run(EVERYTHING)
    assert asked(log)["claim"] == 1
    assert thread.active(COUNT_0).claim is before


def test_should_give_each_task_a_claim_of_its_own_partitions(make: MakeRig, guarantee: str, log: WatchedLog) -> None:
    """One that another owner has taken is lost; the others of the same call go on."""
    thread = make(guarantee, log=log)
    thread.run(EVERYTHING)
    claims = {task: thread.active(task).claim for task in EVERYTHING}
    assert {task: claim.epochs.keys() for task, claim in claims.items()} == {
        task: thread.task(task).input_partitions for task in EVERYTHING
    }

    log.claim(APPLICATION, thread.task(COUNT_0).input_partitions)
    producer = log.producer()
    producer.commit_offsets([(claims[COUNT_1], {})])
    with pytest.raises(CommitFenced):
        producer.commit_offsets([(claims[COUNT_0], {})])


def test_should_claim_no_task_whose_directory_another_thread_still_has(
    make: MakeRig, guarantee: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim would fence that thread before it has given the task up. The other tasks do not wait."""
    other = make(guarantee, log=log, name="other")
    other.run([COUNT_0])
    holds = other.active(COUNT_0).claim
    thread = make(guarantee, log=log, directory=other.directory, name="new")

    # directories are locked by the thread that asks, and here both are this one
    lock = other.directory.lock
    monkeypatch.setattr(other.directory, "lock", lambda task: task != COUNT_0 and lock(task))
    thread.assign(EVERYTHING)
    thread.passes(2)
    assert thread.work.restoration.waits_for_lock
    assert thread.states()["active 1_0"] == "created"
    assert [thread.states()[f"active {task}"] for task in (SPLIT_0, SPLIT_1, COUNT_1)] == ["running"] * 3
    log.producer().commit_offsets([(holds, {})])

    other.work.manager.handle_revocation(frozenset({COUNT_0}))
    other.assign([])
    monkeypatch.undo()
    thread.passes(2)
    assert set(thread.states().values()) == {"running"}
    with pytest.raises(CommitFenced):
        log.producer().commit_offsets([(holds, {})])


@pytest.mark.parametrize("call", ["claim", "committed_offsets"])
def test_should_try_all_tasks_again_after_a_failure(make: MakeRig, guarantee: str, log: WatchedLog, call: str) -> None:
    thread = make(guarantee, log=log)
    thread.write(SENTENCES)
    thread.assign(EVERYTHING, [])
    log.fail[call] = LogTimeout("away")
    thread.passes(2)
    assert "running" not in thread.states().values()
    assert thread.work.restoration.waits_for_log

    log.fail.clear()
    asked(log)
    thread.one_pass()
    assert set(thread.states().values()) == {"running"}
    assert asked(log) == {"claim": call == "claim", "release": 0, "committed_offsets": 1}
    thread.passes()
    assert thread.totals() == dict(thread.words)


def test_should_release_claims_of_a_task_of_other_partitions(make: MakeRig, guarantee: str, log: WatchedLog) -> None:
    """Whoever has those partitions now must not fence this thread, which goes on."""
    thread = make(guarantee, log=log)
    thread.run([SPLIT_0])
    asked(log)
    other_input = inputs([SPLIT_0])[SPLIT_0] | inputs([SPLIT_1])[SPLIT_1]
    thread.work.manager.handle_assignment({SPLIT_0: other_input}, {})
    thread.passes(2)
    assert asked(log) == {"claim": 1, "release": 1, "committed_offsets": 1}
    assert thread.active(SPLIT_0).claim.epochs.keys() == other_input
