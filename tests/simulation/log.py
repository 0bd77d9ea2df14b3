"""The log of a group in simulated time: the real one in memory, as one stream thread reaches it, with faults.

Rules:
- All threads share one `InMemoryLog`. Each has a view of its own, by which the log knows who asks.
- A log that is away answers no call: LogTimeout, once the caller has waited for its answer.
- An answer that is lost is that of a commit: the log has made it, and the producer hears LogTimeout. As on Kafka, the
  same commit made again says what became of it and writes nothing twice; an abort cannot know, and ends the producer.
- A poll never waits: the simulation says when the thread looks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from assignor.types import TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.logs.base import Claim, IsolationLevel, OffsetsToCommit, Producer, RecordBatch
from streams_runtime.logs.consumers import PollingConsumer
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.log_errors import LogError, LogTimeout
from streams_runtime.logs.producers import BufferingProducer, NewBatch, ProducerIdentity, check_identity
from streams_runtime.logs.record_limits import RecordLimits
from tests.simulation.clocks import Pauses
from tests.simulation.fate import Fate, Point
from tests.simulation.faults import Kind
from tests.simulation.windows import Windows

ANSWER_TIMEOUT_MS = 500
_NO_SIGNAL = threading.Event()

Row = tuple[bytes, bytes, int]
"""The key, the value and the timestamp of a record."""


class SharedLog(InMemoryLog):
    """`windows`: what is wrong with it. `appended`: called after each append. `appends`: how many there were."""

    def __init__(self, cluster_id: str, clock: Clock, windows: Windows, appended: Callable[[], None]) -> None:
        super().__init__(clock)
        self._cluster_id = cluster_id
        self._signals = _Appended(self, appended)  # type: ignore[assignment]  # in place of waking threads
        self.windows = windows
        self.appends = self.commits = 0

    def end_of(self, partition: TopicPartition) -> int:
        return self._partitions[partition].end

    def batches_from(self, partition: TopicPartition, offset: int) -> list[RecordBatch]:
        """All that is written from this offset on, which is that of a batch."""
        stored = self._partitions[partition]
        return [records for _, records in stored.batches[stored.first_index(offset) :]]

    def write(self, partition: TopicPartition, rows: Sequence[Row]) -> None:
        """Records of a producer that is nobody's business, in one batch."""
        keys, values, timestamps_ms = (list(column) for column in zip(*rows, strict=True))
        self._partitions[partition].append(partition, NewBatch(timestamps_ms, keys, values, None, sum(map(len, keys))))

    def tell(self) -> None:
        """That something was written, to all who read."""
        self._signals.appended()

    def registered(self, transactional_id: str | None) -> ProducerIdentity | None:
        """The identity of a new producer, which fences the one before it."""
        if transactional_id is None:
            return None
        epoch = self._producer_epochs[transactional_id] = self._producer_epochs.get(transactional_id, -1) + 1
        return ProducerIdentity(transactional_id, epoch)

    def current_epoch(self, transactional_id: str) -> int | None:
        return self._producer_epochs.get(transactional_id)

    def committed_offset(self, group_id: str, partition: TopicPartition) -> int:
        found = self._committed.get((group_id, partition))
        return 0 if found is None else found.offset


class _Appended:
    """Each append is counted, and told."""

    def __init__(self, log: SharedLog, tell: Callable[[], None]) -> None:
        self._log = log
        self._tell = tell

    def appended(self) -> None:
        self._log.appends += 1
        self._tell()


