"""Rows sent as columns are the records that `send` would have written, in the same order between others."""

import pytest

from assignor.types import TopicPartition
from streams_runtime.common.records import Headers
from streams_runtime.logs.base import Log, NewTopic, Producer, RawColumns
from tests.streams_runtime.logs.reading_and_writing import NOW_MS, T0, read_from

ONE_BY_ONE, AS_COLUMNS = TopicPartition("one-by-one", 0), TopicPartition("as-columns", 0)
Row = tuple[bytes | None, bytes | None]


def send(producer: Producer, rows: list[Row], headers: list[Headers] | None = None) -> None:
    for at, (key, value) in enumerate(rows):
        producer.send(ONE_BY_ONE, key, value, NOW_MS + at, headers[at] if headers else ())
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    producer.send_columns(AS_COLUMNS, RawColumns(keys, values, [NOW_MS + at for at in range(len(rows))], headers))


@pytest.mark.parametrize("transactional_id", [None, "columns"])
def test_should_write_the_same_records(log: Log, transactional_id: str | None) -> None:
    log.create_topics([NewTopic(ONE_BY_ONE.topic, 1), NewTopic(AS_COLUMNS.topic, 1)])
    producer = log.producer(transactional_id)
    if transactional_id is not None:
        producer.begin_transaction()
    few: list[Row] = [(b"k", b"v"), (None, b"no key"), (b"no value", None), (b"", b"")]
    large: list[Row] = [(b"%d" % number, bytes(100_000)) for number in range(8)]
    many: list[Row] = [(b"%d" % number, b"x") for number in range(10_000)]
    huge: list[Row] = [(b"huge", bytes(500_000))]
    for rows in (few, large, huge, many, few):
        send(producer, rows)
        send(producer, rows, [(("v", bytes(at % 3)),) if at % 3 else () for at in range(len(rows))])
        for partition in (ONE_BY_ONE, AS_COLUMNS):  # another record between columns, of another kind
            producer.send(partition, b"between", b"them", NOW_MS, (("name", b"value"),))
    if transactional_id is not None:
        producer.commit_transaction()
    producer.close()
    written = read_from(log, AS_COLUMNS)
    assert len(written) == 20_039
    assert written == read_from(log, ONE_BY_ONE)


def test_should_say_what_a_topic_takes(log: Log) -> None:
    producer = log.producer()
    assert producer.limits_of(T0).max_bytes > 500_000
    assert not producer.limits_of(T0).compacts
    producer.close()
