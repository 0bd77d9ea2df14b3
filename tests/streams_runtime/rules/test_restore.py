"""Restore: a restored task runs at once, a pass beside running tasks is short, and the user's listener hears of it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.instance.streams_instance import StreamsInstance
from tests.streams_runtime.instance.restore.restoring import SpyingListener
from tests.streams_runtime.running_group import SOME_LINES, Group
from tests.streams_runtime.tasks.thread_rig import APPLICATION, COUNT_0, COUNT_1, EVERYTHING, rig
from tests.streams_runtime.word_counting import STORE, TIMEOUT_S

COUNTS = TopicPartition("app-counts-changelog", 0)


def test_should_run_a_restored_task_while_others_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rig(tmp_path / "before", "exactly_once_v2")
    before.write(["the cat and the dog"] * 20)
    before.run(EVERYTHING)
    before.work.manager.shutdown()
    after = rig(tmp_path / "after", "exactly_once_v2", log=before.log, topics=False)
    slow = TopicPartition(f"{APPLICATION}-{STORE}-changelog", COUNT_1.partition)
    completed = ChangelogReader.completed_changelogs
    with monkeypatch.context() as patched:
        patched.setattr(ChangelogReader, "completed_changelogs", lambda reader: completed(reader) - {slow})
        after.assign([COUNT_0, COUNT_1])
        after.passes()
        assert after.states() == {"active 1_0": "running", "active 1_1": "restoring"}
    after.passes()
    assert after.states() == {"active 1_0": "running", "active 1_1": "running"}
    after.close()
    before.close()


def test_should_tell_the_listener_that_the_application_brings(group: Group) -> None:
    first = group.start("a")
    group.write(SOME_LINES)
    group.wait_until_counted()
    first.close(TIMEOUT_S)
    shutil.rmtree(group.directory / "a")
    listener = SpyingListener()

    application = replace(group.application("a"), restore_listener_factory=lambda: listener)
    second = StreamsInstance(application, group.client)
    group.instances.append(second)
    second.start()
    assert second.wait_until_running(TIMEOUT_S)
    second.close(TIMEOUT_S)

    for partition in range(2):
        changelog = f"{group.id}-{STORE}-changelog-{partition}"
        of_one = [call for call, of, store, _ in listener.told if (of, store) == (changelog, STORE)]
        assert (of_one[0], set(of_one[1:-1]), of_one[-1]) == ("start", {"batch"}, "end"), listener.told
