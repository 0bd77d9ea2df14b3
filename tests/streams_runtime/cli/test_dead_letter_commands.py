"""`assignor dead-letters`: what failed and why, and records that go back to where they came from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime import BYTES, JSON, STRING, Application, StreamsBuilder, dead_letter, read_topic
from streams_runtime.cli.dead_letter_retry import DeadLetterGone, carry_out, plan_retry
from streams_runtime.common.records import Headers, RecordMetadata
from streams_runtime.local_run.local_run import LocalRun
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_MESSAGE,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_RETRY_OF,
    HEADER_STACKTRACE,
    HEADER_TOPIC,
    dead_letter_of,
    own_headers,
)
from streams_runtime.logs.record_producer import RecordProducer
from streams_runtime.logs.topic_reading import ConsumedRecord, newest_offsets
from streams_runtime.processors.api import FailedRecord
from streams_runtime.tasks.exception_handling import NO_RECORD, dead_letter_headers
from tests.streams_runtime.cli.conftest import Run

FAILED = "failed"
Fail = Callable[..., TopicPartition]


@pytest.fixture
def fail(log: Log) -> Fail:
    """Writes a dead letter as a task does: of the record at `source`, a topic, a partition and an offset."""
    log.create_topics([NewTopic(FAILED, 2)])

    def write(
        source: tuple[str, int, int] = ("lines", 2, 7),
        error: Exception | None = None,
        *,
        value: bytes = b"a line",
        headers: Headers = (),
        timestamp_ms: int = 1_767_225_600_000,
        partition: int = 0,
    ) -> TopicPartition:
        failed = FailedRecord(
            TaskId(0, 2),
            RecordMetadata(*source),
            "node",
            b"key",
            value,
            headers,
            timestamp_ms,
            error or KeyError("sum"),
        )
        with RecordProducer(log, BYTES, BYTES) as producer:
            return producer.send(
                FAILED, b"key", value, timestamp_ms=timestamp_ms, headers=dead_letter_headers(failed),
                partition=partition,
            )  # fmt: skip

    return write


def contents(log: Log, topic: str) -> list[ConsumedRecord[bytes | None, bytes | None]]:
    return list(read_topic(log, topic, BYTES, BYTES))


def test_should_put_a_record_back_that_the_repaired_application_processes(
    address: str, log: Log, run: Run, tmp_path: Path
) -> None:
    repaired = False

    def amount(payment: dict[str, int]) -> int:
        return payment.get("amount", 0) if repaired else payment["amount"]

    log.create_topics([NewTopic("payments", 2), NewTopic("amounts", 1), NewTopic(FAILED, 1)])
    with RecordProducer(log, STRING, BYTES) as producer:
        for key, value in (("p1", b'{"amount":3}'), ("p2", b'{"sum":3}'), ("p3", b"{")):
            producer.send("payments", key, value, partition=1, headers=(("trace", b"abc"),))
    builder = StreamsBuilder()
    builder.stream("payments", STRING, JSON).map_values(amount).to("amounts", value_serde=JSON)
    app = Application(
        builder.build(),
        {
            "application.id": "payments",
            "bootstrap.servers": address,
            "state.dir": tmp_path / "state",
            "commit.interval.ms": 20,
            "errors.dead.letter.queue.topic.name": FAILED,
        },
        processing_exception_handler=dead_letter,
        deserialization_exception_handler=dead_letter,
    )
    with LocalRun(app) as local:
        local.wait_until_caught_up()
        first = json.loads(run("dead-letters", "list", FAILED, "-o", "json").stdout)
        repaired = True
        done = run("dead-letters", "retry", FAILED, "--all", "--execute", "-o", "json")
        local.wait_until_caught_up()
    then = json.loads(run("dead-letters", "list", FAILED, "-o", "json").stdout)

    assert [(each["error"], each["source"]["offset"], each["task"]) for each in first["dead_letters"]] == [
        ("json.decoder.JSONDecodeError", 2, "0_1"), ("KeyError", 1, "0_1"),
    ]  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [each["to"] for each in json.loads(done.stdout)["retried"]] == [{"topic": "payments", "partition": 1}] * 2
    assert [record[1:3] + record[4:6] for record in contents(log, "amounts")] == [
        (0, 0, b"p1", b"3"),
        (0, 1, b"p2", b"0"),
    ]
    assert [(each["offset"], each["source"]["offset"], each["retry_of"]) for each in then["dead_letters"]][:1] == [
        (2, 4, f"{FAILED}-0@1")
    ]
    assert contents(log, "payments")[3].headers == (("trace", b"abc"), (HEADER_RETRY_OF, b"failed-0@0"))


def test_should_list_the_newest_first_and_count_all_by_error(fail: Fail, run: Run) -> None:
    fail(("lines", 2, 7), KeyError("sum"), timestamp_ms=1_000)
    fail(("lines", 2, 8), ValueError("no amount"), timestamp_ms=3_000, partition=1)
    fail(("counts", 0, 9), KeyError("sum"), timestamp_ms=2_000, headers=((HEADER_RETRY_OF, b"failed-0@0"),))
    fail(("lines", 2, 9), KeyError("sum"), timestamp_ms=1_000)

    text = run("dead-letters", "list", FAILED, "--max", "3").stdout.splitlines()
    document = json.loads(run("dead-letters", "list", FAILED, "-o", "json").stdout)
    bounded = json.loads(run("dead-letters", "list", FAILED, "--max-read", "3", "-o", "json").stdout)

    assert text[:6] == [
        "failed: 4 records",
        "COUNT  ERROR       FROM",
        "    2  KeyError    lines",
        "    1  KeyError    counts",
        "    1  ValueError  lines",
        "",
    ]
    assert [line.split()[1:] for line in text[6:]] == [
        ["PARTITION", "OFFSET", "ERROR", "FROM", "TASK", "RETRY"],
        ["1", "0", "ValueError:", "no", "amount", "lines-2@8", "0_2", "-"],
        ["0", "1", "KeyError:", "'sum'", "counts-0@9", "0_2", "again"],
        ["0", "2", "KeyError:", "'sum'", "lines-2@9", "0_2", "-"],
        ["older", "records", "are", "not", "shown;", "--max", "shows", "more."],
    ]
    assert (document["read"], document["is_complete"], len(document["dead_letters"])) == (4, True, 4)
    assert document["counts"][0] == {"error": "KeyError", "source_topic": "lines", "count": 2}
    assert document["dead_letters"][1] == {
        "topic": FAILED,
        "partition": 0,
        "offset": 1,
        "timestamp": 2_000,
        "error": "KeyError",
        "message": "'sum'",
        "source": {"topic": "counts", "partition": 0, "offset": 9},
        "task": "0_2",
        "retry_of": "failed-0@0",
    }
    assert (bounded["read"], bounded["is_complete"]) == (3, False)
    assert sorted((each["partition"], each["offset"]) for each in bounded["dead_letters"]) == [(0, 1), (0, 2), (1, 0)]
    assert "failed: the newest 3 records were read; --max-read reads more\n" in run(
        "dead-letters", "list", FAILED, "--max-read", "3"
    ).stdout  # fmt: skip


def test_should_list_records_that_are_no_dead_letters(log: Log, fail: Fail, run: Run) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        producer.send(FAILED, "a", "b", partition=0)
    fail(NO_RECORD, timestamp_ms=1_000)

    lines = run("dead-letters", "list", FAILED).stdout.splitlines()

    assert lines[2:4] == ["    1  no dead letter  -", "    1  KeyError        -"]
    assert [line.split()[3:] for line in lines[6:]] == [
        ["no", "dead", "letter", "-", "-"],
        ["KeyError:", "'sum'", "-", "0_2"],
    ]


def test_should_show_everything_about_a_record(fail: Fail, run: Run) -> None:
    try:
        raise KeyError("sum")
    except KeyError as error:
        fail(error=error, headers=(("trace", b"abc"), ("raw", b"\xff"), ("none", None)))
    fail(value=b"\x1b[31m\xff")

    text = run("dead-letters", "show", FAILED, "0", "0").stdout.splitlines()
    document = json.loads(run("dead-letters", "show", FAILED, "0", "0", "-o", "json").stdout)
    unreadable = run("dead-letters", "show", FAILED, "0", "1")
    as_number = run("dead-letters", "show", FAILED, "0", "0", "--value-deserializer", "long", "-o", "json")

    assert text[:5] == [
        "failed-0@0",
        "from       lines-2@7, task 0_2",
        "error      KeyError: 'sum'",
        *[line for line in text if line.startswith("timestamp  1767225600000 (2026-01-01 00:00:00.000Z, ")],
        "key        key",
    ]
    assert text[5:11] == [
        "value      a line",
        "header     trace: abc",
        "header     raw: \\xff",
        "header     none: null",
        "",
        "Traceback (most recent call last):",
    ]
    assert text[-1] == "KeyError: 'sum'"
    assert document["headers"] == [["trace", "abc"], ["raw", {"base64": "/w=="}], ["none", None]]
    assert (document["key"], document["value"], document["stack_trace"].splitlines()[-1]) == (
        "key", "a line", "KeyError: 'sum'",
    )  # fmt: skip
    assert "value      \\x1b[31m\\xff (6 bytes; --value-deserializer string cannot read them)\n" in unreadable.stdout
    assert (as_number.returncode, json.loads(as_number.stdout)["value"]) == (0, "a line")


def test_should_only_say_what_a_retry_would_write_until_it_is_told_to_write(log: Log, fail: Fail, run: Run) -> None:
    fail(("lines", 2, 7), headers=(("trace", b"abc"), (HEADER_RETRY_OF, b"failed-9@9")), timestamp_ms=5_000)
    fail(("lines", 3, 8), value=b"\xff")
    retry = ("dead-letters", "retry", FAILED, "--record", "0:0")

    planned = run(*retry)
    before = contents(log, "lines")
    done = run(*retry, "--execute")

    assert (planned.returncode, planned.stderr, before) == (0, "", [])
    assert planned.stdout.splitlines() == [
        "failed: a retry would put 1 record back; nothing is written",
        "PARTITION  OFFSET  ERROR            FROM       TO       RETRY",
        "        0       0  KeyError: 'sum'  lines-2@7  lines-2  again",
        "A step that had processed a record before another step failed processes it again: its results count it twice.",
        "--execute writes them.",
    ]
    assert done.stdout.splitlines()[0] == "failed: 1 record put back"
    headers = (("trace", b"abc"), (HEADER_RETRY_OF, b"failed-0@0"))
    assert contents(log, "lines") == [ConsumedRecord("lines", 2, 0, 5_000, b"key", b"a line", headers)]
    assert len(contents(log, FAILED)) == 2


def test_should_put_each_record_back_once(log: Log, fail: Fail, run: Run) -> None:
    """A record that fails in two branches has two dead letters, and one that fails again has another one."""
    for _ in range(2):
        fail(("lines", 2, 7))
    fail(("lines", 1, 3))
    fail(("lines", 1, 9), headers=((HEADER_RETRY_OF, b"failed-0@2"),))
    fail(("lines", 1, 9), timestamp_ms=2_000)  # the topic was created again

    document = json.loads(run("dead-letters", "retry", FAILED, "--all", "--execute", "-o", "json").stdout)

    assert [each["offset"] for each in document["retried"]] == [1, 3, 4]
    assert document["left_out"] == [
        {"partition": 0, "offset": 0, "reason": "failed-0@1 is a dead letter of the same record"},
        {"partition": 0, "offset": 2, "reason": "its record failed again: failed-0@3"},
    ]
    assert len(contents(log, "lines")) == 3


def test_should_put_records_into_another_topic(log: Log, fail: Fail, run: Run) -> None:
    log.create_topics([NewTopic("lines-2", 2)])
    fail(("gone", 3, 7))
    fail(("words-counts-changelog", 2, 7))

    done = run("dead-letters", "retry", FAILED, "--all", "--to", "lines-2", "--execute")

    assert done.returncode == 0, done.stderr
    assert sorted((each.partition, each.headers[0][1]) for each in contents(log, "lines-2")) == [
        (0, b"failed-0@1"), (1, b"failed-0@0"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (tuple(NO_RECORD), "it has no input record: a punctuation failed"),
        (("gone", 0, 1), "its source topic gone does not exist; --to names another topic"),
        (("lines", 4, 1), "its source topic lines has partitions 0 to 3, no 4"),
        (("words-counts-changelog", 0, 1), "its source topic words-counts-changelog is named like a changelog or "),
        (("words-by-word-repartition", 0, 1), "its source topic words-by-word-repartition is named like a changelog"),
        (("lines", "x", 1), "its header __streams.errors.partition is no number"),
    ],
)
def test_should_refuse_records_that_cannot_go_back(
    log: Log, fail: Fail, run: Run, source: tuple[str, int, int], reason: str
) -> None:
    log.create_topics([NewTopic("words-counts-changelog", 1), NewTopic("words-by-word-repartition", 1)])
    fail()
    fail(source)
    retry = ("dead-letters", "retry", FAILED, "--all", "--execute")

    refused = run(*retry)
    written = contents(log, "lines")
    skipped = run(*retry, "--skip-refused")

    assert (refused.returncode, refused.stdout, written) == (2, "", [])
    assert refused.stderr.startswith(f"error: failed-0@1 cannot be put back: {reason}")
    assert refused.stderr.endswith("; nothing is written; --skip-refused leaves out such records\n")
    assert (skipped.returncode, len(contents(log, "lines"))) == (2, 1)
    assert skipped.stderr.startswith(f"failed-0@1 cannot be put back: {reason}")


def test_should_refuse_a_topic_that_has_no_dead_letters(log: Log, run: Run) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        producer.send("counts", "a", "1")

    refused = run("dead-letters", "retry", "counts", "--record", "0:0")
    empty = run("dead-letters", "retry", "lines", "--all", "--execute")

    assert (refused.returncode, refused.stderr) == (
        2, "error: counts-0@0 cannot be put back: it is no dead letter: it has no header __streams.errors.topic; "
        "nothing is written; --skip-refused leaves out such records\n",
    )  # fmt: skip
    assert (empty.returncode, empty.stdout) == (0, "lines: there is no record to put back\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["retry", FAILED], "nothing is chosen: give --record or --all"),
        (["retry", FAILED, "--all", "--record", "0:0"], "--all: does not go together with --record"),
        (["retry", FAILED, "--record", "0-0"], "--record: must be PARTITION:OFFSET, such as 0:17, not '0-0'"),
        (["retry", FAILED, "--record", "5:0"], "topic failed has partitions 0 to 1, no 5"),
        (["retry", FAILED, "--record", "0:1"], "failed-0 has no record at offset 1; it has the offsets 0 to 0"),
        (["retry", FAILED, "--all", "--to", FAILED], "--to: is the dead-letter topic itself"),
        (["retry", FAILED, "--all", "--to", "line"], "--to: there is no topic line; did you mean lines?"),
        (["show", FAILED, "1", "0"], "failed-1 has no record at offset 0; it is empty"),
        (["show", FAILED, "0", "0", "--key-deserializer", "x"], "--key-deserializer: must be one of string, "),
    ],
)
def test_should_say_in_one_line_what_is_wrong(fail: Fail, run: Run, arguments: list[str], error: str) -> None:
    fail()

    ran = run("dead-letters", *arguments)

    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith(f"error: {error}")


def test_should_write_nothing_when_a_dead_letter_is_gone_in_the_meantime(log: Log, fail: Fail) -> None:
    for offset in range(3):
        fail(("lines", 0, offset))
    plan = plan_retry(log, FAILED, [{TopicPartition(FAILED, 0): range(3)}])

    with pytest.raises(DeadLetterGone, match="the log has deleted 1 of 3 dead letters; nothing is written"):
        carry_out(log, replace(plan, selection=[{TopicPartition(FAILED, 0): range(1, 3)}]))

    assert contents(log, "lines") == []


def test_should_read_the_newest_offsets_of_each_partition() -> None:
    ranges = {
        TopicPartition("t", 0): range(5, 105),
        TopicPartition("t", 1): range(3),
        TopicPartition("t", 2): range(60),
    }

    newest = newest_offsets(ranges, 43)

    assert {each.partition: offsets for each, offsets in newest.items()} == {
        0: range(85, 105), 1: range(3), 2: range(40, 60),
    }  # fmt: skip
    assert newest_offsets(ranges, 1_000) == ranges
    assert sum(map(len, newest_offsets(ranges, 2).values())) == 2


def test_should_keep_the_error_headers_that_the_input_record_had() -> None:
    """It was a dead letter itself, and failed in an application that reads a dead-letter topic."""
    inner = (("trace", b"abc"), (HEADER_EXCEPTION, b"KeyError"), (HEADER_STACKTRACE, b"inner"))
    failed = FailedRecord(TaskId(0, 0), RecordMetadata("dead", 0, 1), "node", None, None, inner, 1_000, ValueError())

    assert own_headers(dead_letter_headers(failed)) == inner


def test_should_read_a_dead_letter_of_kafka_s_own_runtime() -> None:
    """It has no task."""
    headers = (
        (HEADER_EXCEPTION, b"org.apache.kafka.streams.errors.StreamsException"),
        (HEADER_MESSAGE, b"no amount"),
        (HEADER_STACKTRACE, b"org.apache..."),
        (HEADER_TOPIC, b"lines"),
        (HEADER_PARTITION, b"3"),
        (HEADER_OFFSET, b"17"),
    )

    letter = dead_letter_of(ConsumedRecord(FAILED, 0, 1, 1_000, None, b"x", headers))

    assert (letter.error, letter.message) == ("org.apache.kafka.streams.errors.StreamsException", "no amount")
    assert (letter.source, letter.task, letter.retry_of) == (RecordMetadata("lines", 3, 17), None, None)


@pytest.mark.parametrize(
    ("position", "retry_of"), [(b"failed-0@17", "failed-0@17"), (b"failed-2-0@17", None), (b"\xff", None), (None, None)]
)
def test_should_know_a_record_that_was_put_back_from_the_same_topic(
    position: bytes | None, retry_of: str | None
) -> None:
    """Results have the headers of their record, so another application's dead letter may name another topic."""
    letter = dead_letter_of(ConsumedRecord(FAILED, 0, 1, 1_000, None, b"x", ((HEADER_RETRY_OF, position),)))

    assert letter.retry_of == retry_of
