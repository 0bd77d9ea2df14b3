"""Puts the records of dead letters back. `plan_retry` returns the planned records, and `carry_out` writes them.

Rules: a retry writes the key, the value, the timestamp and the headers of the input record to the partition from which
the application read the record. The error headers are left out. Each written record gets the header
`__streams.retry.of` with the position of its dead letter. If the record fails again, the new dead letter has this
header too. A record that failed in two branches of the topology has two dead letters, and a record that failed again
has a further dead letter. A retry writes each record once, so it leaves out the other dead letters. All records of a
retry are written in one transaction. Nothing is deleted from the dead-letter topic.
Source: none in Kafka.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from assignor.errors import AssignorFault
from assignor.names.internal_names import has_internal_suffix
from assignor.types import TopicPartition
from streams_runtime.common.records import RecordMetadata
from streams_runtime.logs.base import Log, TopicDescription
from streams_runtime.logs.dead_letters import (
    HEADER_RETRY_OF,
    DeadLetter,
    dead_letter_of,
    own_headers,
    position_text,
    read_raw,
)
from streams_runtime.logs.topic_reading import OffsetRanges


class DeadLetterGone(AssignorFault):
    """The log deleted a dead letter between the planning of a retry and the writing of its record."""


class Retry(NamedTuple):
    """A record to put back. `target`: the partition to which the record is written."""

    letter: DeadLetter
    target: TopicPartition


class NotRetried(NamedTuple):
    """A dead letter whose record is not written, and the reason."""

    letter: DeadLetter
    reason: str


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The records that a retry writes.

    `selection`: the offsets that the user chose. `retries`: the records to write. `left_out`: dead letters that another
    dead letter of the selection replaces. `refused`: dead letters whose records cannot be put back.
    """

    topic: str
    selection: Sequence[OffsetRanges]
    retries: Sequence[Retry]
    left_out: Sequence[NotRetried]
    refused: Sequence[NotRetried]

    @property
    def positions(self) -> set[tuple[int, int]]:
        """The partition and the offset of each record that was found at the selected offsets."""
        not_retried = [each.letter for each in (*self.left_out, *self.refused)]
        return {(letter.partition, letter.offset) for letter in [*(each.letter for each in self.retries), *not_retried]}


def plan_retry(log: Log, topic: str, selection: Sequence[OffsetRanges], to: str | None = None) -> RetryPlan:
    """Returns the records that a retry would write. This function writes nothing.

    `selection`: the offsets of the dead letters, each offset once. `to`: the topic to write to, which exists; None for
    the source topic of each record. If `to` has fewer partitions than the source topic, the new partition is the source
    partition modulo the number of partitions. Raises LogError.
    """
    known = log.topics()
    letters = [dead_letter_of(record) for record in read_raw(log, selection)]
    newest = {
        _input_record(letter): letter for letter in sorted(letters, key=lambda each: (each.partition, each.offset))
    }
    again = {letter.retry_of: letter for letter in letters if letter.retry_of is not None}
    retries, left_out, refused = [], [], []
    for letter in letters:
        if letter.source is None:
            refused.append(NotRetried(letter, letter.no_source))
        elif (other := newest[_input_record(letter)]) is not letter:
            left_out.append(NotRetried(letter, f"{other.position} is a dead letter of the same record"))
        elif letter.position in again:
            left_out.append(NotRetried(letter, f"its record failed again: {again[letter.position].position}"))
        elif (reason := _refusal(letter.source, known)) and to is None:
            refused.append(NotRetried(letter, reason))
        else:
            retries.append(Retry(letter, _target(letter.source, known, to)))
    return RetryPlan(topic, selection, retries, left_out, refused)


def _input_record(letter: DeadLetter) -> tuple[RecordMetadata | None, int]:
    """Returns a value that dead letters of one input record have in common. The value has the timestamp, because
    another record has the same position if the source topic was deleted and created again.
    """
    return letter.source, letter.timestamp_ms


def _refusal(source: RecordMetadata, known: Mapping[str, TopicDescription]) -> str:
    """Returns the reason why no record can be put back to this source; empty if a record can."""
    if has_internal_suffix(source.topic):
        return (
            f"its source topic {source.topic} is named like a changelog or repartition topic, to which only the "
            f"application writes; let the application read its input again, or name the topic with --to if it is yours"
        )
    if source.topic not in known:
        return f"its source topic {source.topic} does not exist; --to names another topic"
    count = known[source.topic].partitions
    if source.partition >= count:
        return f"its source topic {source.topic} has partitions 0 to {count - 1}, no {source.partition}"
    return ""


def _target(source: RecordMetadata, known: Mapping[str, TopicDescription], to: str | None) -> TopicPartition:
    if to is None:
        return TopicPartition(source.topic, source.partition)
    return TopicPartition(to, source.partition % known[to].partitions)


def carry_out(log: Log, plan: RetryPlan) -> None:
    """Writes the records of the plan in one transaction. After an error, no record is written.

    The transactional id has the name of the dead-letter topic. So if two retries of a topic run at the same time, one
    of them ends with ProducerFenced. Raises DeadLetterGone, LogError.
    """
    targets = {(each.letter.partition, each.letter.offset): each.target for each in plan.retries}
    written = 0
    with closing(log.producer(f"assignor-dead-letters-retry-{plan.topic}")) as producer:
        producer.begin_transaction()
        for record in read_raw(log, plan.selection):
            target = targets.get((record.partition, record.offset))
            if target is not None:
                position = position_text(plan.topic, record.partition, record.offset)
                headers = (*own_headers(record.headers), (HEADER_RETRY_OF, position.encode()))
                producer.send(target, record.key, record.value, record.timestamp_ms, headers)
                written += 1
        if written < len(targets):
            gone = len(targets) - written
            raise DeadLetterGone(f"the log has deleted {gone} of {len(targets)} dead letters; nothing is written")
        producer.commit_transaction()
