"""The topics of a topology under test. A test writes records to input topics and reads records from output topics.

Source: `TestInputTopic`, `TestOutputTopic`, `TestRecord` (KIP-470).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from assignor.types import TopicPartition
from streams_runtime.common.errors import SerdeMismatch, StreamsRuntimeError
from streams_runtime.common.records import Headers, K, Record, V
from streams_runtime.logs.base import Consumer
from streams_runtime.serdes import Serde, serde_for_topic
from streams_runtime.tasks.exception_handling import WRONG_TYPE

Row = tuple[bytes | None, bytes | None, int, Headers]
"""The type of a record: a tuple of key, value, timestamp in milliseconds and headers."""

Pipe = Callable[[str, Sequence[Row]], None]
"""The type of a function that writes all new records to a topic, and then processes these records.
"""

_POLL_RECORDS = 1_000


@dataclass(eq=False, repr=False)
class InputTopic(Generic[K, V]):
    """Writes records to a topic of the topology. `TopologyTestDriver.create_input_topic` returns an `InputTopic`."""

    _pipe: Pipe
    name: str
    _key_serde: Serde[K]
    _value_serde: Serde[V]
    _next_timestamp_ms: int
    _auto_advance_ms: int

    def __post_init__(self) -> None:
        if self._next_timestamp_ms < 0 or self._auto_advance_ms < 0:
            raise StreamsRuntimeError(
                f"topic {self.name}: neither start ({self._next_timestamp_ms} ms) nor advance "
                f"({self._auto_advance_ms} ms) of its timestamps may be negative"
            )
        self._key_serde = serde_for_topic(self._key_serde, self.name, is_key=True)
        self._value_serde = serde_for_topic(self._value_serde, self.name, is_key=False)

    def pipe_input(
        self, key: K | None, value: V | None, timestamp_ms: int | None = None, headers: Headers = ()
    ) -> None:
        """Writes a record. Returns when the record and all records that result from it are processed. Raises
        SerdeMismatch if a serde cannot serialize the key or the value.

        `timestamp_ms`: the record's timestamp; None for the next automatic timestamp. If processing fails, raises the
        error with which a stream thread would end.
        """
        self._pipe(self.name, [self._row(key, value, timestamp_ms, headers)])

    def pipe_key_values(self, pairs: Iterable[tuple[K | None, V | None]], *, together: bool = False) -> None:
        """Writes several records. Each record is processed before the next record is written.

        `together`: True to write all records before the first one is processed. If `together` is True, nodes that
        process batches get all records as one batch. As in a stream thread, the task commits only after the last
        record, so a record cache merges more changes. If no node processes batches, stream-time punctuators are also
        called only after the last record.
        """
        self._pipe_each((self._row(key, value, None, ()) for key, value in pairs), together)

    def pipe_records(self, records: Iterable[Record[K | None, V | None]], *, together: bool = False) -> None:
        """Writes records with their own timestamps and headers. The argument `together` is as in `pipe_key_values`."""
        self._pipe_each((self._row(*record) for record in records), together)

    def _pipe_each(self, rows: Iterator[Row], together: bool) -> None:
        if together:
            self._pipe(self.name, list(rows))
            return
        for row in rows:
            self._pipe(self.name, [row])

    def _row(self, key: K | None, value: V | None, timestamp_ms: int | None, headers: Headers) -> Row:
        if timestamp_ms is None:
            timestamp_ms = self._next_timestamp_ms
            self._next_timestamp_ms += self._auto_advance_ms
        if timestamp_ms < 0:
            raise StreamsRuntimeError(f"topic {self.name}: the timestamp {timestamp_ms} of a record is negative")
        key_serde, value_serde = self._key_serde, self._value_serde
        try:
            written_key = None if key is None else key_serde.serialize(key)
            return written_key, None if value is None else value_serde.serialize(value), timestamp_ms, headers
        except WRONG_TYPE as error:
            raise SerdeMismatch(f"topic {self.name}", key_serde, value_serde, key, value, error) from error

    def advance_time(self, by_ms: int) -> None:
        """Advances the automatic timestamp of the next record. Does not advance the driver's clock."""
        if by_ms < 0:
            raise StreamsRuntimeError(f"topic {self.name}: time does not go back, by {by_ms} ms")
        self._next_timestamp_ms += by_ms


class OutputTopic(Generic[K, V]):
    """Reads each record of a topic once. `TopologyTestDriver.create_output_topic` returns an `OutputTopic`.

    Each `OutputTopic` has its own position in the topic.
    """

    def __init__(self, consumer: Consumer, name: str, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self.name = name
        self._consumer = consumer
        self._key_serde = serde_for_topic(key_serde, name, is_key=True)
        self._value_serde = serde_for_topic(value_serde, name, is_key=False)
        self._fetched: deque[tuple[bytes | None, bytes | None, int, Headers]] = deque()
        partition = TopicPartition(name, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)

    def read_record(self) -> Record[K | None, V | None]:
        """Reads the next record. Raises StreamsRuntimeError if no record is left."""
        self._fetch()
        if not self._fetched:
            raise StreamsRuntimeError(f"topic {self.name} has no more records")
        return self._record(*self._fetched.popleft())

    def read_all(self) -> list[Record[K | None, V | None]]:
        self._fetch()
        records = [self._record(*each) for each in self._fetched]
        self._fetched.clear()
        return records

    def read_key_value(self) -> tuple[K | None, V | None]:
        record = self.read_record()
        return record.key, record.value

    def read_key_values(self) -> list[tuple[K | None, V | None]]:
        return [(record.key, record.value) for record in self.read_all()]

    def read_value(self) -> V | None:
        return self.read_record().value

    def read_values(self) -> list[V | None]:
        return [record.value for record in self.read_all()]

    def read_key_values_to_map(self) -> dict[K | None, V | None]:
        """Reads all unread records. Returns the last value of each key, which is None for a deleted key."""
        return dict(self.read_key_values())

    def is_empty(self) -> bool:
        return self.size() == 0

    def size(self) -> int:
        """Returns the number of unread records."""
        self._fetch()
        return len(self._fetched)

    def _fetch(self) -> None:
        while batches := self._consumer.poll(0, _POLL_RECORDS):
            for batch in batches:
                headers = [()] * len(batch) if batch.headers is None else batch.headers
                self._fetched.extend(zip(batch.keys, batch.values, batch.timestamps_ms, headers, strict=True))

    def _record(
        self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers
    ) -> Record[K | None, V | None]:
        return Record(
            None if key is None else self._key_serde.deserialize(key),
            None if value is None else self._value_serde.deserialize(value),
            timestamp_ms,
            headers,
        )
