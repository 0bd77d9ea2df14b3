"""`assignor produce`: every line becomes a record, where Kafka would put it, or is named."""

import signal
from pathlib import Path

import pytest

from assignor.types import TopicPartition
from streams_runtime.logs.base import Log
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.logs.topic_reading import ConsumedRecord, read_topic
from streams_runtime.serdes import BYTES, JSON, LONG, STRING
from tests.known import known
from tests.streams_runtime.cli.conftest import Run, started
from tests.waiting import wait_until


def records(log: Log, topic: str = "lines") -> list[ConsumedRecord[bytes | None, bytes | None]]:
    return sorted(read_topic(log, topic, BYTES, BYTES), key=lambda record: (record.partition, record.offset))


def test_should_write_a_record_for_each_line_to_the_partition_of_its_key(log: Log, run: Run) -> None:
    keys = [f"key {number}" for number in range(50)]
    ran = run("produce", "lines", "--key-separator", ":", stdin="".join(f"{key}:of {key}\n" for key in keys))

    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.startswith("50 records written to lines in ")
    found = records(log)
    assert {(each.key, each.value) for each in found} == {(key.encode(), f"of {key}".encode()) for key in keys}
    assert all(each.partition == partition_of(each.key or b"", 4) for each in found)


def test_should_keep_lines_without_keys_together_as_kafka_does(log: Log, run: Run) -> None:
    run("produce", "lines", stdin="a\r\n\nlast line without an end")
    found = records(log)

    assert [(each.key, each.value) for each in found] == [
        (None, b"a"),
        (None, b""),
        (None, b"last line without an end"),
    ]
    assert len({each.partition for each in found}) == 1


def test_should_read_json_lines_as_consume_writes_them(log: Log, run: Run) -> None:
    lines = (
        '{"key":"a","value":{"total":3},"headers":[["trace","1"],["trace",null]],"timestamp":1000,"partition":2}\n'
        "\n"
        '{"key":null,"value":null,"headers":{"by":"hand"},"partition":2}\n'
        '{"value":"text","partition":2}\n'
    )
    ran = run("produce", "lines", "--json", "--timestamp", "1970-01-01T00:00:02Z", "--header", "x=y", stdin=lines)

    assert ran.returncode == 0, ran.stderr
    assert records(log) == [
        ("lines", 2, 0, 1_000, b"a", b'{"total":3}', (("trace", b"1"), ("trace", None), ("x", b"y"))),
        ("lines", 2, 1, 2_000, None, None, (("by", b"hand"), ("x", b"y"))),
        ("lines", 2, 2, 2_000, None, b"text", (("x", b"y"),)),
    ]
    dumped = run("consume", "lines", "--from-beginning", "--until-end", "-o", "json")
    again = run("produce", "lines", "--json", stdin=dumped.stdout)
    assert again.returncode == 0
    assert [each[3:] for each in records(log)[3:]] == [each[3:] for each in records(log)[:3]]


def test_should_write_by_serdes_and_null_markers(log: Log, run: Run) -> None:
    options = ("--key-separator", "\\t", "--null-marker", "NULL", "--value-serializer")
    for serializer, value in (("long", "7"), ("LongSerializer", "-1"), ("json", '{"b":1, "a":2}'), ("bytes", "AAH/")):
        run("produce", "counts", *options, serializer, stdin=f"key\t{value}\n")
    run("produce", "counts", *options, "string", stdin="key\tNULL\n")

    assert [each.value for each in records(log, "counts")] == [
        LONG.serialize(7),
        LONG.serialize(-1),
        JSON.serialize({"a": 2, "b": 1}),
        b"\x00\x01\xff",
        None,
    ]


