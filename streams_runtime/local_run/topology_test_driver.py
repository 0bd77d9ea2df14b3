"""Runs a topology inside a test, without a server or a thread. The clock advances only when the test advances it.

The driver runs a real `StreamTask` for each subtopology. The log is in memory, and its topics have one partition.
`pipe_input` and `advance_wall_clock_time` return when all resulting records are processed and committed, including
records in repartition topics. Stream-time punctuators are called if they are due. The task commits after each input
record. So a record cache merges only those changes of a key that result from the same input record.
`pipe_key_values(..., together=True)` processes its records together, like one poll of a stream thread. Nodes that
process batches then get all records as one batch. If records in several topics have the same timestamp, the record that
was written first is processed first.

Source: `TopologyTestDriver` (KIP-247, KIP-470). Differs from Kafka: the deserialization handler also decides about
records of global topics, as in an instance. Kafka's driver skips such records without asking the handler.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from assignor.errors import InputError
from assignor.topology.definition import SinkNode
from assignor.topology.source_patterns import reads_topic
from assignor.types import Offsets, TaskId, TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.losses import DropReason, TaskLosses, uncounted
from streams_runtime.common.records import Headers, K, V
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.application import Application
from streams_runtime.instance.task_creation import TaskCreator, global_task
from streams_runtime.local_run.topology_test_topics import InputTopic, OutputTopic, Row
from streams_runtime.logs.base import IsolationLevel, NewTopic, OffsetReset, OffsetsToCommit
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.producers import NewBatches, ProducerIdentity
from streams_runtime.processors.api import ExceptionHandler
from streams_runtime.processors.batch_node import NodeRun
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes import Serde
from streams_runtime.state_stores.key_value import KeyValueStore
from streams_runtime.state_stores.session import SessionStore
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.state_stores.versioned import VersionedKeyValueStore
from streams_runtime.state_stores.window import WindowStore
from streams_runtime.tasks.exception_handling import fail
from streams_runtime.tasks.global_task import GlobalTask
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.stream_task import StreamTask

APPLICATION_ID = "topology-test-driver"
_PARTITION = 0


class MockClock:
    """A clock that moves only when a test calls `advance`. Source: `MockTime`."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Moves the clock. Raises StreamsRuntimeError for a negative step."""
        if by_ms < 0:
            raise StreamsRuntimeError(f"time does not go back, by {by_ms} ms")
        self._now_ms += by_ms


