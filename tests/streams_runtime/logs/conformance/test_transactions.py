"""Transactions: several partitions and consumer offsets, all or nothing; a replaced producer cannot commit."""

from collections.abc import Callable

import pytest

from streams_runtime.logs.base import IsolationLevel, Log, OffsetAndMetadata, Producer
from streams_runtime.logs.log_errors import LogError, ProducerFenced
from tests.streams_runtime.logs.reading_and_writing import T0, T1, offsets, read_from, values_of, write


def test_should_show_records_of_several_partitions_and_offsets_together_at_commit(log: Log) -> None:
    claim = log.claim("group", [T0])
    producer = log.producer("id")
    producer.begin_transaction()
    producer.send(T0, b"k", b"1", 0)
    producer.send(T1, b"k", b"2", 0)
    producer.flush()
    assert log.end_offsets([T0, T1]) == {T0: 0, T1: 0}
    assert log.committed_offsets("group", [T0]) == {}
    assert producer.last_offsets() == {}
    producer.commit_transaction(offsets(claim, T0, 7, "text"))
    assert values_of(log, T0) == [(0, b"1")]
    assert values_of(log, T1) == [(0, b"2")]
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(7, "text")}
    assert producer.last_offsets() == {T0: 0, T1: 0}


@pytest.mark.parametrize("isolation", list(IsolationLevel))
def test_should_never_show_records_of_an_aborted_transaction(log: Log, isolation: IsolationLevel) -> None:
    producer = log.producer("id")
    producer.begin_transaction()
    for _ in range(10):
        producer.send(T0, b"k", bytes(100_000), 0)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(T0, b"k", b"after", 0)
    producer.commit_transaction()
    assert [record.value for record in read_from(log, T0, 0, IsolationLevel.READ_COMMITTED)] == [b"after"]
    # READ_UNCOMMITTED may see what was aborted: a log in which it never was written shows nothing either
    assert [record.value for record in read_from(log, T0, 0, isolation)][-1] == b"after"
    assert producer.last_offsets() == {T0: read_from(log, T0)[-1].offset}


def test_should_have_the_last_stable_offset_as_end_while_a_transaction_is_open(log: Log) -> None:
    write(log, T0, b"before")
    producer = log.producer("id")
    producer.begin_transaction()
    producer.send(T0, b"k", b"open", 0)
    producer.flush()
    write(log, T1, b"other partition")
    assert log.end_offsets([T0, T1], IsolationLevel.READ_COMMITTED) == {T0: 1, T1: 1}
    assert values_of(log, T0) == [(0, b"before")]
    producer.abort_transaction()


def test_should_abort_an_open_transaction_at_close(log: Log) -> None:
    producer = log.producer("id")
    producer.begin_transaction()
    producer.send(T0, b"k", b"open", 0)
    producer.close()
    assert read_from(log, T0) == []


def test_should_fence_the_producer_that_had_the_transactional_id_before(log: Log) -> None:
    claim = log.claim("group", [T0])
    zombie = log.producer("id")
    zombie.begin_transaction()
    zombie.send(T0, b"k", b"zombie", 0)
    other = log.producer("another id")
    heir = log.producer("id")
    with pytest.raises(ProducerFenced, match=r"producer id of epoch 0 was replaced by (epoch 1|a newer one)"):
        zombie.commit_transaction(offsets(claim, T0, 1))
    assert read_from(log, T0) == []
    assert log.committed_offsets("group", [T0]) == {}
    for producer in (heir, other):
        producer.begin_transaction()
        producer.send(T0, b"k", b"alive", 0)
        producer.commit_transaction()
    assert [value for _, value in values_of(log, T0)] == [b"alive", b"alive"]


@pytest.mark.parametrize(
    "use",
    [
        lambda producer: producer.send(T0, b"k", b"v", 0),
        lambda producer: producer.commit_transaction(),
        lambda producer: producer.flush(),
        lambda producer: producer.begin_transaction(),
    ],
    ids=["send", "commit", "flush", "begin"],
)
def test_should_refuse_everything_but_abort_and_close_once_fenced(log: Log, use: Callable[[Producer], None]) -> None:
    zombie = log.producer("id")
    zombie.begin_transaction()
    zombie.send(T0, b"k", b"zombie", 0)
    log.producer("id")
    with pytest.raises(ProducerFenced):
        zombie.commit_transaction()
    with pytest.raises(ProducerFenced):
        use(zombie)
    zombie.abort_transaction()
    with pytest.raises(ProducerFenced):
        zombie.begin_transaction()
    zombie.close()
    assert read_from(log, T0) == []


def test_should_refuse_what_is_out_of_turn(log: Log) -> None:
    producer = log.producer("id")
    with pytest.raises(LogError, match="no transaction has begun"):
        producer.send(T0, b"k", b"v", 0)
    with pytest.raises(LogError, match="no transaction has begun"):
        producer.commit_transaction()
    with pytest.raises(LogError, match="no transaction has begun"):
        producer.abort_transaction()
    producer.begin_transaction()
    with pytest.raises(LogError, match="transaction of id has begun already"):
        producer.begin_transaction()
    with pytest.raises(LogError, match="id is transactional: offsets go with commit_transaction"):
        producer.commit_offsets(())
    producer.commit_transaction()  # an empty one
    producer.begin_transaction()
    producer.close()
    with pytest.raises(LogError, match="the producer is closed"):
        producer.begin_transaction()
