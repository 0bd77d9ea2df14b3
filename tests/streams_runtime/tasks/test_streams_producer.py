"""One producer a thread: lazy transactions, commits with offsets, and what its errors become."""

from collections.abc import Callable

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskMigrated
from streams_runtime.logs.base import Claim, CommittedOffsets, NewTopic, OffsetAndMetadata
from streams_runtime.logs.log_errors import CommitFenced, LogError, LogTimeout, ProducerFenced, RecordTooLarge
from streams_runtime.logs.producers import PENDING_BYTES
from streams_runtime.tasks.record_collector import StreamsProducer
from tests.streams_runtime.tasks.watched_log import WatchedLog

OUT = TopicPartition("out", 0)
IN = TopicPartition("in", 0)
OFFSETS = {IN: OffsetAndMetadata(5, "m")}


@pytest.fixture
def log() -> WatchedLog:
    log = WatchedLog()
    log.create_topics([NewTopic("out", 1), NewTopic("in", 1)])
    return log


def committed(log: WatchedLog) -> CommittedOffsets:
    return log.log.committed_offsets("app", [IN])


def send(producer: StreamsProducer, value: bytes = b"v") -> None:
    producer.send(OUT, b"k", value, 7)


def test_should_begin_a_transaction_with_the_first_record_only(log: WatchedLog) -> None:
    producer = StreamsProducer(log, "app-0")
    producer.initialize()
    producer.initialize()
    assert (log.calls, producer.transaction_in_flight) == (["producer"], False)
    send(producer)
    send(producer)
    assert log.calls == ["producer", "begin_transaction", "send", "send"]
    assert producer.transaction_in_flight


def test_should_commit_records_and_offsets_in_one_transaction(log: WatchedLog) -> None:
    producer = StreamsProducer(log, "app-0")
    claim = log.claim("app", [IN])
    send(producer)
    assert (log.read(OUT), committed(log), producer.last_offsets()) == ([], {}, {})
    producer.commit([(claim, OFFSETS)])
    assert log.read(OUT) == [(b"k", b"v", 7)]
    assert committed(log) == OFFSETS
    assert producer.last_offsets() == {OUT: 0}
    assert not producer.transaction_in_flight


def test_should_begin_a_transaction_when_there_are_offsets_only(log: WatchedLog) -> None:
    producer = StreamsProducer(log, "app-0")
    producer.commit([(log.claim("app", [IN]), OFFSETS)])
    assert committed(log) == OFFSETS


@pytest.mark.parametrize("transactional_id", [None, "app-0"])
def test_should_do_nothing_when_there_is_nothing_to_commit(log: WatchedLog, transactional_id: str | None) -> None:
    producer = StreamsProducer(log, transactional_id)
    producer.commit([(log.claim("app", [IN]), {})])
    producer.commit()
    producer.flush()
    producer.abort()
    assert log.calls == ["claim"]


def test_should_write_everything_before_offsets_are_committed_at_least_once(log: WatchedLog) -> None:
    producer = StreamsProducer(log)
    send(producer)
    producer.commit([(log.claim("app", [IN]), OFFSETS)])
    assert log.calls == ["producer", "send", "claim", "commit_offsets"]
    assert (log.read(OUT), committed(log)) == ([(b"k", b"v", 7)], OFFSETS)
    assert not producer.transaction_in_flight
    assert not producer.exactly_once


@pytest.mark.parametrize("transactional_id", [None, "app-0"])
def test_should_write_nothing_when_fenced_without_moved_offsets(log: WatchedLog, transactional_id: str | None) -> None:
    """A punctuation writes without a record; who lost its task meanwhile must not add to it."""
    producer = StreamsProducer(log, transactional_id)
    mine = log.claim("app", [IN])
    send(producer)
    log.claim("app", [IN])
    with pytest.raises(TaskMigrated):
        producer.commit([(mine, {})])
    producer.close()
    assert log.read(OUT) == []


def test_should_write_nothing_early_when_another_owner_has_claimed_since(log: WatchedLog) -> None:
    """At-least-once writes as it goes; a zombie's old values must not come behind its successor's."""
    task = TaskId(0, 0)
    producer = StreamsProducer(log)
    producer.set_write_claim(task, log.claim("app", [IN]))
    send(producer)
    producer.flush()
    newer = log.claim("app", [IN])
    with pytest.raises(TaskMigrated):
        send(producer, bytes(PENDING_BYTES))
    producer.reset()
    assert log.read(OUT) == [(b"k", b"v", 7)]

    producer.set_write_claim(task, newer)
    send(producer)
    producer.set_write_claim(task, None)
    log.claim("app", [IN])
    producer.flush()
    assert len(log.read(OUT)) == 2, "what belongs to no task that runs is checked against nothing"


@pytest.mark.parametrize("end", [StreamsProducer.reset, StreamsProducer.close])
def test_should_not_write_uncommitted_records_when_given_up(
    log: WatchedLog, end: Callable[[StreamsProducer], object]
) -> None:
    producer = StreamsProducer(log)
    send(producer)
    end(producer)
    assert log.read(OUT) == []