@pytest.mark.parametrize(
    ("options", "bad", "said"),
    [
        (["--key-separator", ":"], "nothing", "has no key separator ':': 'nothing'"),
        (["--json"], "no", "is not JSON (Expecting value: line 1 column 1 (char 0)): 'no'"),
        (["--json"], "3", 'must be a JSON object such as {"key": ..., "value": ...}, not \'3\''),
        (["--json"], '{"values":1}', "has an unknown field 'values'; did you mean value?"),
        (["--json"], '{"key":"a"}', "has no value; a record that deletes its key has the value null"),
        (["--json"], '{"value":"a","timestamp":"now"}',
         "its timestamp must be milliseconds since the epoch, not 'now'"),
        (["--json"], '{"value":"a","headers":[1]}',
         'its headers must be pairs [["name", "text or null"], ...], or an object of them; '
         'bytes that are no text are {"base64": "..."}'),
        (["--json"], '{"value":"a","partition":4}', "topic lines has partitions 0 to 3, no 4"),
        (["--value-serializer", "long"], "many",
         "its value must be a whole number, not 'many' (--value-serializer long)"),
        (["--value-serializer", "integer"], str(2**31),
         "its value must fit into 32 bits, and 2147483648 does not (--value-serializer integer)"),
        ([], "\udcff", "is not UTF-8 text (byte 0xff at position 1)"),
    ],
)  # fmt: skip
def test_should_name_a_bad_line_and_keep_those_before(
    log: Log, run: Run, options: list[str], bad: str, said: str
) -> None:
    good = {"--json": '{"value":"1"}', "--key-separator": "1:1"}.get(options[0] if options else "", "1")
    lines = f"{good}\n{good}\n{bad}\n{good}\n".encode("utf-8", "surrogateescape")

    ran = run("produce", "lines", *options, stdin=lines)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.replace("line 3: ", "line 3 ") == (
        f"error: stdin, line 3 {said}; what came before line 3 is written (2 records): correct the line, and go on "
        "with --from-line 3\n"
    )
    assert len(records(log)) == 2


def test_should_go_on_where_an_earlier_run_has_ended(log: Log, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("1:a\n2b\n3:c\n")
    refused = run("produce", "lines", str(file), "--key-separator", ":")
    file.write_text("1:a\n2:b\n3:c\n")
    run("produce", "lines", str(file), "--key-separator", ":", "--from-line", "2")

    assert refused.stderr.startswith(f"error: {file}, line 2 has no key separator")
    assert sorted((each.value for each in records(log)), key=str) == [b"a", b"b", b"c"]


def test_should_leave_bad_lines_out_when_asked_to(log: Log, run: Run) -> None:
    ran = run("produce", "counts", "--key-separator", ":", "--skip-bad-lines", stdin="a:1\nbad\nb:2\n")

    assert ran.returncode == 2
    assert ran.stderr.splitlines()[0] == "stdin, line 2 has no key separator ':': 'bad'"
    assert ran.stderr.splitlines()[2] == "1 of the lines are no records and were left out"
    assert [each.key for each in records(log, "counts")] == [b"a", b"b"]


def test_should_refuse_a_record_that_the_topic_does_not_take(log: Log, run: Run) -> None:
    ran = run("produce", "counts", stdin="no key\n")

    assert ran.returncode == 2
    assert ran.stderr.startswith(
        "error: stdin, line 1: record for counts-0 has no key, and the topic is compacted by key; what came before "
        "line 1 is written (0 records)"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["lines", "missing.txt"], 2, "missing.txt: cannot be read: No such file or directory"),
        (["missing"], 1, "there is no topic missing at {}; make it with `assignor topics create missing`"),
        (["lines", "--json", "--key-separator", ":"], 2,
         "--json: has key, value and null of its own; leave out --key-separator, --null-marker"),
        (["lines", "--value-serializer", "avr"], 2, "--value-serializer: must be one of string, boolean, short, "
                                                    "integer, long, float, double, uuid, void, json, bytes, avro, "
                                                    "json-schema, protobuf, or time-windowed-string or "
                                                    "session-windowed-string or list-of-string and so on, not 'avr'"),
        (["lines", "--timestamp", "yesterday"], 2, "--timestamp: must be milliseconds since the epoch, or a time such "
                                                   "as 2026-11-22T19:00:00Z, not 'yesterday'"),
        (["lines", "--partition", "4"], 2, "--partition: topic lines has partitions 0 to 3"),
    ],
)  # fmt: skip
def test_should_name_the_error(address: str, log: Log, run: Run, arguments: list[str], code: int, said: str) -> None:
    ran = run("produce", *arguments)

    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", f"error: {said.format(address)}\n")


def test_should_write_lines_as_they_come_and_keep_them_when_interrupted(log: Log) -> None:
    partition = TopicPartition("lines", 0)
    with started("produce", "lines", "--partition", "0") as producing:
        known(producing.stdin).write(b"first\nsecond\nhalf a li")
        known(producing.stdin).flush()
        wait_until(lambda: log.end_offsets([partition])[partition] >= 2, "two records")
        producing.send_signal(signal.SIGINT)
        _, said = producing.communicate(timeout=60)

    assert producing.returncode == 130
    assert said.decode().startswith("interrupted; 2 records written to lines in ")
    assert [STRING.deserialize(each.value or b"") for each in records(log)] == ["first", "second"]
