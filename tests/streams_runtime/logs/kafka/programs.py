"""Programs that other processes run in the tests of the log on Kafka. They report by printing lines."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from assignor.types import TopicPartition
from streams_runtime.logs.base import OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.kafka.producer import KafkaProducer
from streams_runtime.logs.log_errors import CommitFenced, LogError, ProducerFenced
from tests.streams_runtime.logs.processes import RunningProgram, running_program, say


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


def running(program: str, servers: str, name: str, number: int = 0) -> AbstractContextManager[RunningProgram]:
    """One of the programs above."""
    return running_program(__name__, program, servers, name, number)


if __name__ == "__main__":
    log = KafkaLog(sys.argv[2])
    PROGRAMS[sys.argv[1]](log, sys.argv[3], int(sys.argv[4]))
    log.close()
