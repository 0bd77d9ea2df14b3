"""Every message of the codec vectors, both ways, against what Kafka's own codecs made of it.

The bytes are compared exactly, those in hash order included: the values are held in Java's order first.
"""

from collections.abc import Callable

import pytest

from assignor.errors import DecodeError, KafkaError
from assignor.protocol.assignment_info import decode_assignment_info, encode_assignment_info
from assignor.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from assignor.protocol.subscription_info import decode_subscription_info, encode_subscription_info
from tests.assignor.protocol import codec_vectors as vectors
from tests.assignor.protocol.codec_vectors import Line
from tests.known import known

ENCODE: dict[str, Callable[[Line], bytes]] = {
    "subscription_info": lambda fields: encode_subscription_info(vectors.subscription_info(fields)),
    "assignment_info": lambda fields: encode_assignment_info(vectors.assignment_info(fields)),
    "consumer_subscription": lambda fields: encode_subscription(vectors.subscription(fields), fields["version"]),
    "consumer_assignment": lambda fields: encode_assignment(vectors.assignment(fields), fields["version"]),
}

DECODE: dict[str, Callable[[bytes], Line]] = {
    "subscription_info": lambda raw: vectors.subscription_info_as_decoded(decode_subscription_info(raw)),
    "assignment_info": lambda raw: vectors.assignment_info_as_decoded(decode_assignment_info(raw)),
    "consumer_subscription": lambda raw: vectors.subscription_as_decoded(decode_subscription(raw)),
    "consumer_assignment": lambda raw: vectors.assignment_as_decoded(decode_assignment(raw)),
}


def lines(direction: str, *, failing: bool) -> list[Line]:
    operations = [f"{message}_{direction}" for message in ENCODE]
    return [line for line in vectors.lines_of(*operations) if ("error" in line["output"]) == failing]


def message_of(line: Line) -> str:
    return str(line["op"]).rpartition("_")[0]


def encoded(line: Line) -> bytes:
    return ENCODE[message_of(line)](line["input"])


def decoded(line: Line, side: str) -> Line:
    return vectors.without_set_order(DECODE[message_of(line)](raw(line, side)))


def raw(line: Line, side: str) -> bytes:
    return known(vectors.from_base64(line[side]["b64"]))


def different(found: list[Line], equal: Callable[[Line], bool]) -> list[str]:
    return [vectors.line_id(line) for line in found if not equal(line)]


def test_should_write_kafkas_bytes() -> None:
    found = lines("encode", failing=False)
    assert (len(found), different(found, lambda line: encoded(line) == raw(line, "output"))) == (1049, [])


@pytest.mark.parametrize(("direction", "side", "count"), [("encode", "output", 1049), ("decode", "input", 85)])
def test_should_read_what_kafka_reads(direction: str, side: str, count: int) -> None:
    """What Kafka wrote, and damaged bytes that still make sense."""
    found = lines(direction, failing=False)
    expected = [vectors.without_set_order(line["output"]["decoded"]) for line in found]
    assert len(found) == count
    assert [decoded(line, side) for line in found] == expected


@pytest.mark.parametrize("line", lines("encode", failing=True), ids=vectors.line_id)
def test_should_refuse_to_write_what_kafka_refuses_to_write(line: Line) -> None:
    with pytest.raises(KafkaError) as raised:
        encoded(line)
    assert raised.value.as_recorded() == line["output"]["error"]


@pytest.mark.parametrize("line", lines("decode", failing=True), ids=vectors.line_id)
def test_should_raise_decode_error_within_the_bytes_when_kafka_fails(line: Line) -> None:
    with pytest.raises(DecodeError) as raised:
        decoded(line, "input")
    assert 0 <= raised.value.offset <= len(raw(line, "input"))


def test_should_have_run_every_message_of_the_vectors() -> None:
    refused = {direction: len(lines(direction, failing=True)) for direction in ("encode", "decode")}
    assert refused == {"encode": 3, "decode": 131}
    assert 1049 + 85 + 3 + 131 + len(vectors.lines_of("checkpoint_encode", "checkpoint_decode")) == 1500
