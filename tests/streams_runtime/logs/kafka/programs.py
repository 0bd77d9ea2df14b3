"""Programs that other processes run in the tests of the log on Kafka. They report by printing lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assignor.types import TopicPartition
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.kafka.producer import KafkaProducer
from streams_runtime.logs.log_errors import CommitFenced, LogError, ProducerFenced


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # one write: a line is there as a whole or not at all
    sys.stdout.flush()


def hold_a_transaction_open(log: KafkaLog, name: str, _: int) -> None:
    """Commits one transaction, sends records and an offset of the next, and waits."""
    partition, producer = TopicPartition(name, 0), log.producer(f"{name}-owner")
    claim = log.claim(name, [partition], f"{name}-owner")
    for number in range(2):
        producer.begin_transaction()
        producer.send(partition, b"k", b"%d" % number, 0)
        if number == 0:
            producer.commit_transaction([(claim, {partition: OffsetAndMetadata(1)})])
    assert isinstance(producer, KafkaProducer)
    moved = {name: {partition: OffsetAndMetadata(2)}}
    log._loop.run(producer._add_offsets(moved))
    producer.flush()
    say("open")
    sys.stdin.readline()


def stop_before_the_end(log: KafkaLog, name: str, released: int) -> None:
    """Stops its own process between reading the claims and ending the transaction."""
    partition, producer = TopicPartition(name, 0), log.producer(f"{name}-owner")
    assert isinstance(producer, KafkaProducer)
    claim = log.claim(name, [partition], f"{name}-owner")
    if released:
        log.release(claim)
    end = producer.transactions.end

    async def stopped_end(*, commit: bool) -> None:
        if commit:
            say("checked")
            # to this thread: one sent to the process may be taken by another, while this one goes on for a moment
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        await end(commit=commit)

    producer.transactions.end = stopped_end  # type: ignore[method-assign]
    producer.begin_transaction()
    producer.send(partition, b"k", b"zombie", 0)
    try:
        producer.commit_transaction([(claim, {partition: OffsetAndMetadata(7)})])
    except LogError as error:
        say(type(error).__name__)
    else:
        say("committed")


def count_up(log: KafkaLog, name: str, count: int) -> None:
    """Claims again before every transaction, and writes the next number. Prints each number that it has committed."""
    partition, mine = TopicPartition(name, 0), f"{name}-{os.getpid()}"
    producer = log.producer(mine)
    say("ready")
    sys.stdin.readline()
    done = 0
    while done < count:
        try:
            claim = log.claim(name, [partition], mine)
            number = log.committed_offsets(name, [partition]).get(partition, OffsetAndMetadata(0)).offset
            producer.begin_transaction()
            producer.send(partition, b"k", b"%d" % number, 0)
            producer.commit_transaction([(claim, {partition: OffsetAndMetadata(number + 1)})])
        except (CommitFenced, ProducerFenced):
            producer.close()
            producer = log.producer(mine)
        else:
            done += 1
            say(number)


PROGRAMS: dict[str, Callable[[KafkaLog, str, int], None]] = {
    program.__name__: program for program in (hold_a_transaction_open, stop_before_the_end, count_up)
}


class Running:
    """One of the programs above, in its own process."""

    def __init__(self, program: str, servers: str, name: str, number: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, program, servers, name, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.read().splitlines()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(program: str, servers: str, name: str, number: int = 0) -> Iterator[Running]:
    """Kills the program at the end if it is still running."""
    started = Running(program, servers, name, number)
    try:
        yield started
    finally:
        started.kill()
        for stream in (started.process.stdin, started.process.stdout):
            assert stream is not None
            stream.close()


if __name__ == "__main__":
    log = KafkaLog(sys.argv[2])
    PROGRAMS[sys.argv[1]](log, sys.argv[3], int(sys.argv[4]))
    log.close()