class _OrderedLog(InMemoryLog):
    """A log in memory that stores the order of writes.

    `order`: the partitions with unread records, in the order in which their oldest unread records were written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.order: dict[TopicPartition, None] = {}

    def append(self, batches: NewBatches, offsets: OffsetsToCommit, identity: ProducerIdentity | None) -> Offsets:
        last_offsets = super().append(batches, offsets, identity)
        self.order |= last_offsets.fromkeys(last_offsets)
        return last_offsets

    def partitions_of(self, topic: str) -> int:
        """Makes a topic that does not exist. All named topics of the topology exist, so only a sink that chooses the
        topic of each record and a source with a pattern need such a topic.
        """
        if not super().partitions_of(topic):
            self.create_topics([NewTopic(topic, 1)])
        return super().partitions_of(topic)


class TopologyTestDriver(AbstractContextManager["TopologyTestDriver"]):
    """Runs a topology in a test. The test has to close the driver, or use it as a context manager, so that the files of
    its stores are deleted.

    `configs`: the configs of an Application. `configs` may be a mapping without application.id and bootstrap.servers.
    The driver ignores bootstrap.servers, state.dir and auto.offset.reset. `initial_wall_clock_ms`: the start time of
    the clock; None for the present time.

    Raises InputError if an Application does not accept the arguments. Raises all errors of the processors' `init`.
    """

    def __init__(
        self,
        topology: Topology,
        configs: StreamsConfig | Mapping[str, object] | None = None,
        *,
        initial_wall_clock_ms: int | None = None,
        processing_exception_handler: ExceptionHandler = fail,
        deserialization_exception_handler: ExceptionHandler = fail,
        production_exception_handler: ExceptionHandler = fail,
    ) -> None:
        application = Application(
            topology,
            driver_configs(configs),
            processing_exception_handler=processing_exception_handler,
            deserialization_exception_handler=deserialization_exception_handler,
            production_exception_handler=production_exception_handler,
        )
        exactly_once = application.configs.exactly_once
        self.clock = MockClock(SystemClock().now_ms() if initial_wall_clock_ms is None else initial_wall_clock_ms)
        self._application = application
        self._isolation = IsolationLevel.READ_COMMITTED if exactly_once else IsolationLevel.READ_UNCOMMITTED
        # ignore_cleanup_errors, because an error while the directory is deleted must not hide the original error
        self._directory = tempfile.TemporaryDirectory(prefix="topology-test-driver-", ignore_cleanup_errors=True)
        self._state = StateDirectory(Path(self._directory.name), application.id, self.clock)
        self._log = _OrderedLog()
        self._log.create_topics(topics_of(application))
        self._consumer = self._log.consumer(self._isolation)
        self._producer = StreamsProducer(self._log, application.id if exactly_once else None)
        self._global: GlobalTask | None = None
        self._tasks: dict[TaskId, StreamTask] = {}
        self._task_of: dict[TopicPartition, StreamTask] = {}
        # the numbers of records that were read but not processed yet, including records that a task will drop
        self._unprocessed: Counter[TaskId] = Counter()
        self._waits_for_idle = application.configs.max_task_idle_ms > 0
        self._losses: list[TaskLosses] = []
        self._closed = self._broken = False
        try:
            with self._noticing_errors():
                self._start_tasks()
        except BaseException:
            self.close()
            raise

    def create_input_topic(
        self,
        name: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        start_timestamp_ms: int | None = None,
        auto_advance_ms: int = 0,
    ) -> InputTopic[K, V]:
        """Returns an object that writes to a topic of the topology.

        Records without a timestamp get automatic timestamps. `start_timestamp_ms`: the first automatic timestamp; None
        for the clock's present time. `auto_advance_ms`: each further automatic timestamp is higher by this time. Raises
        StreamsRuntimeError for a topic that the topology does not read.

        A topic that matches a source pattern is created, and its task reads it from then on. As in a rebalance, a task
        that runs already closes its processors and initialises them again.
        """
        with self._noticing_errors():
            self._open_matching(name)
        known = sorted({p.topic for p in (*self._task_of, *(self._global.starts if self._global else ()))})
        if name not in known:
            raise StreamsRuntimeError(f"the topology does not read topic {name}; it reads {', '.join(known)}")
        start = self.clock.now_ms() if start_timestamp_ms is None else start_timestamp_ms
        return InputTopic(self._pipe, name, key_serde, value_serde, start, auto_advance_ms)

    def create_output_topic(self, name: str, key_serde: Serde[K], value_serde: Serde[V]) -> OutputTopic[K, V]:
        """Returns an object that reads a topic from its beginning. For an internal topic, `name` is the full name with
        the application id.

        Raises StreamsRuntimeError for an unknown topic, unless a sink of the topology chooses a topic for each record.
        """
        nodes = self._application.topology.definition().nodes.values()
        if any(isinstance(node, SinkNode) and not node.topic for node in nodes):
            self._log.partitions_of(name)
        known = sorted(self._log.topics())
        if name not in known:
            raise StreamsRuntimeError(f"there is no topic {name}; there are {', '.join(known)}")
        return OutputTopic(self._log.consumer(self._isolation), name, key_serde, value_serde)

    def pipe_raw(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Writes a record, and processes it with all records that result from it. If processing fails, raises the error
        with which a stream thread would end.
        """
        self._pipe(topic, [(key, value, timestamp_ms, headers)])

    def _pipe(self, topic: str, rows: Sequence[Row]) -> None:
        with self._noticing_errors():
            self._open_matching(topic)
            self._log.append_records(TopicPartition(topic, _PARTITION), rows)
            self._run_until_idle(max(1, len(rows)))

    def advance_wall_clock_time(self, by_ms: int) -> None:
        """Advances the clock, calls each due wall-clock punctuator once, and processes all resulting records."""
        self.clock.advance(by_ms)
        with self._noticing_errors():
            for task in self._tasks.values():
                task.maybe_punctuate_system_time(self.clock.now_ms())
            self._commit()
            self._run_until_idle()

    def get_state_store(self, name: str) -> Any:
        """Returns the open store with this name. Raises StreamsRuntimeError if the topology has no such store."""
        stores = self.get_all_state_stores()
        if name not in stores:
            raise StreamsRuntimeError(
                f"there is no state store {name}; there are {', '.join(sorted(stores)) or 'none'}"
            )
        return stores[name]

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Returns the open key-value store with this name. Raises StreamsRuntimeError if there is no such store."""
        store: KeyValueStore[Any, Any] = self._store_of_kind(name, "key-value", "prefix_scan")
        return store

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """Returns the open window store with this name. Raises StreamsRuntimeError if there is no such store."""
        store: WindowStore[Any, Any] = self._store_of_kind(name, "window", "fetch_range")
        return store

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Returns the open versioned store with this name. Raises StreamsRuntimeError if there is no such store."""
        store: VersionedKeyValueStore[Any, Any] = self._store_of_kind(name, "versioned", "versions")
        return store

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Returns the open session store with this name. Raises StreamsRuntimeError if there is no such store."""
        store: SessionStore[Any, Any] = self._store_of_kind(name, "session", "find_sessions")
        return store

    def get_all_state_stores(self) -> dict[str, StateStore]:
        """Returns the open stores of all tasks, and the global stores."""
        own = {name: store for task in self._tasks.values() for name, store in task.stores.items()}
        return own if self._global is None else {**own, **self._global.stores}

    def produced_topic_names(self) -> frozenset[str]:
        """Returns the full names of all topics to which the topology has written, including changelogs."""
        return frozenset(partition.topic for partition in self._producer.last_offsets())

    def dropped_records(self) -> dict[str, int]:
        """Returns the number of dropped records by reason: `late`, `null-key`, ... The result does not include the
        records that `filtered_null_keys` counts. Source: `dropped-records-total` of `metrics()`.
        """
        return {
            str(reason): count
            for reason, count in self._lost().items()
            if reason is not DropReason.NULL_KEY_BEFORE_REPARTITION
        }

    def filtered_null_keys(self) -> int:
        """Returns the number of records without a key that were filtered out before a repartition topic. Kafka filters
        records without a key too, but does not count them.
        """
        return self._lost()[DropReason.NULL_KEY_BEFORE_REPARTITION]

    def _lost(self) -> Counter[DropReason]:
        counts: Counter[DropReason] = Counter()
        for losses in self._losses:
            counts.update(losses.by_reason())
        return counts

    def node_runs(self) -> dict[str, NodeRun]:
        """Returns a mapping from node names to `NodeRun`. A `NodeRun` tells whether the node is called once for each
        batch or once for each record, and why.

        If a source has not read any record, the result contains neither the source nor the nodes below it.
        `Topology.describe` does not show how often a node is called, because its text is the same as Kafka's.
        """
        return {name: run for task in self._tasks.values() for name, run in task.node_runs().items()}

    def close(self) -> None:
        """Closes processors and stores, and deletes the files of the stores. Idempotent. Raises all errors of the
        processors' `close`.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._close_tasks()
        finally:
            self._producer.close()
            self._consumer.close()
            self._state.close()
            self._log.close()
            self._directory.cleanup()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_tasks(self) -> None:
        def losses(task: TaskId) -> TaskLosses:
            self._losses.append(uncounted(task))
            return self._losses[-1]

        self._global = global_task(self._application, self._state, self._log, self.clock, losses)
        if self._global is not None:
            self._global.open()
        self._creator = TaskCreator(
            self._application,
            self._state,
            self._log,
            self._consumer,
            self._producer,
            self.clock,
            losses,
            ThreadCache(self._application.configs.statestore_cache_max_bytes),
            {} if self._global is None else self._global.stores,
        )
        for subtopology in self._application.group_topology().subtopologies:
            if subtopology.source_topics:
                self._start_reading(subtopology.id, subtopology.source_topics)
        self._run_until_idle()

    def _start_reading(self, subtopology: int, topics: Iterable[str]) -> None:
        """Adds topics to the input of a subtopology's task. Creates the task if it does not exist."""
        partitions = frozenset(TopicPartition(topic, _PARTITION) for topic in topics)
        task_id = TaskId(subtopology, _PARTITION)
        task = self._tasks.get(task_id)
        if task is None:
            task = self._tasks[task_id] = self._creator.active(task_id, partitions)
        else:
            task.suspend()
            self._commit()
            task.update_input_partitions(task.input_partitions | partitions)
            task.resume()
        self._task_of.update(dict.fromkeys(partitions, task))
        self._consumer.assign(self._task_of)
        task.initialize_if_needed()
        task.complete_restoration()  # all changelogs are empty, so there is nothing to restore

    def _open_matching(self, topic: str) -> None:
        """Creates the topic and reads it, if the topology reads it by a pattern and it does not exist yet."""
        if TopicPartition(topic, _PARTITION) in self._task_of:
            return
        for subtopology in self._application.group_topology().subtopologies:
            if reads_topic(subtopology, topic):
                self._log.partitions_of(topic)
                self._start_reading(subtopology.id, (topic,))

    def _run_until_idle(self, at_a_time: int = 1) -> None:
        """Reads and processes records like the loop of a stream thread. Returns after a pass in which no record was
        read or processed.
        """
        while True:
            read, processed = self._read(), self._process(at_a_time)
            if read == processed == 0:
                return
            # commit, because the task may have dropped some of the records, and their offsets have to be committed too
            if read != processed:
                self._commit()

    def _update_global_stores(self) -> None:
        """Processes the new records of global topics. As in Kafka's driver, a global store has a record before the
        tasks process the next record.
        """
        while self._global is not None and self._global.update(0):
            pass

    def _read(self) -> int:
        self._update_global_stores()
        batches = self._consumer.poll(0, self._application.configs.max_poll_records)
        if len(batches) > 1:
            place = {partition: index for index, partition in enumerate(self._log.order)}
            batches.sort(key=lambda batch: place.get(batch.partition, -1))
        self._log.order.clear()
        read = 0
        for batch in batches:
            task = self._task_of[batch.partition]
            task.add_records(batch)
            self._unprocessed[task.id] += len(batch.offsets)
            read += len(batch.offsets)
        return read

    def _process(self, at_a_time: int) -> int:
        processed = 0
        for task_id, task in self._tasks.items():
            # The wait of `max.task.idle.ms` begins when `process` first finds a partition without records.
            if (self._unprocessed[task_id] or self._waits_for_idle) and (
                records := task.process(self.clock.now_ms(), at_a_time)
            ) > 0:
                self._unprocessed[task_id] -= records
                processed += records
                task.maybe_punctuate_stream_time()
                self._commit()
        return processed

    def _commit(self) -> None:
        needed = [task for task in self._tasks.values() if task.commit_needed()]
        offsets = []
        for task in needed:
            task.prepare_commit()
            offsets.append((task.claim, task.offsets_to_commit()))
        self._producer.commit(offsets)
        for task in needed:
            task.post_commit(enforce_checkpoint=False)
        self._update_global_stores()

    def _close_tasks(self) -> None:
        is_clean = False
        try:
            if not self._broken:
                for task in self._tasks.values():
                    task.suspend()
                self._commit()
                for task in self._tasks.values():
                    task.close_clean()
                is_clean = True
        finally:
            if not is_clean:
                for task in self._tasks.values():
                    task.close_dirty()
            if self._global is not None:
                self._global.close()

    @contextmanager
    def _noticing_errors(self) -> Iterator[None]:
        """A context manager that sets `_broken` if an error is raised. After an error, no task can be used, and `close`
        closes all tasks without a commit.
        """
        if self._closed or self._broken:
            raise StreamsRuntimeError("the driver is closed" if self._closed else "the driver's topology has failed")
        try:
            yield
        except BaseException:
            self._broken = True
            raise

    def _store_of_kind(self, name: str, kind: str, method: str) -> Any:
        store = self.get_state_store(name)
        if not hasattr(store, method):
            raise StreamsRuntimeError(f"state store {name} is not a {kind} store but a {type(store).__name__}")
        return store


