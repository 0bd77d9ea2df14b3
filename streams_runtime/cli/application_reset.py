"""An application as if it had never run: what that would change, and the change itself.

Rules: the offsets of its input topics move, its internal topics go (with the offsets that it has of them), and so does
its state on this machine. Offsets move under a claim of their partitions, so an instance that still runs somewhere is
fenced and commits no offset after that. Every step may be repeated: a reset that was cut off is simply run again.

An internal topic begins with the application's id and ends as Kafka Streams' own do. One of an application with a
longer id ("words-2" beside "words") looks like that, too: `others` says which applications there are. Source:
`StreamsResetter`. Differs from Kafka: without a choice, the input topics are those of which the group has offsets.
"""

from __future__ import annotations

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
    """`before`: None without a committed offset."""

    before: int | None
    after: int


class Partitions(NamedTuple):
    """The basis for a new offset: the committed offset where there is one, and the bounds."""

    committed: Mapping[TopicPartition, int]
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


NewOffsets = Callable[[Log, Partitions], Mapping[TopicPartition, int]]
"""Chooses the offset of each partition; one outside of the bounds becomes the nearest inside."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """`topics`: to delete, with their partitions. `state`: directories to delete."""

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
    """Changes nothing. `input_topics`: empty for those with a committed offset; `internal_topics`: empty for all.

    `others`: ids of other applications. Raises InputError for a topic that is not there or is not internal, LogError.
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
    """Where instances keep the application's state: in `state_dir`, or one directory below it for each of several."""
    found = [state_dir / application_id, *sorted(state_dir.glob(f"*/{glob.escape(application_id)}"))]
    return [directory for directory in found if (directory / LOCK_FILE_NAME).exists()]


def carry_out(log: Log, plan: ResetPlan) -> None:
    """Raises LogError, and LockError when an instance on this machine uses its state; then nothing has changed."""
    with ExitStack() as locks:
        for directory in plan.state:
            locks.callback(DirectoryLock.acquire(directory, "the application's state directory").release)
        if plan.offsets:
            claim = log.claim(plan.application_id, plan.offsets)
            moved = {partition: OffsetAndMetadata(offset.after) for partition, offset in plan.offsets.items()}
            with closing(log.producer()) as producer:
                producer.commit_offsets([(claim, moved)])
        # a log with claims topics has one now at the latest: the claim above has made it
        going = {*plan.topics, claims_topic(plan.application_id)}
        log.delete_topics(sorted(going & log.topics().keys()))
        for directory in plan.state:
            _delete(directory)


def is_internal_topic(application_id: str, topic: str, others: Iterable[str] = ()) -> bool:
    """`others`: ids of other applications, whose topics are theirs when their id is longer."""
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
    """From the committed offset, or from the begin where there is none."""
    return lambda _log, partitions: {
        each: partitions.committed.get(each, begin) + records for each, begin in partitions.begins.items()
    }


def to_time(timestamp_ms: int) -> NewOffsets:
    """To the first record of that time or later, or to the end where there is none."""
    return lambda log, partitions: {
        **partitions.ends,
        **log.offsets_for_time(partitions.begins, timestamp_ms),
    }


def _delete(directory: Path) -> None:
    """Rename, then delete: a rename is all or nothing, so that no half of a store is taken for a store."""
    deleted = directory.with_name(f".{directory.name}.deleted")
    shutil.rmtree(deleted, ignore_errors=True)
    os.rename(directory, deleted)
    shutil.rmtree(deleted)
