"""`assignor consume`: the records asked for, as text or data, and an end that says how it came."""

import json
import signal

import pytest
import yaml

from streams_runtime import (
    BYTES,
    LONG,
    STRING,
    ListSerde,
    RecordProducer,
    SessionWindowedSerde,
    TimeWindowedSerde,
    Windowed,
)
from streams_runtime.logs.base import Log
from tests.known import known
from tests.streams_runtime.cli.conftest import Run, started

ALL = ("--from-beginning", "--until-end")


@pytest.fixture
def filled(log: Log) -> Log:
    """Six records in two partitions of `lines`, a second apart."""
    with RecordProducer(log, STRING, STRING) as producer:
        for number in range(6):
            producer.send(
                "lines",
                f"k{number}" if number else None,
                f"v{number}" if number != 5 else None,
                timestamp_ms=1_000 * number,
                headers=(("n", str(number).encode()),) if number % 2 else (),
                partition=number % 2,
            )
    return log


def test_should_print_values_alone_and_count_on_stderr(filled: Log, run: Run) -> None:
    ran = run("consume", "lines", *ALL)

    assert (ran.returncode, ran.stderr) == (0, "6 records\n")
    assert sorted(ran.stdout.splitlines()) == ["null", "v0", "v1", "v2", "v3", "v4"]


def test_should_print_the_parts_in_kafkas_order(filled: Log, run: Run) -> None:
    partition = ("--partition", "1", *ALL)
    everything = run("consume", "lines", *partition, "-o", "wide")
    parts = ("--print-key", "--print-offset", "--print-headers", "--key-separator", "|", "--null-marker", "-")
    some = run("consume", "lines", *partition, *parts)

    assert everything.stdout.splitlines()[0] == "CreateTime:1000\tPartition:1\tOffset:0\tn:1\tk1\tv1"
    assert some.stdout.splitlines() == ["Offset:0|n:1|k1|v1", "Offset:1|n:3|k3|v3", "Offset:2|n:5|k5|-"]


def test_should_print_each_record_as_data(filled: Log, run: Run) -> None:
    as_json = run("consume", "lines", "--partition", "0", *ALL, "-o", "json").stdout
    as_yaml = run("consume", "lines", "--partition", "0", *ALL, "-o", "yaml").stdout
    documents = [json.loads(line) for line in as_json.splitlines()]

    assert documents[0] == {
        "topic": "lines", "partition": 0, "offset": 0, "timestamp": 0, "key": None, "value": "v0", "headers": [],
    }  # fmt: skip
    assert len(documents) == 3
    assert list(yaml.safe_load_all(as_yaml)) == documents


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--offset", "1"], ["v2", "v4"]),
        (["--offset", "earliest"], ["v0", "v2", "v4"]),
        (["--offset", "-1"], ["v4"]),
        (["--offset", "-100"], ["v0", "v2", "v4"]),
        (["--offset", "latest"], []),
        ([], []),
        (["--since", "1500"], ["v2", "v4"]),
        (["--since", "1970-01-01T00:00:04+00:00"], ["v4"]),
        (["--since", "9999"], []),
    ],
)
def test_should_begin_where_it_is_told_to(filled: Log, run: Run, options: list[str], expected: list[str]) -> None:
    ran = run("consume", "lines", "--partition", "0", "--until-end", *options)

    assert (ran.returncode, ran.stdout.splitlines()) == (0, expected), ran.stderr


def test_should_end_after_so_many_records_or_so_long_without_one(filled: Log, run: Run) -> None:
    two = run("consume", "lines", "--from-beginning", "--max-messages", "2")
    fewer = run("consume", "lines", "--from-beginning", "--max-messages", "7", "--timeout-ms", "1")
    quiet = run("consume", "lines", "--timeout-ms", "1")

    assert (two.returncode, len(two.stdout.splitlines()), two.stderr) == (0, 2, "2 records\n")
    assert (fewer.returncode, len(fewer.stdout.splitlines()), fewer.stderr) == (1, 6, "6 records of 7\n")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "0 records\n")


