"""Rebalance, the member's side: what is true on disk when a task is taken away, and what is asked of the group then."""

from pathlib import Path

import pytest

from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.common.states import TaskState
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.task_manager import TaskManager
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.membership.process_membership import GroupMember
from streams_runtime.tasks.state_directory import StateDirectory
from tests.streams_runtime.manual_clock import ManualClock
from tests.streams_runtime.rules.test_thread_loop import setting
from tests.streams_runtime.tasks.thread_rig import APPLICATION, COUNT_0, EVERYTHING, rig


def test_should_have_a_checkpoint_of_everything_when_an_active_task_is_revoked_at_least_once(tmp_path: Path) -> None:
    """Whoever opens the directory next must not restore what is there already, even if the close never comes."""
    thread = rig(tmp_path, "at_least_once")
    thread.write(["the cat and the dog"] * 20)
    thread.run(EVERYTHING)
    thread.write(["one more bird"] * 20)
    thread.passes(3)
    thread.work.manager.handle_revocation(frozenset({COUNT_0}))

    revoked = thread.task(COUNT_0)
    assert revoked.state is TaskState.SUSPENDED
    ends = thread.log.end_offsets(revoked.changelog_partitions)
    assert thread.directory.stored_offsets(COUNT_0) == {p: end - 1 for p, end in ends.items()}
    thread.close()


@pytest.mark.parametrize(("active", "asked"), [(True, 1), (False, 0)])
def test_should_ask_for_a_round_when_an_active_task_is_corrupt_under_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: bool, asked: int
) -> None:
    """Its state is gone here; a standby elsewhere may be nearer than the changelog's beginning."""
    directory = StateDirectory(tmp_path, APPLICATION, ManualClock())
    thread = StreamThread(setting(directory, tmp_path, InMemoryLog()))
    rounds: list[GroupMember] = []
    monkeypatch.setattr(TaskManager, "handle_corruption", lambda _manager, _tasks, _damaged: active)
    monkeypatch.setattr(GroupMember, "request_rejoin", lambda member: rounds.append(member))

    thread._start_over(TaskCorrupted([COUNT_0]))

    assert len(rounds) == asked
    thread._work.close()
    directory.close()
