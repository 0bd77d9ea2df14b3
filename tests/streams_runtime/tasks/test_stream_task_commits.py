"""What a task commits and when: offsets, partition time, checkpoints, under both guarantees."""

from pathlib import Path

import pytest

from assignor import TopicPartition
from streams_runtime import (
    LONG,
    STRING,
    EmitStrategy,
    Materialized,
    NewTopic,
    ProcessorContext,
    StreamsBuilder,
    TimeWindows,
    Topology,
    key_value_store,
)
from streams_runtime.common.errors import TaskMigrated
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.tasks.checkpoint_file import OFFSET_UNKNOWN
from streams_runtime.tasks.input_offsets import decode_processor_metadata, encode_partition_time
from tests.streams_runtime.tasks.running_task import (
    APPLICATION,
    COUNTS,
    EXACTLY_ONCE,
    IN,
    OTHER,
    OUT,
    Configs,
    Count,
    RunningTask,
    both_guarantees,
    counting,
    uppercase,
)


@both_guarantees
def test_should_commit_only_when_needed(tmp_path: Path, configs: Configs) -> None:
    one = RunningTask(tmp_path, configs=configs).start()
    assert one.commit() == {IN: 0}  # where it begins
    assert not one.task.commit_needed()
    assert one.task.prepare_commit() == {}
    one.write(IN, "a")
    one.poll()
    assert not one.task.commit_needed()  # read, not processed
    one.process()
    assert one.task.commit_needed()
    one.commit()
    assert not one.task.commit_needed()
    assert one.task.prepare_commit() == {}
    assert one.task.offsets_to_commit() == {}


@both_guarantees
def test_should_commit_where_it_has_only_begun_to_read(tmp_path: Path, configs: Configs) -> None:
    """Once: what the group knows already is not committed again."""
    one = RunningTask(tmp_path, uppercase(["in", "other"]), {"max.task.idle.ms": -1, **configs})
    one.write(OTHER, "x")
    one.start()
    one.write(IN, "a")
    one.consumer.pause([OTHER])
    one.run()
    assert one.commit() == {IN: 1, OTHER: 0}
    assert not one.task.commit_needed()
    one.write(IN, "b")
    one.run()
    assert one.commit() == {IN: 2}
    one.stop()
    two = RunningTask(tmp_path, one.topology, {"max.task.idle.ms": -1, **configs}, after=one).start()
    assert not two.task.commit_needed()


@both_guarantees
def test_should_commit_at_once_where_it_skips_to(tmp_path: Path, configs: Configs) -> None:
    """Else records that come before the first commit are passed over when another owner begins at a later end."""
    latest = {"auto.offset.reset": "latest", **configs}
    one = RunningTask(tmp_path, configs=latest)
    one.write(IN, "old")
    one.start()
    assert one.task.commit_requested()
    assert one.commit() == {IN: 1}
    assert not one.task.commit_requested()
    one.write(IN, "new")
    one.task.close_dirty()
    two = RunningTask(tmp_path, configs=latest, after=one).start()
    two.run()
    two.commit()
    assert two.output() == ["NEW"]


def test_should_commit_at_once_where_it_skips_to_when_its_position_is_gone(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs={"auto.offset.reset": "latest"}).start()
    one.commit()
    one.write(IN, "a", "b", "c")
    one.log.delete_records({IN: 2})
    one.task.reset_offsets({IN: 0})
    assert one.task.commit_requested()
    assert one.commit() == {IN: 3}


@pytest.mark.parametrize("reset", ["latest", "none", "earliest"])
def test_should_begin_repartition_topics_at_the_earliest_record(tmp_path: Path, reset: str) -> None:
    """The group's commit of the input says that these records are in the topic: nobody would write them again."""
    topology = Topology().add_source("in", "in", auto_offset_reset="earliest").add_repartition_topic("words")
    topology.add_sink("to-words", "words", "in").add_source("words", "words", key_serde=STRING, value_serde=STRING)
    topology.add_sink("out", "out", "words", key_serde=STRING, value_serde=STRING)
    one = RunningTask(tmp_path, topology, {"auto.offset.reset": reset}, subtopology=1)
    words = TopicPartition("app-words", 0)
    one.log.create_topics([NewTopic(words.topic, 1)])
    one.write(words, "a", "b")
    one.start()
    assert not one.task.commit_requested()
    one.run()
    assert one.output() == ["a", "b"]
    one.task.reset_offsets({words: 9})
    one.run()
    assert one.output() == ["a", "b", "a", "b"]


@both_guarantees
def test_should_write_nothing_when_another_owner_has_its_input(tmp_path: Path, configs: dict[str, object]) -> None:
    zombie = RunningTask(tmp_path, counting(), configs=configs).start()
    zombie.write(IN, "a")
    zombie.run()
    zombie.log.claim(APPLICATION, [IN])  # the owner after it
    with pytest.raises(TaskMigrated):
        zombie.commit()
    zombie.task.close_dirty()
    zombie.producer.reset()
    assert (zombie.log.read(COUNTS), zombie.log.read(OUT), zombie.committed()) == ([], [], None)


