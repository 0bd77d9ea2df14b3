"""Fills the global stores of an instance with the records of their topics. All tasks of the instance may read them.

Rules:
- Each instance has one global task, which reads all partitions of all global topics. The group does not know the global
  task. It has no claim, no committed offsets in the log, and no standby.
- The processor of a global store processes each record of the store's topic, also while the store is being restored. So
  after a restore, the store has the same content as if the instance had always run.
- After each poll, each store gets its changes and the offsets of its topic's partitions in one write batch. After a
  crash, the task continues at these offsets. A store in memory is filled from the beginning of its topic.
- A store is deleted, with a warning, and filled from the beginning if its files cannot be used: if they are damaged, if
  they belong to another kind of store, to another topic or to another log, if the retention of the store was raised, or
  if the log no longer has the records from the store's offsets on. So a processor that accumulates counts each record
  once, even after a crash.
- The handler of deserialization errors decides about records that cannot be read. With
  `processing.exception.handler.global.enabled`, the handler of processing errors decides about errors of the
  processors. A global task sends nothing, so a record whose handler returns DEAD_LETTER is only dropped.

Source: `GlobalStateManagerImpl`, `GlobalStateUpdateTask`, `GlobalProcessorContextImpl`. Differs from Kafka: in Kafka, a
restore of a global table copies the bytes of the topic (KAFKA-8037), so records that the table has skipped replace good
records. In Kafka, a processor that accumulates may count records twice after a crash, because the offsets of a global
store are in a checkpoint file. If the log no longer has the records from the store's offsets on, Kafka deletes the
store, but the application has to be started again. In Kafka, a handler that returns a dead letter for a record that
cannot be read ends the application with a ClassCastException.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, cast

from assignor.types import Offsets, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import (
    LockError,
    ProcessorStateError,
    StoreCorrupted,
    StoreOfAnotherKind,
    StreamsRuntimeError,
)
from streams_runtime.common.losses import TaskLosses
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.common.states import GLOBAL_TASK
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.base import Log, RecordBatch
from streams_runtime.processors.api import ExceptionHandler, FailedRecord, HandlerResponse
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.runtime import TASK_ERRORS, TaskRuntime
from streams_runtime.serdes.defaults import DefaultSerdes
from streams_runtime.state_stores.state_store import RecordClock, StateStore, StoreContext, keeps_offset
from streams_runtime.tasks.exception_handling import ExceptionHandling, fail
from streams_runtime.tasks.record_queue import UNKNOWN_TIME, RecordQueue
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.store_opening import open_empty, rebuilt_text

_logger = logging.getLogger(__name__)
_INSTEAD_OF_DEAD_LETTER = {
    HandlerResponse.DEAD_LETTER: HandlerResponse.CONTINUE,
    HandlerResponse.DEAD_LETTER_AND_FAIL: HandlerResponse.FAIL,
}


@dataclass(eq=False, repr=False)
class GlobalRuntime:
    """The part of `TaskRuntime` that the processors of global stores can use, and the part of `RecordClock` that their
    stores use. Any other attribute raises StreamsRuntimeError: a processor of a global store cannot schedule
    punctuations, read stream time or send records.

    `stores`: the open global stores. `queue`: the queue of the current record; None if there is no record.
    """

    graph: ProcessorGraph
    losses: TaskLosses
    application_id: str
    default_serdes: DefaultSerdes
    _clock: Clock
    stores: dict[str, StateStore] = field(default_factory=dict)
    # The processors get the stores themselves, and not their views for reading.
    global_stores: Mapping[str, StateStore] = field(default_factory=dict)
    queue: RecordQueue | None = None

    task_id = GLOBAL_TASK
    position = None  # without a position, no node collects records

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return None if self.queue is None else self.queue.polled_metadata()

    @property
    def headers(self) -> Headers:
        return () if self.queue is None else self.queue.polled_headers()

    @property
    def record_timestamp_ms(self) -> int:
        return self.graph.current.timestamp_ms

    @property
    def current_system_time_ms(self) -> int:
        return self._clock.now_ms()

    def request_commit(self) -> None:
        """Does nothing, because the stores are committed after each poll."""

    def node_failed(self, node: str, error: Exception) -> bool:
        """Returns False: the error reaches `GlobalTask`, which calls the handler."""
        return False

    def __getattr__(self, name: str) -> Any:
        raise StreamsRuntimeError(f"the processor of a global store cannot use `{name}`")


class _Time:
    """Receives the timestamps of the records, which the global task does not need."""

    stream_time_ms = UNKNOWN_TIME


@dataclass(eq=False, repr=False)
class GlobalTask:
    """The global task of one instance. Call `open`, then `update` any number of times, then `close`. All calls come
    from one thread. Any thread may read the stores while the task is open.

    `ends`: for each partition, the end offset when the task was opened. `starts`: for each partition, the offset at
    which the task began to read.
    """

    graph: ProcessorGraph
    _directory: StateDirectory
    _log: Log
    configs: StreamsConfig
    processing_handler: InitVar[ExceptionHandler]
    deserialization_handler: InitVar[ExceptionHandler]
    losses: TaskLosses
    clock: Clock

    def __post_init__(self, processing_handler: ExceptionHandler, deserialization_handler: ExceptionHandler) -> None:
        configs = self.configs
        self.stores: Mapping[str, StateStore] = {store.name: store for store in self.graph.stores}
        self.starts: Offsets = {}
        self.ends: Offsets = {}
        self._runtime = GlobalRuntime(
            self.graph, self.losses, configs.application_id, configs.default_serdes, self.clock
        )
        self._handling = ExceptionHandling(
            _no_sink,
            _no_flush,
            None,
            _without_dead_letters(processing_handler) if configs.processing_exception_handler_global_enabled else fail,
            _without_dead_letters(deserialization_handler),
            fail,
            self.losses,
            self.clock,
        )
        self._consumer = self._log.consumer(configs.isolation_level)
        self._partitions: dict[str, list[TopicPartition]] = {}  # by store
        self._queues: dict[TopicPartition, RecordQueue] = {}
        self._holds_directory = False
        self._damage: ProcessorStateError | None = None

    def wakeup(self) -> None:
        """End the wait of `update`. Any thread may call `wakeup`."""
        self._consumer.wakeup()

    def is_restored(self, partition: TopicPartition) -> bool:
        """Returns True if the store has all records that were in the partition when the task was opened."""
        return (self._consumer.position(partition) or 0) >= self.ends[partition]

    def store_of(self, partition: TopicPartition) -> str:
        return next(name for name, partitions in self._partitions.items() if partition in partitions)

    def open(self) -> None:
        """Lock the directory, open the stores, and initialise the processors. Raises LogTimeout if the log does not
        answer; the caller may then call `open` again. Raises StreamsRuntimeError if a topic does not exist.
        """
        begins, contexts = self._look_up()
        if not self._directory.lock(GLOBAL_TASK):
            raise LockError(f"the directory of the global stores is locked by {self._directory.holder(GLOBAL_TASK)}")
        self._holds_directory = True
        for store in self.graph.stores:
            own_begins = {partition: begins[partition] for partition in self._partitions[store.name]}
            self.starts |= self._open_store(store, contexts[store.name], own_begins)
        self._runtime.stores = dict(self.stores)
        self.graph.init(cast("TaskRuntime", self._runtime))
        self._queues = {
            partition: RecordQueue(
                GLOBAL_TASK,
                partition,
                self.graph.sources[partition.topic],
                self._handling.deserialization_failed,
                self.losses,
            )
            for partition in self.starts
        }
        self._consumer.assign(self.starts)
        for partition, offset in self.starts.items():
            self._consumer.seek(partition, offset)

    def update(self, timeout_ms: int) -> list[RecordBatch]:
        """Process the next records of the topics, and commit the stores. Waits up to `timeout_ms` for the first record.
        Returns the processed batches. Raises LogTimeout, OffsetOutOfRange, ProcessingFailed, ProcessorStateError.
        Raises the ProcessorStateError also if another thread has found damage in a store.
        """
        if self._damage is not None:
            raise self._damage
        batches = self._consumer.poll(timeout_ms, self.configs.max_poll_records)
        for batch in batches:
            self._process(batch)
        if batches:
            self._commit()
        return batches

    def close(self, *, wipe: bool = False) -> None:
        """Close the processors, the stores and the consumer, and unlock the directory. `wipe`: True to delete the
        stores, too. Damaged stores are always deleted. Errors are logged.
        """
        steps: list[Callable[[], object]] = [self.graph.close, *(store.close for store in self.graph.stores)]
        if self._holds_directory:
            if wipe or self._damage is not None:
                steps.append(lambda: self._directory.wipe(GLOBAL_TASK))
            steps.append(lambda: self._directory.unlock(GLOBAL_TASK))
        for step in (*steps, self._consumer.close):
            try:
                step()
            except Exception:
                _logger.exception("the global stores could not be closed in good order")
        self._holds_directory = False

    def _look_up(self) -> tuple[Offsets, dict[str, StoreContext]]:
        """Returns the begin offsets of all partitions, and the context of each store."""
        topics = self.graph.source_changelogs
        for name, topic in topics.items():
            self._partitions[name] = [TopicPartition(topic, number) for number in range(self._log.partitions_of(topic))]
            if not self._partitions[name]:
                raise StreamsRuntimeError(f"the log has no topic {topic}, which fills global store {name}")
        every = [partition for partitions in self._partitions.values() for partition in partitions]
        self.ends = dict(self._log.end_offsets(every, self.configs.isolation_level))
        log_id, topic_ids = self._log.cluster_id(), self._log.topic_ids(topics.values())
        contexts = {
            name: StoreContext(
                GLOBAL_TASK,
                self._directory.task_directory(GLOBAL_TASK),
                None,
                cast("RecordClock", self._runtime),
                self.configs.rocksdb_config_setter,
                self.losses.expired,
                read_again=_fill_again,
                damaged=self._note_damage,
                changelog=TopicPartition(topic, -1),  # all partitions of the topic
                log_id=log_id,
                topic_id=topic_ids.get(topic),
                transactional=self.configs.enable_transactional_statestores,
            )
            for name, topic in topics.items()
        }
        return dict(self._log.begin_offsets(every)), contexts

    def _open_store(self, store: StateStore, context: StoreContext, begins: Offsets) -> Offsets:
        """Opens a store. Returns the offset from which each partition of its topic has to be read."""
        try:
            store.open(context)
            return self._stored_positions(store, begins)
        except (StoreCorrupted, StoreOfAnotherKind) as error:
            self.losses.store_rebuilt(rebuilt_text(error, has_changelog=True))
            open_empty(store, context, self._directory)
            return begins

    def _stored_positions(self, store: StateStore, begins: Offsets) -> Offsets:
        """Returns the next offsets to read, from the offsets in the store. Raises StoreCorrupted if the store cannot
        continue at its offsets.
        """
        if not keeps_offset(store):
            return begins
        stored = store.committed_offset
        if stored is None:
            if not store.is_empty:
                raise StoreCorrupted(f"store {store.name}: its files have no offsets")
            return begins
        offsets: Sequence[int] = (stored,) if isinstance(stored, int) else stored
        # The topic may have got more partitions since the offsets were written.
        read = {p: offset + 1 for p, offset in zip(begins, offsets, strict=False) if offset >= 0}
        for partition, position in read.items():
            if not begins[partition] <= position <= self.ends[partition]:
                raise StoreCorrupted(
                    f"store {store.name}: it has the records of {partition} up to offset {position - 1}, but the log "
                    f"has the offsets from {begins[partition]} to {self.ends[partition] - 1}"
                )
        return {**begins, **read}

    def _note_damage(self, message: str) -> ProcessorStateError:
        """Implements `StoreContext.damaged`. A task or a query may have read the store. Restarting this task would not
        help, so the error is not a StoreCorrupted. The next `update` raises the error, too, which ends the instance.
        """
        error = self._damage = ProcessorStateError(f"global {message}; the next start of the instance fills it again")
        self.wakeup()
        return error

    def _process(self, batch: RecordBatch) -> None:
        queue = self._queues[batch.partition]
        queue.add(batch)
        self._runtime.queue = queue
        try:
            while len(queue):
                queue.deliver(len(queue), _Time(), self._record_failed)
        finally:
            self._runtime.queue = None
            self.graph.current.clear()

    def _record_failed(self, queue: RecordQueue, error: Exception) -> None:
        if isinstance(error, TASK_ERRORS):
            raise error
        self._handling.processing_failed(queue.failed(queue.place, self.graph.failed_node(error), error))

    def _commit(self) -> None:
        for store in self.graph.stores:
            if keeps_offset(store):
                store.commit(tuple((self._consumer.position(p) or 0) - 1 for p in self._partitions[store.name]))


def _fill_again(store: str, reason: str) -> None:
    """Implements `StoreContext.read_again`. The store must not keep its content while its topic is read again, because
    its processor would count records twice.
    """
    raise StoreOfAnotherKind(f"store {store}: {reason}")


def _no_sink(node: str, topic: str) -> Callable[[Any, Any, int, Headers], None]:
    raise StreamsRuntimeError(f"{node} of a global store cannot write to {topic}", GLOBAL_TASK)


def _no_flush() -> None:
    """Does nothing, because a global task sends nothing."""


def _without_dead_letters(handler: ExceptionHandler) -> ExceptionHandler:
    def handle(record: FailedRecord) -> HandlerResponse:
        response = HandlerResponse(handler(record))
        if response in _INSTEAD_OF_DEAD_LETTER:
            _logger.warning("a global store sends no dead letter, not even for this record: %s", record.metadata)
        return _INSTEAD_OF_DEAD_LETTER.get(response, response)

    return handle
