"""Bugs of the stream thread: claims, commits, checkpoints and the state of tasks."""

from typing import Any

from assignor.types import TopicPartition
from streams_runtime.instance.task_manager import TaskManager
from streams_runtime.logs import in_memory
from streams_runtime.logs.base import RecordBatch
from streams_runtime.tasks.partition_group import InputPosition, PartitionGroup
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.state_manager import StateManager
from tests.simulation.bug import Bug, always, bug

# --- offsets that are looked up before the claim


# --- commits and checkpoints


def stands_where_it_has_polled(original: Any) -> Any:
    def positions(self: PartitionGroup) -> list[InputPosition]:
        return [one._replace(next_offset=None) for one in original(self)]

    return positions


def one_record_ahead(original: Any) -> Any:
    def restore(self: StateManager, partition: TopicPartition, batch: RecordBatch) -> None:
        original(self, partition, batch)
        one = self.metadata(partition)
        assert one.offset is not None
        one.offset += 1

    return restore


def commits_offsets_alone(original: Any) -> Any:
    def commit(self: StreamsProducer, offsets: Any = ()) -> None:
        if not self.exactly_once:
            original(self, offsets)
        elif offsets:  # the offsets are committed now, the records with the next commit
            self.log.producer(None).commit_offsets(offsets)

    return commit


BUGS_OF_TASKS: tuple[Bug, ...] = (
    # The log takes the commit of a thread that is no longer the owner.
    bug("offset committed by a fenced task", (in_memory, "check_claim", always(None))),
    # The checkpoint names records that the disk may not have.
    bug("checkpoint ahead of the flush", (StateManager, "flush", always(None))),
    # A task that is given up is closed as if it had been committed.
    bug("commit skipped at a revocation", (TaskManager, "_commit_or_drop", lambda _: lambda self, tasks, errors: [])),
    # A store counts a record that it has not applied.
    bug("restored by one too many", (StateManager, "restore", one_record_ahead)),
    # Offsets are committed of records that still wait in the task.
    bug("polled counts as processed", (PartitionGroup, "positions", stands_where_it_has_polled)),
    # Offsets are committed before what was written for them.
    bug("offsets outside of the transaction", (StreamsProducer, "commit", commits_offsets_alone)),
)
