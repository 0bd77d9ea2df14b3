"""Restores a table from its source topic. A restore applies the same records that the table has applied. The table
skips three kinds of records of the source topic. If the serdes cannot read a record, and the handler drops it, the
table skips the record. The table skips a record that the timestamp extractor drops. The table skips a record with a key
that is deserialized to None. If the value of a record is deserialized to None, the record deletes the key. A restore
ends at the group's committed offset, so all restored records were processed before. If the restore cannot read a
record, the table has skipped this record, too. So the restore calls no handler, counts no dropped record, and sends
nothing to the dead-letter topic.

A restore deserializes each record, and serializes its key and value again with the serdes of the store. Records are
serialized again because a key may have different bytes in the topic and in the store. A timestamp extractor gets the
highest timestamp of the restored records as the partition time, or -1 before the first record. Source: `KTableSource`,
`RecordQueue`.
Differs from Kafka: in Kafka a restore copies the bytes of the topic (KAFKA-8037), so bad records replace good records.
As in Kafka, a restore begins at the beginning of the topic, even if the table began at the end of the topic
(`auto.offset.reset=latest`).
"""

import logging
from collections.abc import Callable

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import SchemaRegistryUnavailable
from streams_runtime.common.losses import counted_before
from streams_runtime.logs.base import RecordBatch
from streams_runtime.processors.api import FailedRecord
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.processors.nodes import SourceRunner
from streams_runtime.state_stores.key_value import TimestampedKeyValueStore
from streams_runtime.state_stores.state_store import StateStore
from streams_runtime.tasks.exception_handling import described
from streams_runtime.tasks.record_queue import RecordQueue

RecordConverter = Callable[[RecordBatch], RecordBatch | None]
"""Converts a batch of a table's source topic to the records that the table has put into its store. The keys and values
of the result have the same bytes as in the store. The result is None if the table has put no record of the batch into
its store. A converter has to be called with the batches of a partition in order of offsets. Raises
SchemaRegistryUnavailable.
Source: `RecordConverter`.
"""

_logger = logging.getLogger(__name__)


class SourceChangelog:
    """The `RecordConverter` of one partition. `source`: the node that reads the topic. `store`: the table's store."""

    def __init__(self, task_id: TaskId, partition: TopicPartition, source: SourceRunner, store: StateStore) -> None:
        self._queue = RecordQueue(task_id, partition, source, self._left_out, counted_before(task_id))
        # If the store is not a `TimestampedKeyValueStore`, a processor of the user fills it. The runtime then
        # assumes that the store has the same bytes as the topic.
        self._store = store if isinstance(store, TimestampedKeyValueStore) else None
        self._next_offset = 0

    def __call__(self, batch: RecordBatch) -> RecordBatch | None:
        queue = self._queue
        # a batch with lower offsets means that the store is restored again from the beginning
        if batch.offsets[0] < self._next_offset:
            queue.clear()
        partition_time_ms = queue.partition_time_ms
        queue.add(batch)
        offsets: list[int] = []
        timestamps_ms: list[int] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        first = batch.offsets[0]
        try:
            while (record := queue.poll()) is not None:
                key, value, timestamp_ms, _ = record
                if key is None:
                    continue
                place = queue.polled_place
                try:
                    written = self._written(key, value, batch, place)
                except Exception as error:
                    self._left_out(queue.failed(place, queue.source.name, error))
                    continue
                offsets.append(batch.offsets[place])
                timestamps_ms.append(timestamp_ms)
                keys.append(written[0])
                values.append(written[1])
        except BaseException:
            queue.clear()
            # the partition time is set back, because the caller may pass the same batch again
            queue.partition_time_ms = partition_time_ms
            raise
        self._next_offset = batch.offsets[-1] + 1
        left_out = len(batch) - len(keys)
        if left_out:
            _logger.info(
                "%d of the records from offset %d on of %s are not restored, since the table left them out",
                left_out,
                first,
                batch.partition,
            )
        return RecordBatch(batch.partition, offsets, timestamps_ms, keys, values) if keys else None

    def _written(self, key: object, value: object, batch: RecordBatch, place: int) -> tuple[bytes | None, bytes | None]:
        store = self._store
        if store is None:
            return batch.keys[place], batch.values[place]
        return store.key_serde.serialize(key), None if value is None else store.value_serde.serialize(value)

    def _left_out(self, record: FailedRecord) -> None:
        if isinstance(record.error, SchemaRegistryUnavailable):
            raise record.error
        _logger.debug("%s; the record is not restored", described(record))


def source_changelogs(task: TaskId, graph: ProcessorGraph) -> dict[TopicPartition, RecordConverter]:
    """Returns a converter for each changelog of a task that is also a source topic."""
    stores = {store.name: store for store in graph.stores}
    partitions = {store: TopicPartition(topic, task.partition) for store, topic in graph.source_changelogs.items()}
    return {
        partition: SourceChangelog(task, partition, graph.sources[partition.topic], stores[store])
        for store, partition in partitions.items()
    }
