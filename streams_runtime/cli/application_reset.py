"""Resets an application to the state before its first run. `plan_reset` lists the changes, `carry_out` makes them.

Rules: a reset moves the committed offsets of the input topics, and deletes the internal topics with their committed
offsets and the application's state directories on this machine. The partitions of the offsets are claimed first, so an
instance that still runs somewhere is fenced and cannot commit afterwards. Every step can be repeated, so an interrupted
reset can be run again.

The name of an internal topic begins with the application id and has a suffix of Kafka Streams' internal topics. The
internal topics of an application with a longer id ("words-2" beside "words") match as well, so `others` has the ids of
the other applications. Source: `StreamsResetter`. Differs from Kafka: if no input topics are given, they are the topics
of which the group has committed offsets.
"""

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from assignor.errors import InputError
from assignor.types import TopicPartition
from streams_runtime.logs.base import Log, OffsetAndMetadata, claims_topic
from streams_runtime.tasks.file_system import LOCK_FILE_NAME, DirectoryLock

_INTERNAL = re.compile(
    r".*-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)\Z",
    re.DOTALL,
)


class MovedOffset(NamedTuple):
    """A change of a committed offset. `before`: None if there is no committed offset."""

    before: int | None
    after: int


class Partitions(NamedTuple):
    """The committed offsets of partitions, as far as they exist, and the begin and end offsets of the partitions."""

    committed: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


NewOffsets = Callable[[Log, Partitions], Mapping[TopicPartition, int]]
"""Returns the new offset of each partition. An offset outside of the partition is set to its begin or end."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The changes of a reset.

    `offsets`: the offsets to move. `topics`: the topics to delete, with their numbers of partitions. `state`: the
    directories to delete.
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
    """Returns the changes of a reset. Changes nothing.

    `input_topics`: empty for all topics with a committed offset. `internal_topics`: empty for all internal topics.
    `others`: ids of other applications. Raises InputError for a topic that does not exist or is not internal, LogError.
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
    """Returns the state directories of the application: of one instance in `state_dir`, or of several instances, which
    have one directory each below `state_dir`.
    """
    found = [state_dir / application_id, *sorted(state_dir.glob(f"*/{glob.escape(application_id)}"))]
    return [directory for directory in found if (directory / LOCK_FILE_NAME).exists()]


def carry_out(log: Log, plan: ResetPlan) -> None:
    """Make the changes of the plan.

    Raises LockError, before any change, if an instance uses one of the state directories; LogError.
    """
    with ExitStack() as locks:
        for directory in plan.state:
            locks.callback(DirectoryLock.acquire(directory, "the application's state directory").release)
        if plan.offsets:
            claim = log.claim(plan.application_id, plan.offsets)
            moved = {partition: OffsetAndMetadata(offset.after) for partition, offset in plan.offsets.items()}
            with closing(log.producer()) as producer:
                producer.commit_offsets([(claim, moved)])
        # the topics are looked up after the claim, which creates the claims topic in logs that have claims topics
        going = {*plan.topics, claims_topic(plan.application_id)}
        log.delete_topics(sorted(going & log.topics().keys()))
        for directory in plan.state:
            _delete(directory)


def is_internal_topic(application_id: str, topic: str, others: Iterable[str] = ()) -> bool:
    """True for an internal topic of the application.

    `others`: ids of other applications. A topic belongs to the application with the longest matching id.
    """
    if topic == claims_topic(application_id):
        return True
    if not topic.startswith(f"{application_id}-") or _INTERNAL.match(topic) is None:
        return False
    return not any(other.startswith(f"{application_id}-") and topic.startswith(f"{other}-") for other in others)


def to_earliest(_log: Log, partitions: Partitions) -> Mapping[TopicPartition, int]:
    return partitions.begins


def to_latest(_log: Log, partitions: Partitions) -> Mapping[TopicPartition, int]:
    return partitions.ends


def to_offset(offset: int) -> NewOffsets:
    return lambda _log, partitions: dict.fromkeys(partitions.begins, offset)


def shift_by(records: int) -> NewOffsets:
    """Move offsets by a number of records, from the committed offset or, if there is none, from the begin."""
    return lambda _log, partitions: {
        each: partitions.committed.get(each, begin) + records for each, begin in partitions.begins.items()
    }


def to_time(timestamp_ms: int) -> NewOffsets:
    """Move offsets to the first record of this time or later, or to the end if there is no such record."""
    return lambda log, partitions: {
        **partitions.ends,
        **log.offsets_for_time(partitions.begins, timestamp_ms),
    }


def _delete(directory: Path) -> None:
    """Rename the directory, then delete it. A rename is atomic, so a half-deleted store is never opened as a store."""
    deleted = directory.with_name(f".{directory.name}.deleted")
    shutil.rmtree(deleted, ignore_errors=True)
    os.rename(directory, deleted)
    shutil.rmtree(deleted)
