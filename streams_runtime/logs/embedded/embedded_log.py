"""The embedded log, which is one SQLite file. Source: `Admin` and the client constructors of kafka-clients.

Rules: each directory contains one log, which has the role of one Kafka cluster. Any number of processes and threads of
the machine may open the log at the same time. After a commit has returned, it survives the SIGKILL of every process
(for a power loss see `connections`). The directory must be on a local disk, because SQLite's write-ahead log needs
shared memory between its users.
"""

import json
import os
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path

from assignor.topology.internal_topics import RETENTION_MS
from assignor.types import Offsets, TopicPartition
from operating_system.private_files import make_private_directory, open_lock, warn_if_readable_by_others
from operating_system.processes import with_advice
from streams_runtime.common.clock import Clock, SystemClock
from streams_runtime.logs.base import (
    Claim,
    CommittedOffsets,
    ConfigChanges,
    Consumer,
    IsolationLevel,
    NewTopic,
    OffsetAndMetadata,
    OffsetsToCommit,
    Producer,
    TopicDescription,
)
from streams_runtime.logs.consumers import Bounds, PollingConsumer
from streams_runtime.logs.embedded.connections import LazyConnection, SharedConnection, Synchronous, WriteLock
from streams_runtime.logs.embedded.maintenance import (
    Maintenance,
    delete_hidden_rows,
    delete_rows_of_deleted,
    delete_topics,
    move_begin,
)
from streams_runtime.logs.embedded.reads_and_writes import (
    EmbeddedSource,
    EmbeddedWriter,
    append_batches,
    bounds_of,
    check_writer,
    first_offset_since,
    move_offsets,
)
from streams_runtime.logs.embedded.record_batches import encoded
from streams_runtime.logs.embedded.schema import Catalog, prepare
from streams_runtime.logs.log_errors import LogError, check_not_beyond
from streams_runtime.logs.producers import (
    AppendSignals,
    BufferingProducer,
    NewBatches,
    ProducerIdentity,
    with_continues,
)
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.logs.topic_configs import (
    TopicConfigs,
    altered_topic,
    check_topics_exist,
    checked_topic,
    topics_to_add,
)

LOG_FILE_NAME = "log.sqlite"
LOCK_FILE_NAME = "write.lock"
DEFAULT_TIMEOUT_MS = 10_000


