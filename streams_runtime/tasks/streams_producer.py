"""The producer of one stream thread. All tasks of the thread share it, so a commit covers all of them.

Rules: under at-least-once it writes as it goes. Under exactly-once it sends nothing outside a transaction, and a
transaction begins with the first record (or offset) after the last commit. When another producer or a newer claim has
fenced it, it raises `TaskMigrated`. It passes a `LogTimeout` on, which counts against `task.timeout.ms`.
Source: `StreamsProducer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Claim, Log, OffsetsToCommit, Producer
from streams_runtime.logs.errors import CommitFenced, LogError, LogTimeout, ProducerFenced
from streams_runtime.logs.record_limits import RecordLimits

_FENCED = (ProducerFenced, CommitFenced)


class StreamsProducer:
    """Only its own thread uses it. `transactional_id` None: at-least-once.

    `initialize` or the first use opens the log's producer; after `reset` the next use opens another one. `aborted`:
    the number of transactions that were not committed. A task remembers it when its work begins; when it has changed
    since, that work is lost.
    """

    __slots__ = ("_guards", "_ready", "aborted", "log", "producer", "transaction_in_flight", "transactional_id")

    def __init__(self, log: Log, transactional_id: str | None = None) -> None:
        self.log = log
        self.transactional_id = transactional_id
        self.producer: Producer | None = None
        self.transaction_in_flight = False
        self.aborted = 0
        self._guards: dict[TaskId, Claim] = {}
        self._ready = False  # opened and, under exactly-once, inside a transaction: the one check of each send

    @property
    def exactly_once(self) -> bool:
        return self.transactional_id is not None

    def initialize(self) -> None:
        """Open the log's producer, which fences the one before it with the same id. Idempotent. Raises LogTimeout."""
        self._open()

    def guard(self, task: TaskId, claim: Claim | None) -> None:
        """At-least-once: let the task write as long as this claim is the newest; None: the task writes no more.

        Without a guard, a thread that the group took for dead could write old values of a store after those of the
        next owner.
        """
        if self.exactly_once:
            return
        if claim is not None:
            self._guards[task] = claim
        elif self._guards.pop(task, None) is None:
            return
        if self.producer is not None:
            self.producer.guard(list(self._guards.values()))

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Raises TaskMigrated, LogTimeout, StreamsRuntimeError (cause: the log's error)."""
        if not self._ready:
            self._begin()
        try:
            self.producer.send(partition, key, value, timestamp_ms, headers)  # type: ignore[union-attr]
        except LogError as error:
            raise _translated(error, f"sending a record to {partition}") from error

    def check(self, partition: TopicPartition, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Raise what `send` raises for a record that the topic does not take. Sends nothing."""
        try:
            self._open().limits_of(partition).checked(partition, key, value, timestamp_ms, ())
        except LogError as error:
            raise _translated(error, f"sending a record to {partition}") from error

    def send_columns(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Send rows. Raises as `send` does, and has none of them then."""
        if not self._ready:
            self._begin()
        try:
            self.producer.send_columns(partition, keys, values, timestamps_ms)  # type: ignore[union-attr]
        except LogError as error:
            raise _translated(error, f"sending records to {partition}") from error

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Raises as `send` does."""
        try:
            return self._open().limits_of(partition)
        except LogError as error:
            raise _translated(error, f"asking for the limits of {partition}") from error

    def send_now(self) -> None:
        """Have what was sent written without waiting for `linger.ms`. Raises as `send` does."""
        if self.producer is None:
            return
        try:
            self.producer.send_now()
        except LogError as error:
            raise _translated(error, "writing what was sent") from error

    def flush(self) -> None:
        """Return when everything sent is written. Raises as `send` does."""
        if self.producer is None:
            return
        try:
            self.producer.flush()
        except LogError as error:
            raise _translated(error, "flushing") from error

    def commit(self, offsets: OffsetsToCommit = ()) -> None:
        """Exactly-once: end the transaction with these offsets in it. Else: write what is pending, with the offsets.

        A claim is checked even when none of its offsets moved, because only the owner may write what a punctuation
        sent. Nothing happens when there is neither an offset nor a record. Raises as `send` does; after an error
        nothing of it counts as committed.
        """
        if self.exactly_once:
            self._commit_transaction(offsets)
            return
        if not offsets or (self.producer is None and not any(moved for _, moved in offsets)):
            self.flush()
            return
        try:
            self._open().commit_offsets(offsets)
        except LogError as error:
            raise _translated(error, "committing offsets") from error

    def abort(self) -> None:
        """Drop the transaction in flight, if there is one. Never raises, because dirty closes call it.

        A fenced producer stays until its owner has rejoined the group and calls `reset`. When the log cannot be
        reached, the producer is given up; the log ends its transaction when another one with the same id is opened.
        """
        if not self.transaction_in_flight or self.producer is None:
            return
        self._is_aborted()
        try:
            self.producer.abort_transaction()
        except _FENCED:
            return
        except LogError:
            self.reset()

    def reset(self) -> None:
        """Close the log's producer; the next use opens a new one. Source: `StreamsProducer.resetProducer`.

        Records that it has not written yet are discarded. Their input offsets are not committed, so the next owner of
        the tasks processes them again, and must not find older values of a store behind its own.
        """
        producer, self.producer = self.producer, None
        self._is_aborted()
        if producer is None:
            return
        try:
            producer.discard()
            producer.close()
        except LogError:
            return  # nobody uses it any more, and the next one fences it

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset of the last acknowledged (and committed) record, for each partition written."""
        return {} if self.producer is None else self.producer.last_offsets()

    def close(self) -> None:
        """An open transaction is aborted."""
        self.abort()
        self.reset()

    def _is_aborted(self) -> None:
        self.aborted += self.transaction_in_flight
        self.transaction_in_flight = self._ready = False

    def _open(self) -> Producer:
        if self.producer is None:
            try:
                self.producer = self.log.producer(self.transactional_id)
            except LogError as error:
                raise _translated(error, "opening the producer") from error
            self.producer.guard(list(self._guards.values()))
        return self.producer

    def _begin(self) -> None:
        producer = self._open()
        if self.transactional_id is not None:
            try:
                producer.begin_transaction()
            except LogError as error:
                raise _translated(error, "beginning a transaction") from error
            self.transaction_in_flight = True
        self._ready = True

    def _commit_transaction(self, offsets: OffsetsToCommit) -> None:
        if not self.transaction_in_flight:
            if not any(moved for _, moved in offsets):
                return
            self._begin()
        try:
            self._open().commit_transaction(offsets)
        except LogError as error:
            raise _translated(error, "committing a transaction") from error
        self.transaction_in_flight = self._ready = False


def _translated(error: LogError, doing: str) -> Exception:
    """The error that the runtime raises for one of the log."""
    if isinstance(error, _FENCED):
        return TaskMigrated(f"the producer was fenced while {doing}: {error}")
    if isinstance(error, LogTimeout):
        return error
    return StreamsRuntimeError(f"error while {doing}: {error}")
