"""The loop of a stream thread: poll, initialise and restore, process, punctuate, maybe commit; in this order."""

from pathlib import Path
from typing import Any, cast

import pytest

from assignor.types import TopicPartition
from streams_runtime import STRING, CoordinatorClient, Processor, ProcessorContext, PunctuationType, Record, Topology
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.task_executor import TaskExecutor
from streams_runtime.instance.thread_listener import ThreadListener
from streams_runtime.instance.thread_work import ThreadSetting, ThreadWork
from streams_runtime.logs.base import OffsetsToCommit
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.process_membership import ProcessMembership
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.state_directory import StateDirectory
from tests.streams_runtime.manual_clock import ManualClock
from tests.streams_runtime.tasks.running_task import START_MS, RunningTask
from tests.streams_runtime.tasks.thread_rig import APPLICATION, EVERYTHING, SPLIT_0, MakeRig
from tests.streams_runtime.word_counting import counting_application

UNUSED_URL = "http://127.0.0.1:1"
STEPS = ["poll", "initialise_and_restore", "process", "punctuate", "maybe_commit", "send"]


def setting(directory: StateDirectory, state_dir: Path, log: InMemoryLog, name: str = "t-0") -> ThreadSetting:
    return ThreadSetting(
        name=name,
        application=counting_application(APPLICATION, state_dir, state_dir, guarantee="exactly_once_v2"),
        log=log,
        directory=directory,
        membership=ProcessMembership(CoordinatorClient(UNUSED_URL), APPLICATION, session_timeout_ms=45_000),
        member=MemberSettings(APPLICATION, name),
        subscriptions=cast(Any, None),
        transactional_id=f"{APPLICATION}-{name}",
        clock=SystemClock(),
        listener=ThreadListener(),
        restore_listener=SilentRestoreListener(),
        metrics=InstanceMetrics().thread(name),
        notices=NoticeBoard(SystemClock()),
        state_changed=lambda: None,
    )


def test_should_poll_restore_process_punctuate_and_commit_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = StateDirectory(tmp_path, APPLICATION, ManualClock())
    thread = StreamThread(setting(directory, tmp_path, InMemoryLog()))
    done: list[str] = []
    for step in STEPS:
        monkeypatch.setattr(ThreadWork, step, lambda _work, step=step, **_options: done.append(step))

    thread._run_once()
    thread._run_once()

    assert done == STEPS * 2
    thread._work.close()
    directory.close()


def test_should_give_every_thread_a_consumer_a_restore_consumer_and_a_producer_of_its_own(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, APPLICATION, ManualClock())
    log = InMemoryLog()
    works = [ThreadWork(setting(directory, tmp_path, log, f"t-{index}")) for index in range(2)]

    clients = [(work._consumer, work._restore_consumer, work._producer) for work in works]
    assert len({id(client) for of_thread in clients for client in of_thread}) == 6
    for work in works:
        work.close()
    directory.close()


def test_should_commit_at_the_end_of_the_pass_when_a_processor_asks_for_it(make: MakeRig) -> None:
    thread = make("exactly_once_v2", commit_interval_ms=1_000_000)
    thread.run(EVERYTHING)
    thread.write(["the cat"] * 20)
    thread.one_pass()
    assert thread.committed() == {}
    thread.active(SPLIT_0).runtime.request_commit()
    thread.one_pass()
    assert thread.committed()["lines-0"] == 10


def test_should_commit_all_tasks_of_a_thread_in_one_transaction(make: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of all of them are in it: with the offsets of some only, a crash would have the others do it again."""
    thread = make("exactly_once_v2")
    thread.run(EVERYTHING)
    thread.write(["the cat"] * 20)
    commits: list[set[TopicPartition]] = []
    commit = StreamsProducer.commit

    def noting(producer: StreamsProducer, offsets: OffsetsToCommit = ()) -> None:
        commits.append({partition for _claim, moved in offsets for partition in moved})
        commit(producer, offsets)

    monkeypatch.setattr(StreamsProducer, "commit", noting)
    thread.one_pass()
    assert commits == [{TopicPartition("lines", 0), TopicPartition("lines", 1)}]


class BothKinds(Processor[str, str]):
    """Notes what fires, in order."""

    fired: list[tuple[str, int]]

    def init(self, context: ProcessorContext) -> None:
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda now_ms: self.fired.append(("wall", now_ms)))
        context.schedule(10, PunctuationType.STREAM_TIME, lambda now_ms: self.fired.append(("stream", now_ms)))

    def process(self, record: Record[str, str]) -> None:
        self.fired.append((record.value, record.timestamp_ms))


def test_should_punctuate_stream_time_and_then_wall_clock_time_after_records(tmp_path: Path) -> None:
    fired: list[tuple[str, int]] = []
    BothKinds.fired = fired
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    running = RunningTask(tmp_path, topology.add_processor("both", BothKinds, "source")).start()
    executor = TaskExecutor(
        running.producer, running.configs, running.clock, ThreadListener(), InstanceMetrics().thread("t")
    )
    running.write(next(iter(running.inputs)), "record", first_ms=7)
    running.poll()
    running.clock.advance(25)

    assert executor.process([running.task]) == 1
    assert executor.punctuate([running.task]) == 2

    assert fired == [("record", 7), ("stream", 7), ("wall", START_MS + 25)]
    running.task.close_dirty()
    running.directory.close()
