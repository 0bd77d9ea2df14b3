"""Resets an application to the state before its first run. `plan_reset` returns the planned changes, and `carry_out`
makes them.

Rules: a reset sets the committed offsets of the input topics to new values. A reset deletes the internal topics with
their committed offsets, and the application's state directories on this machine. Before all other changes, the reset
claims the input partitions: it takes the right to commit their offsets. After the claim, the log refuses the commits of
an instance that still runs on another machine. Every step can be repeated, so an interrupted reset can be run again.

The name of an internal topic begins with the application id and ends with a suffix such as `-changelog`. Names can be
ambiguous: the internal topics of the application "words-2" also begin with "words". If several ids match a topic, the
topic belongs to the application with the longest id. So callers pass the ids of all other applications (`others`).
Source: `StreamsResetter`.
Differs from Kafka: if no input topics are given, the reset uses all topics for which the group has committed offsets.
"""

import glob
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from assignor.errors import InputError
from assignor.names.internal_names import claims_topic, is_internal_topic
from assignor.types import TopicPartition
from streams_runtime.logs.base import Log, OffsetAndMetadata
from streams_runtime.tasks.file_system import LOCK_FILE_NAME, DirectoryLock


class MovedOffset(NamedTuple):
    """A change of a committed offset. `before`: the present committed offset; None if the partition has no committed
    offset.
    """

    before: int | None
    after: int


class Partitions(NamedTuple):
    """The begin, end and committed offsets of the partitions to reset. A partition without a committed offset is
    missing in `committed`.
    """

    committed: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


NewOffsets = Callable[[Log, Partitions], Mapping[TopicPartition, int]]
"""The type of a function that returns the new offset of each partition. If a new offset is outside the partition, the
caller uses the partition's begin or end offset instead.
"""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The changes of a reset.

    `offsets`: the committed offsets to change. `topics`: the topics to delete, with their numbers of partitions.
    `state`: the directories to delete.
    """

    application_id: str
    offsets: Mapping[TopicPartition, MovedOffset]
    topics: Mapping[str, int]
    state: Sequence[Path] = ()

    @property
    def is_empty(self) -> bool:
        return not self.offsets and not self.topics and not self.state


def plan_reset(
    log: Log,
    application_id: str,
    new_offsets: NewOffsets,
    *,
    input_topics: Sequence[str] = (),
    internal_topics: Sequence[str] = (),
    others: Iterable[str] = (),
    state_dirs: Iterable[Path] = (),
) -> ResetPlan:
    """Returns the changes that a reset would make. This function changes nothing.

    `input_topics`: the committed offsets in these topics are changed; empty for all topics with a committed offset.
    `internal_topics`: the topics to delete; empty for all internal topics. `others`: the ids of other applications.
    Raises LogError. Raises InputError if a topic does not exist, or if a topic to delete is not internal.
    """
    known = log.topics()
    internal = {
        name: topic.partitions for name, topic in known.items() if is_internal_topic(application_id, name, others)
    }
    for name in internal_topics:
        if name not in internal:
            raise InputError(f"{name!r} is no internal topic of {application_id} that is there", "--internal-topic")
    for name in input_topics:
        if name not in known:
            raise InputError(f"there is no topic {name}", "--input-topic")
    committed = {partition: at.offset for partition, at in log.committed_offsets(application_id, None).items()}
    inputs = [
        TopicPartition(name, number) for name in dict.fromkeys(input_topics) for number in range(known[name].partitions)
    ] or sorted(each for each in committed if each.topic in known and each.topic not in internal)
    bounds = Partitions(
        {each: committed[each] for each in inputs if each in committed},
        log.begin_offsets(inputs),
        log.end_offsets(inputs),
    )
    chosen = new_offsets(log, bounds)
    offsets = {
        each: MovedOffset(committed.get(each), min(max(chosen[each], bounds.begins[each]), bounds.ends[each]))
        for each in inputs
    }
    return ResetPlan(
        application_id,
        offsets,
        {name: count for name, count in sorted(internal.items()) if not internal_topics or name in internal_topics},
        [found for directory in state_dirs for found in state_directories(directory, application_id)],
    )


def state_directories(state_dir: Path, application_id: str) -> list[Path]:
    """Returns the state directories of the application. If one instance ran on this machine, its directory is directly
    below `state_dir`. If several instances ran on this machine, their directories are one level deeper.
    """
    found = [state_dir / application_id, *sorted(state_dir.glob(f"*/{glob.escape(application_id)}"))]
    return [directory for directory in found if (directory / LOCK_FILE_NAME).exists()]


def carry_out(log: Log, plan: ResetPlan) -> None:
    """Makes the changes of the plan.

    If an instance uses one of the state directories, LockError is raised before any change. Raises LogError.
    """
    with ExitStack() as locks:
        for directory in plan.state:
            locks.callback(DirectoryLock.acquire(directory, "the application's state directory").release)
        if plan.offsets:
            claim = log.claim(plan.application_id, plan.offsets)
            moved = {partition: OffsetAndMetadata(offset.after) for partition, offset in plan.offsets.items()}
            with closing(log.producer()) as producer:
                producer.commit_offsets([(claim, moved)])
        # look up the topics after `log.claim`, because `log.claim` may create the claims topic
        going = {*plan.topics, claims_topic(plan.application_id)}
        log.delete_topics(sorted(going & log.topics().keys()))
        for directory in plan.state:
            _delete(directory)


def to_earliest(_log: Log, partitions: Partitions) -> Mapping[TopicPartition, int]:
    return partitions.begins


def to_latest(_log: Log, partitions: Partitions) -> Mapping[TopicPartition, int]:
    return partitions.ends


def to_offset(offset: int) -> NewOffsets:
    return lambda _log, partitions: dict.fromkeys(partitions.begins, offset)


def shift_by(records: int) -> NewOffsets:
    """Moves each committed offset by this number of records. If a partition has no committed offset, the begin offset
    is moved instead.
    """
    return lambda _log, partitions: {
        each: partitions.committed.get(each, begin) + records for each, begin in partitions.begins.items()
    }


def to_time(timestamp_ms: int) -> NewOffsets:
    """Sets each offset to the first record with this timestamp or a later timestamp. If all records are older, sets the
    offset to the partition's end.
    """
    return lambda log, partitions: {**partitions.ends, **log.offsets_for_time(partitions.begins, timestamp_ms)}


def _delete(directory: Path) -> None:
    """Renames the directory before deleting it. The rename is atomic, so no process can open a half-deleted state
    directory.
    """
    deleted = directory.with_name(f".{directory.name}.deleted")
    shutil.rmtree(deleted, ignore_errors=True)
    os.rename(directory, deleted)
    shutil.rmtree(deleted)
