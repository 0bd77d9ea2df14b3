"""What `consume -o json` writes of a record, `produce --json` reads as the same bytes."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignor.errors import InputError
from assignor.types import JAVA_LONG_MAX
from assignor_cli.output import Format, data_text
from streams_runtime.cli.named_serdes import named_serde
from streams_runtime.cli.record_lines import BadLine, LineReader, LineWriter, RecordLine
from streams_runtime.common.records import NAME_ERRORS
from streams_runtime.logs.topic_reading import ConsumedRecord

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.encode)
LIKE_THE_FORM = st.sampled_from([b'{"base64": "/w=="}', b'{"base64":"/w=="}', b"base64", b"null", b"\\xff", b"/w=="])
OCTETS = st.binary(max_size=20) | TEXT | LIKE_THE_FORM
ID = "12345678-1234-5678-1234-567812345678"
LIST_BEGINS = b"\x01\x00\x00\x00\x01"
HEADERS = st.lists(st.tuples(OCTETS, st.none() | OCTETS), max_size=4)


def copied(record: RecordLine, serde: str) -> RecordLine:
    """By a line of JSON."""
    writer = LineWriter(named_serde(serde, "--key-deserializer", "t"), named_serde(serde, "--value-deserializer", "t"))
    reader = LineReader(
        named_serde(serde, "--key-serializer", "t"), named_serde(serde, "--value-serializer", "t"), is_json=True
    )
    key, value = (
        None if part is None else named.serde.deserialize(part)
        for part, named in ((record.key, writer.key), (record.value, writer.value))
    )
    read = ConsumedRecord("t", record.partition or 0, 7, record.timestamp_ms or 0, key, value, record.headers)
    line = data_text(writer.document(read), Format.JSON)
    assert "\n" not in line
    found = reader.record(line.encode())
    assert found is not None
    return found


@given(st.none() | OCTETS, st.none() | OCTETS, HEADERS, st.integers(0, JAVA_LONG_MAX), st.integers(0, 2**31 - 1))
@example(None, None, [(b"trace", b"\xc3\x28\x00\xff"), (b"text", "é".encode()), (b"none", None), (b"", b"")], 0, 0)
@example(b"", b"", [(b"\xff", b"\\xff"), (b"\\xff", b"\xff"), (b"\xff", b'{"base64": "/w=="}')], JAVA_LONG_MAX, 0)
def test_should_copy_every_byte(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]], timestamp_ms: int, partition: int
) -> None:
    named = tuple((name.decode(errors=NAME_ERRORS), given) for name, given in headers)
    record = RecordLine(key, value, named, timestamp_ms, partition)

    assert copied(record, "bytes") == record


@given(st.none() | TEXT | LIKE_THE_FORM, st.none() | TEXT | LIKE_THE_FORM)
def test_should_copy_every_text(key: bytes | None, value: bytes | None) -> None:
    record = RecordLine(key, value, (), 5, 0)

    assert copied(record, "string") == record


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("boolean", "true", b"\x01"),
        ("BooleanSerializer", "false", b"\x00"),
        ("short", "-2", b"\xff\xfe"),
        ("float", "0.5", b"\x3f\x00\x00\x00"),
        ("float", "nan", b"\x7f\xc0\x00\x00"),
        ("org.apache.kafka.common.serialization.UUIDSerializer", ID, ID.encode()),
        ("list-of-short", "[1,null]", b"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01"),
        (
            "list-of-list-of-boolean",
            "[[true]]",
            LIST_BEGINS + b"\x00\x00\x00\x0a" + LIST_BEGINS + b"\x00\x00\x00\x01\x01",
        ),
        ("list-of-bytes", '["/w=="]', LIST_BEGINS + b"\x00\x00\x00\x01\xff"),
        ("list-of-void", "[null]", LIST_BEGINS + b"\xff\xff\xff\xff"),
    ],
)
def test_should_write_and_read_a_value_by_the_name_of_its_serde(name: str, text: str, written: bytes) -> None:
    record = LineReader(named_serde("string", "-k", "t"), named_serde(name, "--value-serializer", "t")).record(
        text.encode()
    )
    assert record == RecordLine(None, written)
    named = named_serde(name.replace("Serializer", "Deserializer"), "--value-deserializer", "t")
    assert named.to_text(named.serde.deserialize(written)) == text
    assert copied(RecordLine(written, written, (), 5, 0), named.name) == RecordLine(written, written, (), 5, 0)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("boolean", "1", "must be true or false, not '1'"),
        ("short", "32768", "must fit into 16 bits, and 32768 does not"),
        ("float", "1e39", "must fit into 32 bits"),
        ("uuid", "cat", "must be a UUID, not 'cat'"),
        ("void", "cat", "must be null, not 'cat'"),
        ("list-of-long", "7", "must be a list, not 7"),
        ("list-of-long", "[", "must be JSON"),
        ("list-of-long", '["x"]', "must be a whole number, not 'x'"),
        ("list-of-uuid", "[7]", "must be a UUID, not 7"),
    ],
)
def test_should_refuse_a_value_that_its_serde_cannot_write(name: str, text: str, reason: str) -> None:
    reader = LineReader(named_serde("string", "-k", "t"), named_serde(name, "--value-serializer", "t"))
    with pytest.raises(BadLine, match=reason):
        reader.record(text.encode())


@pytest.mark.parametrize("name", ["time-windowed-string", "session-windowed-string", "list-of-session-windowed-long"])
def test_should_refuse_to_write_windowed_keys(name: str) -> None:
    with pytest.raises(InputError, match="can only be read"):
        named_serde(name, "--key-serializer", "t")


def test_should_write_text_in_headers_as_text() -> None:
    writer = LineWriter(named_serde("string", "--key-deserializer", "t"), named_serde("string", "-v", "t"))
    record = ConsumedRecord("t", 0, 0, 5, "k", "v", (("a", "é".encode()), ("b", None), ("c", b"\xff")))

    assert writer.document(record)["headers"] == [["a", "é"], ["b", None], ["c", {"base64": "/w=="}]]
    assert replace(writer, headers=True).text(record).startswith("a:é,b:None,c:\\xff\t")


@pytest.mark.parametrize(
    "headers",
    [
        [["a", {"base64": "/w="}]],
        [["a", {"base64": 5}]],
        [["a", {"base64": None}]],
        [["a", {"base64": "é"}]],
        [["a", {"base64": "/w==", "more": 1}]],
        [["a", {"hex": "ff"}]],
        [["a", {}]],
        [["a", 5]],
        [[None, "a"]],
        [[5, "a"]],
        [["a"]],
        ["ab"],
        "ab",
        [["\ud800", "a"]],
        5,
    ],
)
def test_should_refuse_other_headers(headers: object) -> None:
    reader = LineReader(named_serde("string", "-k", "t"), named_serde("string", "-v", "t"), is_json=True)

    with pytest.raises(BadLine, match="its headers must be pairs"):
        reader.record(json.dumps({"value": "v", "headers": headers}).encode())