def driver_configs(configs: StreamsConfig | Mapping[str, object] | None) -> StreamsConfig:
    """Makes the configs of the driver, with default values for application.id and bootstrap.servers."""
    if configs is None or isinstance(configs, Mapping):
        own = {"application.id": APPLICATION_ID, "bootstrap.servers": "memory:topology-test-driver"}
        configs = StreamsConfig.from_dotted({**own, **(configs or {})})
    if not isinstance(configs, StreamsConfig):
        raise InputError(f"must be a StreamsConfig or a mapping, not a {type(configs).__name__}", "configs")
    # all topics are new, so the driver reads them from their beginning
    return replace(configs, auto_offset_reset=OffsetReset.EARLIEST)


def topics_of(application: Application) -> list[NewTopic]:
    """Returns all topics that the topology reads or writes, with one partition each."""
    names: dict[str, None] = {}
    for subtopology in application.group_topology().subtopologies:
        names |= dict.fromkeys(subtopology.source_topics)
        names |= dict.fromkeys(subtopology.sink_topics)
        names |= dict.fromkeys(store.changelog_topic for store in subtopology.stores if store.changelog_topic)
    names |= dict.fromkeys(application.global_topics())
    if application.configs.errors_dead_letter_queue_topic_name is not None:
        names[application.configs.errors_dead_letter_queue_topic_name] = None
    return [NewTopic(name, 1) for name in names]
