"""Programs that other processes run in the tests of the embedded log. They report by printing lines."""

import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.log_errors import CommitFenced, ProducerFenced
from tests.streams_runtime.logs.processes import RunningProgram, running_program, say
from tests.streams_runtime.logs.reading_and_writing import C0, T0, T1, compact, reading, records_of


def write_transactions(directory: Path, name: str, count: int) -> None:
    """Writes `count` transactions of two records in each of two partitions, with an offset that counts the
    transactions."""
    log = EmbeddedLog(directory)
    claim = log.claim(name, [T0])
    done = log.committed_offsets(name, [T0]).get(T0, OffsetAndMetadata(0)).offset
    producer = log.producer(name)
    say("ready")
    for number in range(done, done + count):
        producer.begin_transaction()
        for partition in (T0, T1):
            producer.send(partition, name.encode(), b"%d first" % number, 0)
            producer.send(partition, name.encode(), b"%d second" % number, 0)
        producer.commit_transaction([(claim, {T0: OffsetAndMetadata(number + 1)})])
        say("committed", number)
    log.close()


def write_until_fenced(directory: Path, name: str, _: int) -> None:
    """Commits, prints a line, and waits for a line before the next transaction."""
    log = EmbeddedLog(directory)
    claim = log.claim("group", [T0])
    producer = log.producer(name)
    say("ready")
    for number, _line in enumerate(sys.stdin):
        try:
            producer.begin_transaction()
            producer.send(T0, b"zombie", b"%d" % number, 0)
            producer.commit_transaction([(claim, {T0: OffsetAndMetadata(number)})])
        except (ProducerFenced, CommitFenced) as error:
            say(type(error).__name__)
            return
        say("committed")


def hold_write_lock(directory: Path, _: str, __: int) -> None:
    log = EmbeddedLog(directory)
    with log._writer.transaction() as connection:
        connection.execute("UPDATE partitions SET end_offset=end_offset+1000")
        say("holding")
        sys.stdin.readline()


def follow(directory: Path, _: str, count: int) -> None:
    """Prints the time at which it got each record."""
    consumer = reading(EmbeddedLog(directory), T0)
    say("ready")
    given = 0
    while given < count:
        for record in records_of(consumer.poll(30_000, 100)):
            say(int(record.value or b""), time.monotonic_ns())
            given += 1


def compact_for_ever(directory: Path, topic: str, _: int) -> None:
    log = EmbeddedLog(directory)
    say("ready")
    while True:
        compact(log, topic)
        say("compacted")


def read_and_compact(directory: Path, _: str, __: int) -> None:
    """Prints how many records there were, and by how many KiB its peak memory has grown."""
    log = EmbeddedLog(directory)
    consumer = reading(log, C0)
    count = 0

    def read_all() -> None:
        nonlocal count
        while batches := consumer.poll(0, 500):
            count += sum(map(len, batches))

    read_all()
    compact(log, "changelog")
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    say("warm")
    sys.stdin.readline()
    read_all()
    compact(log, "changelog")
    say(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib)


PROGRAMS: dict[str, Callable[[Path, str, int], None]] = {
    program.__name__: program
    for program in (write_transactions, write_until_fenced, hold_write_lock, follow, compact_for_ever, read_and_compact)
}


def running(program: str, directory: Path, name: str = "", count: int = 0) -> AbstractContextManager[RunningProgram]:
    """One of the programs above."""
    return running_program(__name__, program, directory, name, count)


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