class EmbeddedLog:
    """A `Log` in a directory, which is created if it is missing. The object is also the `Destination` to which the
    log's producers write.

    `timeout_ms`: the longest time that a call waits for other writers, in milliseconds. `synchronous`: see
    `Synchronous`. Raises LogError, LogTimeout.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        synchronous: Synchronous = Synchronous.NORMAL,
    ) -> None:
        self._file = directory / LOG_FILE_NAME
        lock = WriteLock(directory / LOCK_FILE_NAME, timeout_ms)
        try:
            make_private_directory(directory)
            os.close(open_lock(directory / LOCK_FILE_NAME, self._file))
            self._cluster_id = prepare(self._file, lock, timeout_ms)
        except OSError as error:
            raise LogError(f"log {directory} cannot be used: {with_advice(error)}") from error
        self._timeout_ms = timeout_ms
        self._synchronous = synchronous
        warn_if_readable_by_others(self._file)
        self._writer = EmbeddedWriter(self._file, lock, timeout_ms, synchronous)
        self._reads = SharedConnection(self._file, timeout_ms, synchronous)
        self._maintenance_reads = SharedConnection(self._file, timeout_ms, synchronous)
        self._catalog = Catalog(self._reads)
        self._signals = AppendSignals()
        self._maintenance = Maintenance(self._writer, self._maintenance_reads, self._catalog, clock or SystemClock())
        self._consumers: weakref.WeakSet[PollingConsumer] = weakref.WeakSet()

    def cluster_id(self) -> str:
        return self._cluster_id

    def topic_ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Returns the ids of the topics' first partitions. `Catalog` never reuses the id of a partition."""
        firsts = [TopicPartition(topic, 0) for topic in topics]
        known = self._catalog.all()
        return {first.topic: str(known[first].id) for first in firsts if first in known}

    def create_topics(self, topics: Iterable[NewTopic]) -> None:
        asked = list(topics)
        for topic in asked:
            checked_topic(topic)
        if not topics_to_add(asked, self._catalog.topics()):
            return
        with self._writer.transaction() as connection:
            existing = {
                name: TopicDescription(name, partitions)
                for name, partitions in connection.execute("SELECT name, partitions FROM topics")
            }
            for topic in topics_to_add(asked, existing):
                connection.execute(
                    "INSERT INTO topics (name, partitions, configs) VALUES (?, ?, ?)",
                    (topic.name, topic.partitions, json.dumps(dict(topic.configs))),
                )
                connection.executemany(
                    "INSERT INTO partitions (topic, number) VALUES (?, ?)",
                    [(topic.name, number) for number in range(topic.partitions)],
                )

    def alter_topic(self, name: str, partitions: int | None, configs: ConfigChanges) -> None:
        """Other processes that have the log open use the new configs after their next `maintain`."""
        with self._writer.transaction() as connection:
            found = connection.execute("SELECT partitions, configs FROM topics WHERE name=?", (name,)).fetchone()
            check_topics_exist([name], () if found is None else (name,))
            before = TopicDescription(name, found[0], json.loads(found[1]))
            changed = altered_topic(before, partitions, configs)
            connection.execute(
                "UPDATE topics SET partitions=?, configs=? WHERE name=?",
                (changed.partitions, json.dumps(dict(changed.configs)), name),
            )
            connection.executemany(
                "INSERT INTO partitions (topic, number) VALUES (?, ?)",
                [(name, number) for number in range(before.partitions, changed.partitions)],
            )
        self._catalog.forget()

    def delete_topics(self, names: Iterable[str]) -> None:
        asked = list(dict.fromkeys(names))
        with self._writer.transaction() as connection:
            there = {name for (name,) in connection.execute("SELECT name FROM topics")}
            check_topics_exist(asked, there)
            delete_topics(connection, asked)
        self._catalog.forget()
        while delete_rows_of_deleted(self._writer, self._reads):
            pass

    def topics(self) -> Mapping[str, TopicDescription]:
        return self._catalog.topics()

    def partitions_of(self, topic: str) -> int:
        found = self.topics().get(topic)
        return 0 if found is None else found.partitions

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {partition: bounds.begin for partition, bounds in self._bounds(partitions).items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Offsets:
        """Returns the end offsets. The log never contains an open transaction, so the last stable offset is the end
        offset.
        """
        return {partition: bounds.end for partition, bounds in self._bounds(partitions).items()}

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        asked = list(partitions)
        begins = self.begin_offsets(asked)
        found: dict[TopicPartition, int] = {}
        for partition, known in self._catalog.find(asked).items():
            with self._reads.use() as connection:
                offset = first_offset_since(connection, partition, known, begins[partition], timestamp_ms)
            if offset is not None:
                found[partition] = offset
        return found

    def committed_offsets(self, group_id: str, partitions: Iterable[TopicPartition] | None) -> CommittedOffsets:
        select = (
            "SELECT topic, number, committed_offset, metadata FROM group_offsets"
            " WHERE group_id=? AND committed_offset IS NOT NULL"
        )
        with self._reads.use() as connection:
            if partitions is None:
                rows = connection.execute(select, (group_id,)).fetchall()
            else:
                one = f"{select} AND topic=? AND number=?"
                rows = [row for each in partitions for row in connection.execute(one, (group_id, *each))]
        return {TopicPartition(topic, number): OffsetAndMetadata(*offset) for topic, number, *offset in rows}

    def claim(self, group_id: str, partitions: Iterable[TopicPartition], owner: str | None = None) -> Claim:
        epochs = {}
        asked = list(partitions)
        if not asked:
            return Claim(group_id, {})
        with self._writer.transaction() as connection:
            for partition in asked:
                connection.execute(
                    "INSERT INTO group_offsets (group_id, topic, number, claim_epoch) VALUES (?, ?, ?, 1)"
                    " ON CONFLICT (group_id, topic, number) DO UPDATE SET claim_epoch=claim_epoch+1",
                    (group_id, *partition),
                )
                epochs[partition] = connection.execute(
                    "SELECT claim_epoch FROM group_offsets WHERE group_id=? AND topic=? AND number=?",
                    (group_id, *partition),
                ).fetchone()[0]
        return Claim(group_id, epochs)

    def release(self, *claims: Claim) -> None:
        """Does nothing, because the log never contains an open transaction."""

    def consumer(
        self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED, *, whole_transactions: bool = False
    ) -> Consumer:
        source = EmbeddedSource(LazyConnection(self._file, self._timeout_ms, self._synchronous), self._catalog)
        consumer = PollingConsumer(source, self._signals.new_event(), whole_transactions=whole_transactions)
        self._consumers.add(consumer)
        return consumer

    def producer(self, transactional_id: str | None = None) -> Producer:
        if transactional_id is None:
            return BufferingProducer(self, None)
        with self._writer.transaction() as connection:
            connection.execute(
                "INSERT INTO producers (transactional_id, epoch) VALUES (?, 0)"
                " ON CONFLICT (transactional_id) DO UPDATE SET epoch=epoch+1",
                (transactional_id,),
            )
            epoch = connection.execute(
                "SELECT epoch FROM producers WHERE transactional_id=?", (transactional_id,)
            ).fetchone()[0]
        return BufferingProducer(self, ProducerIdentity(transactional_id, epoch))

    def deletes_after_ms(self, topic: str) -> int | None:
        partition = TopicPartition(topic, 0)
        configs = self._catalog.find([partition])[partition].configs
        return None if configs.deletes_by_stream_time else configs.deletes_after_ms

    def keep_windows(self, topic: str, retention_ms: int) -> None:
        partition = TopicPartition(topic, 0)
        if self._catalog.find([partition])[partition].configs.keeps_windows(retention_ms):
            return
        with self._writer.transaction() as connection:
            row = connection.execute("SELECT configs FROM topics WHERE name=?", (topic,)).fetchone()
            configs = {} if row is None else json.loads(row[0])
            # the retention is read again inside the transaction, because another process may have raised the retention
            # meanwhile
            if not TopicConfigs.of(topic, configs).keeps_windows(retention_ms):
                raised = json.dumps({**configs, RETENTION_MS: str(retention_ms)})
                connection.execute("UPDATE topics SET configs=? WHERE name=?", (raised, topic))
        self._catalog.forget()

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """If an offset is beyond the end of its partition, raises OffsetOutOfRange and deletes no record."""
        if not before:
            return
        self._bounds(before)  # refreshes the catalog if a topic was deleted and created again
        known = self._catalog.find(before)
        with self._writer.transaction() as connection:
            check_not_beyond(before, {p: bounds.end for p, bounds in bounds_of(connection, known).items()})
            for partition, offset in before.items():
                move_begin(connection, known[partition].id, offset)
                delete_hidden_rows(connection, known[partition].id)

    def maintain(self) -> None:
        self._maintenance.maintain()

    def close(self) -> None:
        """Close the log and its consumers. No other call may run during `close`."""
        for consumer in list(self._consumers):
            consumer.close()
        self._writer.close()
        self._reads.close()
        self._maintenance_reads.close()

    # --- Methods that the log's producers call.

    def limits_of(self, partition: TopicPartition) -> RecordLimits:
        return self._catalog.find([partition])[partition].configs.record_limits

    def append(self, batches: NewBatches, offsets: OffsetsToCommit, identity: ProducerIdentity | None) -> Offsets:
        as_bytes = {  # batches are encoded before the transaction, because other writers wait for the transaction
            partition: [
                encoded(batch.timestamps_ms, batch.keys, batch.values, batch.headers, continues=continues)
                for batch, continues in of_it
            ]
            for partition, of_it in with_continues(batches, identity).items()
        }

        def write() -> Offsets:
            known = self._catalog.find(as_bytes)
            with self._writer.transaction() as connection:
                check_writer(connection, offsets, identity)
                written = {
                    partition: append_batches(connection, partition, known[partition].id, of_it)
                    for partition, of_it in as_bytes.items()
                }
                move_offsets(connection, offsets)
            return written

        last_offsets = self._catalog.current(write)
        if last_offsets:
            self._signals.appended()
        return last_offsets

    def _bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        asked = list(partitions)

        def look_up() -> dict[TopicPartition, Bounds]:
            known = self._catalog.find(asked)
            with self._reads.use() as connection:
                return bounds_of(connection, known)

        return self._catalog.current(look_up)
