"""Several processes on one directory: SIGKILL at any moment, fencing, waking up, waiting for the writer."""

import random
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.log_errors import LogTimeout
from tests.streams_runtime.logs.embedded.programs import running
from tests.streams_runtime.logs.processes import RunningProgram
from tests.streams_runtime.logs.reading_and_writing import C0, T0, T1, compact, read_from, values_of, write, write_pairs


def check_transactions(log: EmbeddedLog, names: list[str]) -> None:
    """In each partition the transactions of every writer are whole, in order, and as many as its offset counts."""
    for partition in (T0, T1):
        records = read_from(log, partition)
        assert [record.offset for record in records] == list(range(len(records)))
        for name in names:
            done = log.committed_offsets(name, [T0]).get(T0, OffsetAndMetadata(0)).offset
            assert [record.value for record in records if record.key == name.encode()] == [
                b"%d %s" % (number, which) for number in range(done) for which in (b"first", b"second")
            ]
        assert len(records) % 2 == 0
        assert all(records[at].key == records[at + 1].key for at in range(0, len(records), 2))


def test_should_have_all_or_nothing_of_a_transaction_when_its_process_is_killed_in_the_middle_of_commits(
    log: EmbeddedLog, directory: Path
) -> None:
    chance = random.Random(4)
    for _ in range(3):
        with (
            running("write_transactions", directory, "one", 100_000) as first,
            running("write_transactions", directory, "two", 100_000) as second,
        ):
            assert (first.line(), second.line()) == ("ready", "ready")
            for process in (first, second):
                for _ in range(chance.randint(1, 12)):
                    process.line()
                time.sleep(chance.random() / 500)  # anywhere within a commit
                process.signal(signal.SIGKILL)
            said = [[int(line.split()[1]) for line in process.rest()] for process in (first, second)]
        check_transactions(log, ["one", "two"])
        for name, numbers in zip(("one", "two"), said, strict=True):
            done = log.committed_offsets(name, [T0]).get(T0, OffsetAndMetadata(0)).offset
            assert all(number < done for number in numbers), "a commit that returned is lost"
    with sqlite3.connect(directory / "log.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


@pytest.mark.parametrize(("name", "error"), [("id", "ProducerFenced"), ("another", "CommitFenced")])
def test_should_fence_a_zombie_in_another_process(log: EmbeddedLog, directory: Path, name: str, error: str) -> None:
    with running("write_until_fenced", directory, name) as zombie:
        assert zombie.line() == "ready"
        zombie.go_on()
        assert zombie.line() == "committed"
        if error == "ProducerFenced":
            log.producer("id")
        else:
            log.claim("group", [T0])
        zombie.go_on()
        assert zombie.line() == error
    assert values_of(log, T0) == [(0, b"0")]
    assert log.committed_offsets("group", [T0]) == {T0: OffsetAndMetadata(0)}


def test_should_see_records_of_another_process_within_milliseconds(log: EmbeddedLog, directory: Path) -> None:
    count = 20
    with running("follow", directory, count=count) as follower:
        assert follower.line() == "ready"
        written = {}
        given = {}
        for number in range(count):
            write(log, T0, b"%d" % number)
            written[number] = time.monotonic_ns()
            value, at_ns = follower.line().split()
            given[int(value)] = int(at_ns)
    delays_ms = sorted((given[number] - written[number]) / 1_000_000 for number in range(count))
    assert delays_ms[count // 2] < 100, delays_ms


def test_should_time_out_while_another_process_writes_and_then_go_on(log: EmbeddedLog, directory: Path) -> None:
    impatient = EmbeddedLog(directory, timeout_ms=100)
    write(impatient, T0, b"before")
    with running("hold_write_lock", directory) as holder, ThreadPoolExecutor(1) as thread:
        assert holder.line() == "holding"
        producer = impatient.producer()
        producer.send(T0, b"k", b"waited", 0)
        with pytest.raises(LogTimeout, match="was busy with other writers for 100 ms"):
            producer.flush()
        with pytest.raises(LogTimeout):
            impatient.claim("group", [T0])
        assert impatient.end_offsets([T0]) == {T0: 1}  # readers never wait
        assert values_of(impatient, T0) == [(0, b"before")]
        patient = thread.submit(write, log, T0, b"patient")
        holder.kill()
        patient.result(timeout=10)
        producer.flush()
    assert values_of(log, T0) == [(0, b"before"), (1, b"patient"), (2, b"waited")]
    impatient.close()


def test_should_commit_a_transaction_that_timed_out_when_it_is_tried_again(log: EmbeddedLog, directory: Path) -> None:
    impatient = EmbeddedLog(directory, timeout_ms=100)
    producer = impatient.producer("id")
    producer.begin_transaction()
    producer.send(T0, b"k", b"once", 0)
    with running("hold_write_lock", directory) as holder:
        assert holder.line() == "holding"
        with pytest.raises(LogTimeout):
            producer.commit_transaction()
    producer.commit_transaction()
    assert values_of(log, T0) == [(0, b"once")]
    impatient.close()


def test_should_lose_nothing_when_a_process_is_killed_while_it_compacts(log: EmbeddedLog, directory: Path) -> None:
    chance = random.Random(5)
    expected: dict[bytes, bytes] = {}
    for _ in range(3):
        for _ in range(30):
            pairs = [(b"%d" % chance.randint(0, 300), chance.randbytes(chance.randint(0, 300))) for _ in range(100)]
            write_pairs(log, C0, *pairs)
            expected.update(pairs)
        end = log.end_offsets([C0])
        with running("compact_for_ever", directory, "changelog") as compactor:
            assert compactor.line() == "ready"
            time.sleep(chance.random() / 50)
        records = read_from(log, C0)
        assert {record.key: record.value for record in records} == expected
        assert log.end_offsets([C0]) == end
    compact(log, "changelog")
    compact(log, "changelog")
    assert {record.key: record.value for record in read_from(log, C0)} == expected
    assert len(read_from(log, C0)) < 500


def test_should_compact_while_other_processes_write(log: EmbeddedLog, directory: Path) -> None:
    both: list[RunningProgram] = []
    with ExitStack() as stack:
        both += [stack.enter_context(running("compact_for_ever", directory, "changelog")) for _ in range(2)]
        for compactor in both:
            assert compactor.line() == "ready"
        for number in range(100):
            write_pairs(log, C0, *[(b"%d" % key, b"%d" % number) for key in range(50)])
        for compactor in both:
            assert compactor.line() == "compacted"
    assert {record.key: record.value for record in read_from(log, C0)} == {b"%d" % key: b"99" for key in range(50)}
    assert log.end_offsets([C0]) == {C0: 5_000}


def test_should_create_the_file_once_when_processes_open_it_at_the_same_time(directory: Path) -> None:
    with ExitStack() as stack:
        names = ["one", "two", "three"]
        processes = [stack.enter_context(running("follow", directory, name)) for name in names]
        assert [process.line() for process in processes] == ["ready"] * 3
    log = EmbeddedLog(directory)
    assert log.topics() == {}
    assert log.committed_offsets("group", [TopicPartition("topic", 0)]) == {}
    log.close()
