"""Messages of every version, both ways: Kafka's classes read our bytes, we read theirs, and both refuse the same. The
classes of every release are asked.
"""

import base64
from collections.abc import Iterator
from random import Random

import pytest

from assignor.errors import DecodeError, KafkaError
from tests.assignor.protocol.codec_vectors import without_set_order
from tests.assignor.protocol.test_codec_vectors import DECODE, ENCODE, message_of
from tests.oracle.differential_run import DifferentialRun, cases_of_this_run, fresh_cases
from tests.oracle.generated_codec import codec_lines, damaged
from tests.oracle.jars import RELEASES
from tests.oracle.oracle import Line
from tests.told import Tell

pytestmark = pytest.mark.java

VERSIONS = 30
"""Of all kinds of messages together."""
DAMAGED_PER_VALUE = 5
STRICTER_THAN_KAFKA = ("is not in the dictionary of", "count of characters in topology name is negative")
"""What `decode_assignment_info` refuses where Kafka makes a partition of the topic null, or no name, of it."""


def test_should_write_and_read_fresh_messages_as_kafka_does(oracle_jars: str, tell: Tell) -> None:
    with fresh_cases("codec", tell) as fresh:
        for line in codec_lines(fresh.seed, -(-cases_of_this_run() // VERSIONS)):
            for release in RELEASES:
                _compare(fresh, fresh.ask(release, line))


def _compare(fresh: DifferentialRun, line: Line) -> None:
    figures = fresh.figures_of(line)
    figures.compared += 1
    output = line["output"]
    try:
        ours = ENCODE[message_of(line)](line["input"])
    except KafkaError as error:
        fresh.features["refused to write"] += 1
        if error.as_recorded() != output.get("error"):
            fresh.failed(line, f"refused with {error.as_recorded()}, Kafka {output.get('error', 'writes it')}")
        return
    if "b64" not in output:
        fresh.failed(line, f"written as {ours.hex()}, Kafka refuses with {output['error']}")
        return
    theirs = base64.b64decode(output["b64"])
    figures.compared_bytes += 1
    figures.equal_bytes += ours == theirs
    random = Random(line["id"])
    for number, raw in enumerate((ours, theirs, *(damaged(random, theirs) for _ in range(DAMAGED_PER_VALUE)))):
        read = {"format": "codec/1", "id": f"{line['id']}.{number}", "op": f"{message_of(line)}_decode"}
        answered = fresh.ask(line["kafka_version"], {**read, "input": {"b64": base64.b64encode(raw).decode()}})
        for difference in _differences_in_reading(fresh, answered, raw):
            fresh.failed(answered, difference)
    if ours != theirs:
        fresh.failed(line, f"written as {ours.hex()}, by Kafka as {theirs.hex()}")


def _differences_in_reading(fresh: DifferentialRun, line: Line, raw: bytes) -> Iterator[str]:
    fresh.features["messages read"] += 1
    output = line["output"]
    try:
        decoded = without_set_order(DECODE[message_of(line)](raw))
    except DecodeError as error:
        if "error" in output:
            fresh.features["refused to read"] += 1
            if not _same_kind(message_of(line), error.reason, output["error"]):
                yield f"refused for {error}, by Kafka for {output['error']}"
        elif any(text in error.reason for text in STRICTER_THAN_KAFKA):
            fresh.features["read by Kafka only, as documented"] += 1
        else:
            yield f"refused for {error}, read by Kafka as {output['decoded']}"
        return
    except Exception as error:  # never the right answer to bytes
        yield f"raised {type(error).__name__}: {error}"
        return
    if "error" in output:
        yield f"read as {decoded}, Kafka refuses with {output['error']}"
    elif decoded != without_set_order(output["decoded"]):
        yield f"read as {decoded}, by Kafka as {output['decoded']}"


def _same_kind(message: str, ours: str, theirs: str) -> bool:
    """A version is refused by both, or the bytes are.

    Kafka looks at the version of a SubscriptionInfo last, so it may stumble over the bytes before.
    """
    if message == "subscription_info" and _is_about_version(ours):
        return True
    return _is_about_version(ours) == _is_about_version(theirs)


def _is_about_version(reason: str) -> bool:
    words = ("version must", "unknown version", "unsupported version", "versions 1 and 2")
    kafkas = ("unable to decode assignment data: used version", "unsupported subscription", "unsupported assignment")
    return any(text in reason.lower() for text in (*words, *kafkas))
