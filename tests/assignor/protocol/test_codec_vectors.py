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

MESSAGES = ("subscription_info", "assignment_info", "consumer_subscription", "consumer_assignment")

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
    operations = [f"{message}_{direction}" for message in MESSAGES]
    return [line for line in vectors.lines_of(*operations) if ("error" in line["output"]) == failing]


def message_of(line: Line) -> str:
    return str(line["op"]).rpartition("_")[0]


def raw(line: Line, side: str) -> bytes:
    value = vectors.from_base64(line[side]["b64"])
    assert value is not None
    return value


@pytest.mark.parametrize("line", lines("encode", failing=False), ids=vectors.line_id)
def test_should_write_kafkas_bytes(line: Line) -> None:
    assert ENCODE[message_of(line)](line["input"]) == raw(line, "output")


@pytest.mark.parametrize("line", lines("encode", failing=False), ids=vectors.line_id)
def test_should_read_back_what_kafka_reads_back(line: Line) -> None:
    decoded = DECODE[message_of(line)](raw(line, "output"))

    assert vectors.without_set_order(decoded) == vectors.without_set_order(line["output"]["decoded"])


@pytest.mark.parametrize("line", lines("encode", failing=True), ids=vectors.line_id)
def test_should_refuse_to_write_what_kafka_refuses_to_write(line: Line) -> None:
    with pytest.raises(KafkaError) as raised:
        ENCODE[message_of(line)](line["input"])

    assert raised.value.as_recorded() == line["output"]["error"]


@pytest.mark.parametrize("line", lines("decode", failing=False), ids=vectors.line_id)
def test_should_read_damaged_bytes_as_kafka_does_when_they_still_make_sense(line: Line) -> None:
    decoded = DECODE[message_of(line)](raw(line, "input"))

    assert vectors.without_set_order(decoded) == vectors.without_set_order(line["output"]["decoded"])


@pytest.mark.parametrize("line", lines("decode", failing=True), ids=vectors.line_id)
def test_should_raise_decode_error_within_the_bytes_when_kafka_fails(line: Line) -> None:
    damaged = raw(line, "input")

    with pytest.raises(DecodeError) as raised:
        DECODE[message_of(line)](damaged)

    assert 0 <= raised.value.offset <= len(damaged)


def test_should_have_run_every_message_of_the_vectors() -> None:
    counts = {
        (direction, failing): len(lines(direction, failing=failing))
        for direction in ("encode", "decode")
        for failing in (False, True)
    }
    checkpoints = vectors.lines_of("checkpoint_encode", "checkpoint_decode")

    assert counts == {
        ("encode", False): 1049,
        ("encode", True): 3,
        ("decode", False): 85,
        ("decode", True): 131,
    }
    assert sum(counts.values()) + len(checkpoints) == 1500
