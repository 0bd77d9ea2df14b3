"""The life of an active task, from CREATED to CLOSED: how it starts, what it does with records, and how it ends."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assignor.types import LATEST_OFFSET, TopicPartition
from streams_runtime.common.errors import LockError, StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.common.records import Record, RecordMetadata
from streams_runtime.common.states import TaskState
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import Processor, ProcessorContext, PunctuationType
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import LONG, STRING
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.state_store import read_only
from streams_runtime.tasks.exception_handling import log_and_continue
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.processors.recording_runtime import PassOn
from tests.streams_runtime.tasks.running_task import (
    COUNTS,
    EXACTLY_ONCE,
    IN,
    OTHER,
    START_MS,
    TASK,
    Configs,
    Count,
    RunningTask,
    Trouble,
    both_guarantees,
    counting,
    uppercase,
)


def state(one: RunningTask) -> TaskState:
    return one.task.state


class FailsToClose(Processor[Any, Any]):
    def process(self, record: object) -> None:
        pass

    def close(self) -> None:
        raise Trouble("close")


def test_should_begin_anew_when_resumed_before_it_was_initialised(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    one.task.suspend()
    one.task.resume()
    assert state(one) is TaskState.CREATED
    one.start()
    one.task.resume()
    assert state(one) is TaskState.RUNNING


def test_should_not_go_on_with_work_nobody_committed_under_exactly_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting(), EXACTLY_ONCE).start()
    one.write(IN, "a")
    one.run()
    one.task.suspend()
    with pytest.raises(TaskCorrupted):
        one.task.resume()


@both_guarantees
def test_should_close_clean_with_a_checkpoint_and_unlocked(tmp_path: Path, configs: Configs) -> None:
    one = RunningTask(tmp_path, counting(), configs).start()
    one.write(IN, "a", "b", "c")
    one.run()
    one.stop()
    assert state(one) is TaskState.CLOSED
    assert one.checkpoint == {COUNTS: 2}
    assert one.directory.lock_owner(TASK) is None
    assert one.task.stores == {}
    one.task.close_clean()
    again = RunningTask(tmp_path, counting(), configs, after=one)
    again.task.initialize_if_needed()
    assert again.task.changelog_offsets() == {COUNTS: 3}


def test_should_refuse_to_close_clean_what_is_not_committed(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a")
    one.run()
    one.task.suspend()
    with pytest.raises(TaskMigrated, match="not committed"):
        one.task.close_clean()
    with pytest.raises(TaskMigrated, match="not committed"):
        one.task.recycle_state()
    one.task.close_dirty()
    assert state(one) is TaskState.CLOSED


@pytest.mark.parametrize("is_transactional", [True, False])
def test_should_keep_what_is_committed_when_closed_dirty_under_exactly_once(
    tmp_path: Path, is_transactional: bool
) -> None:
    configs = {**EXACTLY_ONCE, "enable.transactional.statestores": is_transactional}
    one = RunningTask(tmp_path, counting(), configs).start()
    one.write(IN, "a")
    one.run()
    one.commit()
    one.write(IN, "a")
    one.run()
    one.task.close_dirty()
    assert state(one) is TaskState.CLOSED
    kept = [TASK] if is_transactional else []
    assert (one.checkpoint, one.directory.non_empty_task_directories()) == (None, kept)
    assert one.directory.stored_offsets(TASK) == ({COUNTS: 0} if is_transactional else {})
    assert not one.producer.transaction_in_flight
    assert one.directory.lock_owner(TASK) is None
    again = RunningTask(tmp_path, counting(), configs, after=one).start()
    again.run()
    again.stop()
    assert again.output() == ["1", "2"]


def test_should_leave_the_last_checkpoint_when_closed_dirty_at_least_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting()).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit(enforce_checkpoint=True)
    one.write(IN, "c")
    one.run()
    one.task.close_dirty()
    assert one.checkpoint == {COUNTS: 1}


@pytest.mark.parametrize("until", list(TaskState))
def test_should_close_dirty_from_every_state_without_an_error(tmp_path: Path, until: TaskState) -> None:
    one = RunningTask(tmp_path, Topology().add_source("source", "in").add_processor("faulty", FailsToClose, "source"))
    steps: dict[TaskState, Callable[[], object]] = {
        TaskState.CREATED: lambda: None,
        TaskState.RESTORING: one.task.initialize_if_needed,
        TaskState.RUNNING: one.start,
        TaskState.SUSPENDED: one.task.suspend,
        TaskState.CLOSED: one.task.close_dirty,
    }
    steps[until]()
    assert state(one) is until
    one.task.close_dirty()
    assert state(one) is TaskState.CLOSED


CALLS: list[tuple[bool, str, Callable[[StreamTask], object]]] = [
    (False, "complete its restoration", StreamTask.complete_restoration),
    (False, "be closed", StreamTask.close_clean),
    (False, "be recycled", StreamTask.recycle_state),
    (False, "be revived", StreamTask.revive),
    (False, "have a claim", lambda task: task.claim),
    (True, "be suspended", StreamTask.suspend),
    (True, "be resumed", StreamTask.resume),
    (True, "prepare a commit", StreamTask.prepare_commit),
    (True, "be committed", lambda task: task.post_commit(enforce_checkpoint=True)),
]


@pytest.mark.parametrize(("closed", "what", "call"), CALLS)
def test_should_tell_its_history_when_asked_for_what_cannot_be_yet_or_any_more(
    tmp_path: Path, closed: bool, what: str, call: Callable[[StreamTask], object]
) -> None:
    one = RunningTask(tmp_path)
    if closed:
        one.start().stop()
    history = "created -> restoring -> running -> suspended -> closed" if closed else "created"
    with pytest.raises(StreamsRuntimeError, match=rf"\[0_0\] \(active\) is .* cannot {what}.*states were {history}"):
        call(one.task)


def test_should_claim_its_input_before_it_reads_any_offset(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting(), EXACTLY_ONCE)
    one.task.initialize_if_needed()
    assert one.log.calls == ["producer", "claim"]
    assert one.task.claim.epochs.keys() == {IN}
    one.consumer.assign([IN])
    one.task.complete_restoration()
    assert one.log.calls[:3] == ["producer", "claim", "committed_offsets"]


def test_should_open_stores_when_initialised_and_processors_when_restored(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    assert one.task.stores == {}
    one.task.initialize_if_needed()
    one.task.initialize_if_needed()
    assert state(one) is TaskState.RESTORING
    assert {name: store.is_open for name, store in one.task.stores.items()} == {"counts": True}
    one.consumer.assign([IN])
    one.task.complete_restoration()
    one.task.complete_restoration()
    assert state(one) is TaskState.RUNNING
    one.write(IN, "a")
    assert one.run() == 1


def test_should_try_again_when_another_thread_has_the_directory(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    with ThreadPoolExecutor(1) as other:
        assert other.submit(one.directory.lock, TASK).result()
        with pytest.raises(LockError):
            one.task.initialize_if_needed()
        assert (one.task.state, one.log.calls) == (TaskState.CREATED, [])
        other.submit(one.directory.unlock, TASK).result()
    one.start()
    assert state(one) is TaskState.RUNNING


def test_should_report_the_end_of_changelogs_only_while_it_runs(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    assert one.task.changelog_offsets() == {COUNTS: 0}
    one.start()
    assert one.task.changelog_offsets() == {COUNTS: LATEST_OFFSET}
    one.write(IN, "a", "b")
    one.run()
    one.commit()
    one.task.suspend()
    assert one.task.changelog_offsets() == {COUNTS: 2}


def test_should_read_on_from_the_committed_offset_with_its_partition_time(tmp_path: Path) -> None:
    first = RunningTask(tmp_path).start()
    first.write(IN, "a", "b", first_ms=70)
    first.run()
    first.stop()
    first.write(IN, "c", first_ms=5)
    second = RunningTask(tmp_path, after=first).start()
    assert second.task.runtime.stream_time_ms == 71
    assert second.run() == 1
    assert second.task.runtime.stream_time_ms == 71
    assert second.output() == ["A", "B", "C"]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", ["A", "B", "C"]), ("latest", ["C"])])
def test_should_begin_by_auto_offset_reset_without_a_commit(tmp_path: Path, reset: str, expected: list[str]) -> None:
    one = RunningTask(tmp_path, configs={"auto.offset.reset": reset})
    one.write(IN, "a", "b")
    one.start()
    one.write(IN, "c")
    one.run()
    assert one.output() == expected


def test_should_prefer_the_sources_own_offset_reset(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in", auto_offset_reset="latest").add_sink("sink", "out", "source")
    one = RunningTask(tmp_path, topology)
    one.write(IN, "a")
    one.start()
    assert one.run() == 0


def test_should_refuse_to_start_when_nothing_is_committed_and_auto_offset_reset_is_none(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs={"auto.offset.reset": "none"})
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] in-0 has no committed offset, and auto.offset.reset"):
        one.start()


def test_should_go_on_by_auto_offset_reset_when_its_position_is_gone(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c")
    one.log.delete_records({IN: 2})
    one.task.reset_offsets({IN: 0, OTHER: 0})
    one.run()
    assert one.output() == ["C"]
    assert one.commit() == {IN: 3}


def test_should_initialise_processors_again_when_the_log_was_away_in_init(tmp_path: Path) -> None:
    tries: list[int] = []

    class Asking(Processor[Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, tries.append)
            tries.append(one.log.partitions_of("out"))

        def process(self, record: object) -> None:
            raise AssertionError

    one = RunningTask(tmp_path, Topology().add_source("source", "in").add_processor("asking", Asking, "source"))
    one.log.fail["partitions_of"] = LogTimeout("away")
    with pytest.raises(LogTimeout):
        one.start()
    assert (state(one), tries) == (TaskState.RESTORING, [])
    del one.log.fail["partitions_of"]
    one.task.complete_restoration()
    one.clock.advance(10)
    one.task.maybe_punctuate_system_time(one.clock.now_ms())
    assert (state(one), tries) == (TaskState.RUNNING, [1, one.clock.now_ms()])


def test_should_have_a_source_for_every_input(tmp_path: Path) -> None:
    one = RunningTask(tmp_path)
    with pytest.raises(StreamsRuntimeError, match=r"task \[0_0\] has no source for topic other"):
        one.task.update_input_partitions(frozenset({IN, OTHER}))


def test_should_not_keep_changes_of_an_init_that_failed_and_never_was_committed(tmp_path: Path) -> None:
    class Putting(Count):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            self.store.put("init", 1)
            one.log.partitions_of("out")

    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG))
    one = RunningTask(tmp_path, topology.add_processor("count", Putting, "source", stores=["counts"]))
    one.log.fail["partitions_of"] = LogTimeout("away")
    with pytest.raises(LogTimeout):
        one.start()
    with pytest.raises(LogTimeout):
        one.task.complete_restoration()
    store: Any = read_only(one.state.stores["counts"], IsolationLevel.READ_COMMITTED)
    assert list(store.all()) == []
    one.task.close_dirty()


def test_should_read_other_partitions_when_they_change_and_claim_them(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, uppercase(["in", "other"]))
    one.task.update_input_partitions(frozenset({IN}))
    one.inputs = frozenset({IN})
    one.start()
    with pytest.raises(StreamsRuntimeError, match="is running and cannot get other input partitions"):
        one.task.update_input_partitions(frozenset({IN, OTHER}))
    one.task.update_input_partitions(frozenset({IN}))
    one.task.suspend()
    one.task.update_input_partitions(frozenset({IN, OTHER}))
    one.task.resume()
    one.consumer.assign([IN, OTHER])
    one.task.complete_restoration()
    one.write(OTHER, "a")
    one.run()
    assert one.commit() == {IN: 0, OTHER: 1}
    assert one.task.input_partitions == one.task.claim.epochs.keys() == {IN, OTHER}


class Seen(PassOn):
    """Notes down what the context says about each record."""

    def __init__(self, notes: list[tuple[object, ...]]) -> None:
        self.notes = notes

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.notes.append(("init", context.record_metadata, context.headers, context.current_stream_time_ms))

    def process(self, record: Record[Any, Any]) -> None:
        context = self.context
        times = (context.current_stream_time_ms, context.current_system_time_ms)
        self.notes.append((record.value, context.record_metadata, context.headers, *times))


def seeing(*topics: str) -> tuple[Topology, list[tuple[object, ...]]]:
    notes: list[tuple[object, ...]] = []
    return Topology().add_source("source", topics).add_processor("seen", lambda: Seen(notes), "source"), notes


def test_should_process_no_more_than_it_is_asked_to(tmp_path: Path) -> None:
    one = RunningTask(tmp_path).start()
    one.write(IN, "a", "b", "c", "d")
    one.poll()
    assert one.task.is_process_ready(START_MS)
    assert [one.process(3), one.process(3), one.process(3)] == [3, 1, 0]
    assert not one.task.is_process_ready(START_MS)
    assert one.output() == ["A", "B", "C", "D"]


def test_should_process_nothing_before_it_runs_or_after(tmp_path: Path) -> None:
    one = RunningTask(tmp_path)
    assert (one.task.is_process_ready(0), one.process()) == (False, 0)
    one.start()
    one.write(IN, "a")
    one.poll()
    one.task.suspend()
    one.write(IN, "b")
    one.poll()
    assert (one.task.is_process_ready(0), one.process(), one.task.buffered_records) == (False, 0, 0)


def test_should_tell_processors_where_a_record_is_from_and_what_time_it_is(tmp_path: Path) -> None:
    topology, notes = seeing("in")
    one = RunningTask(tmp_path, topology).start()
    one.log.write(IN, (b"k", b"a", 50), headers=(("h", b"1"),))
    one.log.write(IN, (b"k", b"b", 40))
    one.clock.advance(5)
    one.run()
    assert notes == [
        ("init", None, (), -1),
        (b"a", RecordMetadata("in", 0, 0), (("h", b"1"),), 50, START_MS + 5),
        (b"b", RecordMetadata("in", 0, 1), (), 50, START_MS + 5),
    ]
    assert (one.task.runtime.record_metadata, one.task.runtime.headers, one.task.runtime.stream_time_ms) == (
        None,
        (),
        50,
    )


def test_should_not_stay_paused_when_suspended_and_resumed(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs={"buffered.records.per.partition": 1}).start()
    one.write(IN, "a", "b", "c")
    one.poll()
    assert one.consumer.paused() == {IN}
    one.task.suspend()
    one.task.resume()
    one.task.complete_restoration()
    assert one.consumer.paused() == frozenset()


def test_should_resume_a_partition_of_which_all_that_was_buffered_is_dropped(tmp_path: Path) -> None:
    one = RunningTask(
        tmp_path,
        uppercase(["in", "other"]),
        {"max.task.idle.ms": -1, "buffered.records.per.partition": 1},
        deserialization_handler=log_and_continue,
    ).start()
    one.log.write(IN, *[(b"k", b"\xff", 5)] * 3)
    one.poll()
    assert one.consumer.paused() == {IN}
    assert not one.task.is_process_ready(START_MS)
    assert one.consumer.paused() == frozenset()


def test_should_stamp_changes_with_the_records_time_and_those_of_init_with_the_clocks(tmp_path: Path) -> None:
    class Starts(Processor[str, str]):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.state_store("counts")
            self.store.put("init", 0)

        def process(self, record: Record[str, str]) -> None:
            self.store.put(record.key, 1)

    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_state_store(key_value_store("counts", STRING, LONG))
    one = RunningTask(tmp_path, topology.add_processor("starts", Starts, "source", stores=["counts"])).start()
    one.write(IN, "a", first_ms=77)
    one.run()
    one.commit()
    changelog = TopicPartition("app-counts-changelog", 0)
    assert [(key, time_ms) for key, _, time_ms in one.log.read(changelog)] == [(b"init", START_MS), (b"k", 77)]
    assert one.task.runtime.record_timestamp_ms == -1
