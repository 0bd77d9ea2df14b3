"""The producer of one stream thread. All tasks of the thread share it, so a commit covers all of them.

Rules: under at-least-once, records are written without waiting for the commit. Under exactly-once nothing is sent
outside a transaction, and a transaction begins with the first record (or offset) after the last commit. Before a task
reads its input, it claims the input partitions in the log, which fences all earlier claims of these partitions. The
producer is fenced when another producer with the same id is opened, or when there is a newer claim of the input
partitions of one of its tasks. Its methods then raise `TaskMigrated`. They also raise the log's `LogTimeout`, which
counts against `task.timeout.ms`.
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
    """Only its own thread uses it. `transactional_id`: None under at-least-once.

    `initialize` or the first use opens the log's producer; after `reset` the next use opens another one.
    `aborts`: the number of transactions that were not committed. A task remembers the number when its work begins; if
    the number has grown when the task commits, the work was in an aborted transaction.
    """

    __slots__ = ("_ready", "_write_claims", "aborts", "log", "producer", "transaction_in_flight", "transactional_id")

    def __init__(self, log: Log, transactional_id: str | None = None) -> None:
        self.log = log
        self.transactional_id = transactional_id
        self.producer: Producer | None = None
        self.transaction_in_flight = False
        self.aborts = 0
        self._write_claims: dict[TaskId, Claim] = {}
        self._ready = False  # opened and, under exactly-once, inside a transaction; each send checks only this

    @property
    def exactly_once(self) -> bool:
        return self.transactional_id is not None

    def initialize(self) -> Producer:
        """Returns the log's producer, and opens it if it is not open, which fences an earlier one with the same id.

        Raises as `send` does.
        """
        if self.producer is None:
            try:
                self.producer = self.log.producer(self.transactional_id)
            except LogError as error:
                raise _translated(error, "opening the producer") from error
            self.producer.guard(list(self._write_claims.values()))
        return self.producer

    def set_write_claim(self, task: TaskId, claim: Claim | None) -> None:
        """Under at-least-once, let the task write as long as this claim is the newest; None: the task writes no more.

        Without this check, a thread that was expelled from its group could still write old values of a store to the
        changelog, after the newer values of the next owner.
        """
        if self.exactly_once:
            return
        if claim is not None:
            self._write_claims[task] = claim
        elif self._write_claims.pop(task, None) is None:
            return
        if self.producer is not None:
            self.producer.guard(list(self._write_claims.values()))

    def send(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> None:
        """Raises TaskMigrated, LogTimeout, or StreamsRuntimeError with the log's error as its cause."""
        if not self._ready:
            self._begin()
        try:
            self.producer.send(partition, key, value, timestamp_ms, headers)  # type: ignore[union-attr]
        except LogError as error:
            raise _translated(error, f"sending a record to {partition}") from error

    def check(self, partition: TopicPartition, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Raise what `send` raises for a record that the topic does not take. Sends nothing."""
        try:
            self.initialize().limits_of(partition).checked(partition, key, value, timestamp_ms, ())
        except LogError as error:
            raise _translated(error, f"sending a record to {partition}") from error

    def send_columns(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Send one record for each row of the columns. Raises as `send` does, and then sends no record."""
        if not self._ready:
            self._begin()
        try:
            self.producer.send_columns(partition, keys, values, timestamps_ms)  # type: ignore[union-attr]
        except LogError as error:
            raise _translated(error, f"sending records to {partition}") from error

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        """Raises as `send` does."""
        try:
            return self.initialize().limits_of(partition)
        except LogError as error:
            raise _translated(error, f"asking for the limits of {partition}") from error

    def send_now(self) -> None:
        """Have the sent records written without waiting for `linger.ms`. Raises as `send` does."""
        if self.producer is None:
            return
        try:
            self.producer.send_now()
        except LogError as error:
            raise _translated(error, "writing what was sent") from error

    def flush(self) -> None:
        """Wait until all sent records are written. Raises as `send` does."""
        if self.producer is None:
            return
        try:
            self.producer.flush()
        except LogError as error:
            raise _translated(error, "flushing") from error

    def commit(self, offsets: OffsetsToCommit = ()) -> None:
        """Under exactly-once, end the transaction with these offsets in it. Under at-least-once, write the pending
        records together with the offsets.

        `offsets`: for each claim, the offsets that moved, perhaps none. The log checks a claim without moved offsets as
        well: a punctuation may have sent records, and only the owner of the claim may write them. Does nothing if
        there is neither an offset nor a record. Raises as `send` does; after an error nothing is committed.
        """
        if self.exactly_once:
            self._commit_transaction(offsets)
            return
        # A producer that is not open has no pending records. Without claims there are no offsets, so a flush is enough.
        has_nothing_to_write = self.producer is None and not any(moved for _, moved in offsets)
        if not offsets or has_nothing_to_write:
            self.flush()
            return
        try:
            self.initialize().commit_offsets(offsets)
        except LogError as error:
            raise _translated(error, "committing offsets") from error

    def abort(self) -> None:
        """Abort the transaction in flight, if there is one. Never raises, because dirty closes call it.

        A fenced producer stays open until its thread has rejoined the group and calls `reset`. After another error of
        the log, the producer is closed; the log aborts its transaction when a producer with the same id is opened.
        """
        if not self.transaction_in_flight or self.producer is None:
            return
        self._mark_aborted()
        try:
            self.producer.abort_transaction()
        except _FENCED:
            return
        except LogError:
            self.reset()

    def reset(self) -> None:
        """Close the log's producer; the next use opens a new one. Source: `StreamsProducer.resetProducer`.

        Records that the producer has not written yet are discarded: their input offsets are not committed, so the next
        owner of the tasks processes the input again. If these records were written late, they could come after the
        records of the next owner in a changelog, and replace newer values.
        """
        producer, self.producer = self.producer, None
        self._mark_aborted()
        if producer is None:
            return
        try:
            producer.discard()
            producer.close()
        except LogError:
            return  # nobody uses this producer any more, and the next producer with its id fences it

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """The offset of the last acknowledged (and committed) record, for each partition written."""
        return {} if self.producer is None else self.producer.last_offsets()

    def close(self) -> None:
        """Abort an open transaction, and close the log's producer."""
        self.abort()
        self.reset()

    def _mark_aborted(self) -> None:
        if self.transaction_in_flight:
            self.aborts += 1
        self.transaction_in_flight = self._ready = False

    def _begin(self) -> None:
        producer = self.initialize()
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
            self.initialize().commit_transaction(offsets)
        except LogError as error:
            raise _translated(error, "committing a transaction") from error
        self.transaction_in_flight = self._ready = False


def _translated(error: LogError, doing: str) -> Exception:
    """The runtime's error for this error of the log. `doing`: the action that failed."""
    if isinstance(error, _FENCED):
        return TaskMigrated(f"the producer was fenced while {doing}: {error}")
    if isinstance(error, LogTimeout):
        return error
    return StreamsRuntimeError(f"error while {doing}: {error}")
