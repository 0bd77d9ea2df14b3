"""Bugs of the stream thread: claims, commits, checkpoints and the state of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assignor.types import TopicPartition
from streams_runtime.common.states import TaskState
from streams_runtime.logs import in_memory
from streams_runtime.logs.base import OffsetAndMetadata, RecordBatch
from streams_runtime.restore.changelog_reader import ChangelogReader
from streams_runtime.task_manager.restoration import TaskInputs
from streams_runtime.task_manager.task_manager import TaskManager
from streams_runtime.tasks.input_offsets import InputOffsets
from streams_runtime.tasks.partition_group import InputPosition, PartitionGroup
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.stream_task import StreamTask
from tests.simulation.bug import EXACT_COUNTS, Bug, always, bug

# --- offsets that are looked up before the claim


def looks_up_and_claims_nothing(_: Any) -> Any:
    def claim(self: TaskInputs, tasks: Iterable[StreamTask]) -> None:
        fresh = [p for task in tasks if task.state is TaskState.CREATED for p in task.input_partitions]
        seen = self._log.committed_offsets(self._group_id, fresh) if fresh else {}
        known: dict[TopicPartition, OffsetAndMetadata] = self.__dict__.setdefault("seen", {})
        for partition in fresh:
            known.pop(partition, None)
        known.update(seen)

    return claim


def claims_and_answers_with_what_it_saw(_: Any) -> Any:
    def committed(self: TaskInputs, tasks: Iterable[StreamTask]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        needing = [task for task in tasks if task.needs_claim]
        if needing:
            self._producer.initialize()
            partitions = frozenset[TopicPartition]().union(*(task.input_partitions for task in needing))
            claim = self._log.claim(self._group_id, partitions, self._producer.transactional_id)
            for task in needing:
                task.take_claim(claim.part(task.input_partitions))
        return dict(self.__dict__.get("seen", {}))

    return committed


def opens_without_a_claim(_: Any) -> Any:
    def initialize_if_needed(self: StreamTask) -> None:
        if self.state is TaskState.CREATED:
            self.lock()
            runtime = self.runtime
            self._open_state(runtime.collector, runtime, runtime.losses.expired)
            runtime.stores = dict(self.state_manager.stores)
            self._become(TaskState.RESTORING)

    return initialize_if_needed


# --- commits and checkpoints


def stands_where_it_has_polled(original: Any) -> Any:
    def positions(self: PartitionGroup) -> list[InputPosition]:
        return [one._replace(next_offset=None) for one in original(self)]

    return positions


def checkpoints_while_it_runs(original: Any) -> Any:
    def post_commit(self: StreamTask, *, enforce_checkpoint: bool) -> None:
        original(self, enforce_checkpoint=enforce_checkpoint)
        if self._is_open:
            self.state_manager.update_changelog_offsets(self._changelog_offsets)
            self.state_manager.maybe_checkpoint(enforce=True)

    return post_commit


def one_record_ahead(original: Any) -> Any:
    def restore(self: StateManager, partition: TopicPartition, batch: RecordBatch) -> None:
        original(self, partition, batch)
        one = self.metadata(partition)
        assert one.offset is not None
        one.offset += 1

    return restore


def everything_is_restored(_: Any) -> Any:
    return lambda self: set(self._changelogs)


def commits_offsets_alone(original: Any) -> Any:
    def commit(self: StreamsProducer, offsets: Any = ()) -> None:
        if not self.exactly_once:
            original(self, offsets)
        elif offsets:  # the offsets are committed now, the records with the next commit
            self.log.producer(None).commit_offsets(offsets)

    return commit


BUGS_OF_TASKS: tuple[Bug, ...] = (
    bug(
        "offset committed by a fenced task",
        "The log takes the commit of a thread that is no longer the owner.",
        EXACT_COUNTS,
        (in_memory, "check_claim", always(None)),
    ),
    bug(
        "checkpoint ahead of the flush",
        "The checkpoint names records that the disk may not have.",
        EXACT_COUNTS,
        (StateManager, "flush", always(None)),
    ),
    bug(
        "offsets read before the claim",
        "A task goes on at offsets that its old owner could still move.",
        EXACT_COUNTS,
        (TaskInputs, "claim", looks_up_and_claims_nothing),
        (TaskInputs, "committed", claims_and_answers_with_what_it_saw),
        (StreamTask, "initialize_if_needed", opens_without_a_claim),
    ),
    bug(
        "commit skipped at a revocation",
        "A task that is given up is closed as if it had been committed.",
        EXACT_COUNTS,
        (TaskManager, "_commit_or_drop", lambda _: lambda self, tasks, errors: []),
    ),
    bug(
        "aborted work committed",
        "Offsets are committed of records whose outputs were aborted.",
        EXACT_COUNTS,
        (InputOffsets, "expect_transaction", always(None)),
    ),
    bug(
        "checkpoint kept under exactly-once",
        "After a crash, state with uncommitted records is trusted.",
        EXACT_COUNTS,
        (StateManager, "delete_checkpoint", always(None)),
    ),
    bug(
        "checkpoint written while it runs",
        "Under exactly-once, a running task leaves a checkpoint behind.",
        EXACT_COUNTS,
        (StreamTask, "post_commit", checkpoints_while_it_runs),
    ),
    bug(
        "not restored to the end",
        "A task runs before it has read its changelog.",
        EXACT_COUNTS,
        (ChangelogReader, "completed_changelogs", everything_is_restored),
    ),
    bug(
        "restored by one too many",
        "A store counts a record that it has not applied.",
        EXACT_COUNTS,
        (StateManager, "restore", one_record_ahead),
    ),
    bug(
        "polled counts as processed",
        "Offsets are committed of records that still wait in the task.",
        EXACT_COUNTS,
        (PartitionGroup, "positions", stands_where_it_has_polled),
    ),
    bug(
        "offsets outside of the transaction",
        "Offsets are committed before what was written for them.",
        EXACT_COUNTS,
        (StreamsProducer, "commit", commits_offsets_alone),
    ),
)
