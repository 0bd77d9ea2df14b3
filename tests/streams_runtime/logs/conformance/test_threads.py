"""Many threads on one log: nothing is lost, torn or given twice."""

from concurrent.futures import ThreadPoolExecutor

from streams_runtime.logs.base import Log, OffsetAndMetadata
from tests.streams_runtime.logs.reading_and_writing import T0, T1, Read, read_from, reading, records_of


def test_should_keep_each_transaction_together_when_threads_write_at_the_same_time(log: Log) -> None:
    def write_transactions(thread: int) -> None:
        producer = log.producer(f"id-{thread}")
        claim = log.claim(f"group-{thread}", [T0])
        for number in range(20):
            producer.begin_transaction()
            for partition in (T0, T1):
                for _ in range(3):
                    producer.send(partition, b"%d" % thread, b"%d" % number, 0)
            producer.commit_transaction([(claim, {T0: OffsetAndMetadata(number + 1)})])

    def follow() -> list[Read]:
        consumer = reading(log, T0)
        records: list[Read] = []
        while len(records) < 4 * 60:
            records += records_of(consumer.poll(10_000, 7))
        return records

    with ThreadPoolExecutor(5) as threads:
        following = threads.submit(follow)
        for done in [threads.submit(write_transactions, thread) for thread in range(4)]:
            done.result()
        followed = following.result()
    for partition in (T0, T1):
        records = read_from(log, partition)
        assert len(records) == 240
        assert [record.offset for record in records] == sorted({record.offset for record in records})
        for start in range(0, 240, 3):
            assert len({(record.key, record.value) for record in records[start : start + 3]}) == 1
        for thread in range(4):
            of_thread = [int(record.value or b"") for record in records if record.key == b"%d" % thread]
            assert of_thread == [number for number in range(20) for _ in range(3)]
    assert followed == read_from(log, T0)
    for thread in range(4):
        assert log.committed_offsets(f"group-{thread}", [T0]) == {T0: OffsetAndMetadata(20)}


def test_should_let_exactly_one_of_many_claims_commit(log: Log) -> None:
    with ThreadPoolExecutor(4) as threads:
        claims = list(threads.map(lambda _: log.claim("group", [T0, T1]), range(16)))
    assert sorted(claim.epochs[T0] for claim in claims) == list(range(1, 17))
    assert all(claim.epochs[T0] == claim.epochs[T1] for claim in claims)
