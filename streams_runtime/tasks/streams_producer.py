"""The producer of one stream thread: at-least-once writes as it goes, exactly-once in transactions that begin lazily.

Rule: under exactly-once nothing is sent outside of a transaction, and a transaction begins with the first record (or
offset) after the last commit. All tasks of the thread share it, so a commit is of all of them. Who was fenced, as a
producer or by a newer claim, learns it as `TaskMigrated`; a `LogTimeout` is passed on, for `task.timeout.ms`.
Source: `StreamsProducer`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignor.types import TaskId, TopicPartition
from streams_runtime.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.logs.base import Claim, Log, OffsetsToCommit, Producer
from streams_runtime.logs.errors import CommitFenced, LogError, LogTimeout, ProducerFenced
from streams_runtime.records import Headers

_FENCED = (ProducerFenced, CommitFenced)


class StreamsProducer:
    """`transactional_id` None: at-least-once. One thread uses it.

    The log's producer is opened with `initialize` or the first use, and again after `reset`. `aborted`: how many
    transactions came to nothing; a task that worked since then knows that its work is lost.
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
        """At-least-once: the task may write as long as it holds this; None: it writes no more.

        Without it a thread that was thought dead could write old values of a store behind those of the next owner.
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

        A claim counts even without an offset that moved: what a punctuation wrote is of its owner only. Nothing
        happens when there is neither an offset nor a record. Raises as `send` does; after an error nothing of it
        counts as committed.
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
        """Drop the transaction in flight, if there is one. Never raises: it is called while things are closed dirty.

        A fenced producer stays (its owner has to `reset` it, when it has rejoined); one that could not be reached is
        given up, and the log ends its transaction when a new one is opened with the same id.
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

        What it took and did not write is not written any more: its offsets are not committed, so who owns the tasks
        now does it anew, and must not find older values of a store behind its own.
        """
        producer, self.producer = self.producer, None
        self._is_aborted()
        if producer is None:
            return
        try:
            producer.discard()
            producer.close()
        except LogError:
            return  # it is given up on anyway; the new one fences it

    def last_offsets(self) -> Mapping[TopicPartition, int]:
        """Of each partition written, the offset of the last record that is acknowledged (and committed)."""
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
    """What the runtime raises for an error of the log."""
    if isinstance(error, _FENCED):
        return TaskMigrated(f"the producer was fenced while {doing}: {error}")
    if isinstance(error, LogTimeout):
        return error
    return StreamsRuntimeError(f"error while {doing}: {error}")