@pytest.mark.parametrize("first", [IN, OTHER])
def test_should_need_a_changelog_from_the_last_offset_that_any_input_names(
    tmp_path: Path, first: TopicPartition
) -> None:
    one = RunningTask(tmp_path, uppercase(["in", "other"])).start()
    found = {
        each: OffsetAndMetadata(0, encode_partition_time(5, {"n": 300 if each == first else 200}))
        for each in (IN, OTHER)
    }
    one.task._offsets.begin([IN, OTHER], found)
    assert one.task._offsets.changelogs_needed_from == {"n": 300}


class CountAtStart(Count):
    """Has written before the first record comes."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store.put("started", 1)


@both_guarantees
def test_should_have_to_commit_what_a_processor_wrote_in_init(tmp_path: Path, configs: Configs) -> None:
    topology = Topology().add_source("source", "in", key_serde=STRING, value_serde=STRING)
    topology.add_processor("count", CountAtStart, "source")
    topology.add_state_store(key_value_store("counts", STRING, LONG), "count")
    first = RunningTask(tmp_path, topology, configs).start()
    first.commit()
    first.stop()
    one = RunningTask(tmp_path, topology, configs, after=first).start()
    assert one.task.commit_needed(), "it has committed its input before"
    one.commit()
    assert [key for key, _, _ in one.log.read(COUNTS)] == [b"started", b"started"]
    assert not one.task.commit_needed()


def test_should_process_nothing_while_a_transaction_is_about_to_end(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs=EXACTLY_ONCE).start()
    one.write(IN, "a", "b")
    one.poll()
    one.process(1)
    one.task.prepare_commit()
    assert (one.task.is_process_ready(0), one.process()) == (False, 0)
    one.commit()  # the second try of one that timed out
    assert one.process() == 1


def test_should_commit_work_of_the_transaction_after_an_aborted_one(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, configs=EXACTLY_ONCE).start()
    one.producer.send(OUT, b"k", b"from another task", 1)
    one.producer.abort()
    one.write(IN, "a")
    one.run()
    assert (one.commit(), one.output()) == ({IN: 1}, ["A"])


def test_should_count_from_the_last_checkpoint_while_it_runs_at_least_once(tmp_path: Path) -> None:
    """Each checkpoint has the thread wait until the stores are on disk."""
    one = RunningTask(tmp_path, counting())
    one.state.checkpoint.delta = 3
    one.start()
    checkpoints = []
    for _ in range(10):
        one.write(IN, "x")
        one.run()
        one.commit()
        checkpoints.append(one.checkpoint)
    assert checkpoints == [{COUNTS: last} for last in (OFFSET_UNKNOWN,) * 3 + (3,) * 4 + (7,) * 3]


def test_should_checkpoint_at_least_once_when_restored(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting())
    one.log.write(COUNTS, (b"k", (5).to_bytes(8, "big"), 1))
    one.start()
    assert one.checkpoint == {COUNTS: 0}
    one.write(IN, "a")
    one.run()
    assert one.output() == ["6"]


def test_should_have_no_checkpoint_while_it_runs_under_exactly_once(tmp_path: Path) -> None:
    one = RunningTask(tmp_path, counting(), EXACTLY_ONCE).start()
    one.write(IN, "a", "b")
    one.run()
    one.commit(enforce_checkpoint=True)
    assert one.checkpoint is None
    one.task.suspend()
    one.task.post_commit(enforce_checkpoint=True)
    assert one.checkpoint == {COUNTS: 1}
    one.task.resume()
    one.task.complete_restoration()
    assert one.checkpoint is None
    one.stop()
    assert one.checkpoint == {COUNTS: 1}


@both_guarantees
def test_should_forward_no_closed_window_again_after_a_restart(tmp_path: Path, configs: Configs) -> None:
    builder = StreamsBuilder()
    windowed = builder.stream("in", STRING, STRING).group_by_key().windowed_by(TimeWindows(10, grace_ms=100))
    closed = windowed.emit_strategy(EmitStrategy.ON_WINDOW_CLOSE).reduce(
        str.__add__, store=Materialized("s", changelog=None)
    )
    closed.to_stream().to("out")
    one = RunningTask(tmp_path, builder.build(), configs).start()
    one.write(IN, "a", first_ms=1)
    one.write(IN, "b", first_ms=111)
    one.run()
    one.stop()
    committed = one.committed()
    assert committed is not None
    assert decode_processor_metadata(committed.metadata) == {"s": 11}
    two = RunningTask(tmp_path, one.topology, configs, after=one).start()
    two.write(IN, "c", first_ms=112)
    two.run()
    two.write(IN, "d", first_ms=225)
    two.run()
    two.stop()
    assert two.output() == ["a", "bc"]