@pytest.mark.parametrize(("drop", "opened"), [(StreamsProducer.abort, 1), (StreamsProducer.reset, 2)])
def test_should_drop_what_was_sent_and_go_on_after_a_reset_with_a_new_producer(
    log: WatchedLog, drop: Callable[[StreamsProducer], object], opened: int
) -> None:
    producer = StreamsProducer(log, "app-0")
    send(producer, b"lost")
    drop(producer)
    assert (producer.aborts, producer.transaction_in_flight, producer.last_offsets()) == (1, False, {})
    send(producer, b"kept")
    producer.commit()
    assert (log.read(OUT), log.count("producer")) == ([(b"k", b"kept", 7)], opened)


def test_should_become_task_migrated_when_a_newer_producer_has_its_id(log: WatchedLog) -> None:
    zombie = StreamsProducer(log, "app-0")
    send(zombie)
    newer = StreamsProducer(log, "app-0")
    newer.initialize()
    with pytest.raises(TaskMigrated, match="fenced while committing a transaction") as error:
        zombie.commit([(log.claim("app", [IN]), OFFSETS)])
    assert isinstance(error.value.__cause__, ProducerFenced)
    zombie.abort()
    assert (log.read(OUT), committed(log)) == ([], {})
    with pytest.raises(TaskMigrated, match="fenced while beginning a transaction"):
        send(zombie)  # it stays fenced, and does not fence the newer one by opening itself again
    send(newer)
    newer.commit()
    assert log.read(OUT) == [(b"k", b"v", 7)]


def send_and_flush(producer: StreamsProducer) -> None:
    send(producer)
    producer.flush()


def send_and_write(producer: StreamsProducer) -> None:
    send(producer)
    producer.send_now()


def commit(producer: StreamsProducer) -> None:
    producer.commit([(Claim("app", {IN: 1}), OFFSETS)])


STEPS: list[tuple[str, str | None, Callable[[StreamsProducer], object]]] = [
    ("producer", None, send),
    ("producer", "app-0", lambda producer: producer.initialize()),
    ("begin_transaction", "app-0", send),
    ("send", None, send),
    ("send_now", None, send_and_write),
    ("flush", None, send_and_flush),
    ("commit_offsets", None, commit),
    ("commit_transaction", "app-0", commit),
]


@pytest.mark.parametrize(("call", "transactional_id", "step"), STEPS)
def test_should_pass_a_time_out_on_for_task_timeout_ms(
    log: WatchedLog, call: str, transactional_id: str | None, step: Callable[[StreamsProducer], object]
) -> None:
    log.claim("app", [IN])
    producer = StreamsProducer(log, transactional_id)
    log.fail[call] = LogTimeout("away")
    with pytest.raises(LogTimeout, match="away"):
        step(producer)
    del log.fail[call]
    step(producer)


@pytest.mark.parametrize(("call", "transactional_id", "step"), STEPS)
@pytest.mark.parametrize(
    ("error", "expected"),
    [(ProducerFenced("f"), TaskMigrated), (CommitFenced("c"), TaskMigrated), (LogError("e"), StreamsRuntimeError)],
)
def test_should_say_what_it_was_doing_when_the_log_refuses(
    log: WatchedLog,
    call: str,
    transactional_id: str | None,
    step: Callable[[StreamsProducer], object],
    error: LogError,
    expected: type[Exception],
) -> None:
    log.fail[call] = error
    with pytest.raises(expected, match=r"while (opening|beginning|sending|writing|flushing|committing)") as raised:
        step(StreamsProducer(log, transactional_id))
    assert type(raised.value) is expected
    assert raised.value.__cause__ is error


def test_should_name_the_topic_when_a_record_is_refused(log: WatchedLog) -> None:
    log.fail["send"] = RecordTooLarge("too large")
    with pytest.raises(StreamsRuntimeError, match="error while sending a record to out-0: too large"):
        send(StreamsProducer(log))


def test_should_give_up_a_producer_that_cannot_be_reached_to_abort(log: WatchedLog) -> None:
    producer = StreamsProducer(log, "app-0")
    send(producer, b"lost")
    log.fail = dict.fromkeys(("abort_transaction", "close_producer"), LogTimeout("away"))
    producer.abort()
    log.fail = {}
    send(producer, b"kept")
    producer.commit()
    assert (log.read(OUT), log.count("producer")) == ([(b"k", b"kept", 7)], 2)


def test_should_never_open_a_fenced_producer_again_by_itself(log: WatchedLog) -> None:
    producer = StreamsProducer(log, "app-0")
    send(producer)
    log.fail = dict.fromkeys(("abort_transaction", "begin_transaction", "close_producer"), ProducerFenced("f"))
    producer.abort()
    with pytest.raises(TaskMigrated):
        send(producer)
    producer.close()
    assert log.count("producer") == 1