class LogView:
    """A `Log` for one thread. A call that is not here asks first, and is then a call of the shared log."""

    def __init__(self, log: SharedLog, fate: Fate, pauses: Pauses) -> None:
        self.shared = log
        self.fate = fate
        self.pauses = pauses

    def ask(self) -> None:
        """Raises LogTimeout."""
        if self.fate.is_dead:
            self.fate.reach(Point.BEFORE_COMMIT)
        windows = self.shared.windows
        if windows.any_open and windows.is_open(Kind.LOG_AWAY):
            self.pauses.spend(ANSWER_TIMEOUT_MS)
            raise LogTimeout("the log does not answer")

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.shared, name)

        def asked(*arguments: object, **named: object) -> Any:
            self.ask()
            return call(*arguments, **named)

        return asked

    def release(self, *claims: Claim) -> None:
        """Nobody waits for the answer."""
        if self.fate.is_dead:
            self.fate.reach(Point.BEFORE_COMMIT)

    def consumer(
        self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED, *, whole_transactions: bool = False
    ) -> SimulatedConsumer:
        return SimulatedConsumer(self, whole_transactions=whole_transactions)

    def producer(self, transactional_id: str | None = None) -> Producer:
        self.ask()
        return SimulatedProducer(self, self.shared.registered(transactional_id))

    def cluster_id(self) -> str:
        """Known since the log was opened."""
        return self.shared.cluster_id()

    def deletes_after_ms(self, topic: str) -> int | None:
        return self.shared.deletes_after_ms(topic)

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        self.shared.keep_windows(topic, retention_ms)

    def close(self) -> None: ...


class SimulatedConsumer(PollingConsumer):
    def __init__(self, view: LogView, *, whole_transactions: bool) -> None:
        super().__init__(view.shared, _NO_SIGNAL, whole_transactions=whole_transactions)
        self._view = view

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """In an order that does not depend on the hashes of this process."""
        super().assign(sorted(partitions))

    def poll(self, timeout_ms: int, max_records: int) -> list[RecordBatch]:
        self._view.ask()
        self._may_have_more = True  # no signal tells of an append
        return self._take(max_records)

    def wakeup(self) -> None: ...

    def has_news(self) -> bool:
        """Whether a poll would give something."""
        ends = self._view.shared
        return any(ends.end_of(partition) > (each.position or 0) for partition, each in self._wanted().items())


class SimulatedProducer(BufferingProducer):
    def __init__(self, view: LogView, identity: ProducerIdentity | None) -> None:
        self._log = SimulatedDestination(view)
        super().__init__(self._log, identity)

    def abort_transaction(self) -> None:
        if self._log.made is not None:  # nobody can say whether there is still something to abort
            self._state.fail(LogError("whether the transaction was committed is not known"))
            self._state.check_usable()
        super().abort_transaction()

    def discard(self) -> None:
        super().discard()
        self._log.made = None


class SimulatedDestination:
    """`made`: of a commit whose answer was lost, how many batches of each partition it wrote, and up to where; None
    when no such commit is to be made again.
    """

    def __init__(self, view: LogView) -> None:
        self._view = view
        self.made: dict[TopicPartition, tuple[int, int]] | None = None

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return self._view.shared.limits_of(partition)

    def append(
        self,
        batches: Mapping[TopicPartition, Sequence[NewBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
    ) -> dict[TopicPartition, int]:
        view, log = self._view, self._view.shared
        view.fate.reach(Point.BEFORE_COMMIT)
        view.ask()
        slow_ms = log.windows.amount(Kind.LOG_SLOW) if log.windows.any_open else None
        if slow_ms is not None:
            view.pauses.spend(slow_ms)
        made, self.made = self.made, None
        try:
            last = self._append(batches, offsets, identity, made)
        except BaseException:
            self.made = made
            raise
        log.commits += 1
        view.fate.reach(Point.AFTER_COMMIT)
        if log.windows.any_open and log.windows.happens(Kind.LOG_SILENT):
            self.made = {p: (len(of_it), last[p]) for p, of_it in batches.items() if p in last}
            view.pauses.spend(ANSWER_TIMEOUT_MS)
            raise LogTimeout("the answer to the commit was lost")
        return last

    def _append(
        self,
        batches: Mapping[TopicPartition, Sequence[NewBatch]],
        offsets: OffsetsToCommit,
        identity: ProducerIdentity | None,
        made: Mapping[TopicPartition, tuple[int, int]] | None,
    ) -> dict[TopicPartition, int]:
        if made is None:
            return self._view.shared.append(batches, offsets, identity)
        last = {partition: offset for partition, (_, offset) in made.items()}
        if identity is not None:  # the transaction is the same, and is over
            check_identity(identity, self._view.shared.current_epoch(identity.transactional_id))
            return last
        rest = {p: left for p, of_it in batches.items() if (left := of_it[made[p][0] if p in made else 0 :])}
        return last | self._view.shared.append(rest, offsets, identity)