def test_should_read_by_serdes(log: Log, run: Run) -> None:
    with RecordProducer(log, TimeWindowedSerde(STRING, 10), LONG) as producer:
        producer.send("counts", Windowed("word", 1_000, 1_010), 7)
    options = (*ALL, "--key-deserializer", "time-windowed-string", "--value-deserializer", "long")

    assert run("consume", "counts", *options, "--print-key").stdout == "word@1000\t7\n"
    document = json.loads(run("consume", "counts", *options, "-o", "json").stdout)
    assert (document["key"], document["value"]) == ({"key": "word", "window_start_ms": 1_000}, 7)


def test_should_read_the_keys_of_sessions(log: Log, run: Run) -> None:
    with RecordProducer(log, SessionWindowedSerde(STRING), ListSerde(LONG)) as producer:
        producer.send("counts", Windowed("word", 1_000, 1_010), [7, None])
    options = (*ALL, "--key-deserializer", "session-windowed-string", "--value-deserializer", "list-of-long")

    assert run("consume", "counts", *options, "--print-key").stdout == "word@1000/1010\t[7,null]\n"
    document = json.loads(run("consume", "counts", *options, "-o", "json").stdout)
    assert document["key"] == {"key": "word", "session_start_ms": 1_000, "session_end_ms": 1_010}
    assert document["value"] == [7, None]


def test_should_name_the_record_that_a_serde_cannot_read(log: Log, run: Run) -> None:
    with RecordProducer(log, STRING, BYTES) as producer:
        for value in (LONG.serialize(1), b"two", LONG.serialize(3)):
            producer.send("counts", "k", value)

    refused = run("consume", "counts", *ALL, "--value-deserializer", "long")
    skipped = run("consume", "counts", *ALL, "--value-deserializer", "long", "--skip-bad-records")

    said = (
        "counts-0 at offset 1: LongSerde cannot read the value, 3 bytes: 74 77 6f; --value-deserializer long does not "
        "fit: one of string, boolean, short, integer, long, float, double, uuid, void, json, bytes, "
        "avro, json-schema, protobuf?"
    )
    assert (refused.returncode, refused.stdout) == (2, "1\n")
    assert refused.stderr == f"error: {said} --skip-bad-records goes on without it\n"
    assert (skipped.returncode, skipped.stdout, skipped.stderr) == (2, "1\n3\n", f"{said}\n2 records\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing"], 1, "there is no topic missing at {}; make it with `assignor topics create missing`"),
        (["lines", "--offset", "soon"], 2, "--offset: must be earliest, latest or a number, not 'soon'"),
        (["lines", "--offset", "7"], 2, "--offset: lines-0 has the offsets 0 to 3, and 7 is none of them; --partition "
                                        "names where it counts"),
        (["lines", "--partition", "9"], 2, "--partition: topic lines has partitions 0 to 3, no 9"),
        (["lines", "--from-beginning", "--offset", "1"], 2, "--offset: does not go together with --from-beginning"),
    ],
)  # fmt: skip
def test_should_name_the_error(address: str, filled: Log, run: Run, arguments: list[str], code: int, said: str) -> None:
    ran = run("consume", *arguments)

    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", f"error: {said.format(address)}\n")


def test_should_end_quietly_when_its_reader_goes_away(log: Log) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        for _ in range(20_000):
            producer.send("lines", None, "as many lines as no pipe can hold")
    with started("consume", "lines", "--from-beginning") as consuming:
        stdout = known(consuming.stdout)
        assert stdout.readline() == b"as many lines as no pipe can hold\n"
        stdout.close()
        errors = known(consuming.stderr).read()
        consuming.wait(60)

    assert (consuming.returncode, errors) == (141, b"")


def test_should_show_records_as_they_come_until_it_is_interrupted(log: Log) -> None:
    with (
        RecordProducer(log, STRING, STRING) as producer,
        started("consume", "lines", "--from-beginning") as consuming,
    ):
        for text in ("first", "second"):
            producer.send("lines", None, text)
            producer.flush()
            assert known(consuming.stdout).readline().decode() == f"{text}\n"
        consuming.send_signal(signal.SIGINT)
        _, said = consuming.communicate(timeout=60)

    assert (consuming.returncode, said) == (130, b"2 records\n")
