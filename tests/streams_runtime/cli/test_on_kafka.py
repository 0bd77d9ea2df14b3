"""The commands about data on a real broker: topics, records, dead letters, and a reset."""

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assignor.types import TaskId, TopicPartition
from streams_runtime import BYTES, read_topic
from streams_runtime.common.records import RecordMetadata
from streams_runtime.logs.base import Log, NewTopic, OffsetAndMetadata
from streams_runtime.logs.kafka.kafka_log import KafkaLog
from streams_runtime.logs.partitioner import partition_of
from streams_runtime.logs.topic_reading import ConsumedRecord
from streams_runtime.processors.api import FailedRecord
from streams_runtime.tasks.exception_handling import dead_letter_headers
from tests.oracle.broker import Broker
from tests.streams_runtime.cli.conftest import Run
from tests.streams_runtime.logs.reading_and_writing import commit

pytestmark = pytest.mark.kafka

ALL = ("--from-beginning", "--until-end")


@pytest.fixture
def address(kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ASSIGNOR_BOOTSTRAP_SERVER", kafka_broker.bootstrap_servers)
    return kafka_broker.bootstrap_servers


@pytest.fixture
def log(address: str) -> Iterator[Log]:
    with closing(KafkaLog(address)) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """Of topics and groups of this test alone."""
    return f"cli-{uuid.uuid4().hex[:12]}"


def test_should_create_fill_read_and_delete_a_topic(address: str, run: Run, name: str) -> None:
    created = run("topics", "create", name, "--partitions", "4", "--config", "retention.ms=-1")
    lines = "".join(f"key {number}:value {number}\n" for number in range(100))
    produced = run("produce", name, "--key-separator", ":", stdin=lines)
    described = json.loads(run("topics", "describe", name, "-o", "json").stdout)["topics"][0]
    consumed = run("consume", name, *ALL, "-o", "json")
    deleted = run("topics", "delete", name)
    gone = run("topics", "describe", name)

    assert (created.returncode, created.stdout) == (0, f"{name}: created, 4 partitions\n")
    assert produced.stderr.startswith(f"100 records written to {name} in ")
    records = [json.loads(line) for line in consumed.stdout.splitlines()]
    assert {(each["key"], each["value"]) for each in records} == {(f"key {n}", f"value {n}") for n in range(100)}
    assert all(each["partition"] == partition_of(each["key"].encode(), 4) for each in records)
    assert described["configs"] == {"retention.ms": "-1"}
    assert [each["end_offset"] for each in described["partitions"]] == [
        sum(each["partition"] == number for each in records) for number in range(4)
    ]
    assert (deleted.returncode, deleted.stdout) == (0, f"{name}: deleted, with 100 records\n")
    assert gone.returncode == 1


def test_should_leave_out_what_was_aborted_unless_told_otherwise(address: str, log: Log, run: Run, name: str) -> None:
    log.create_topics([NewTopic(name, 1)])
    with closing(log.producer(f"{name}-producer")) as producer:
        for value in (b"committed", b"aborted"):
            producer.begin_transaction()
            producer.send(TopicPartition(name, 0), None, value, 1_000)
            producer.flush()
            producer.commit_transaction() if value == b"committed" else producer.abort_transaction()

    committed = run("consume", name, *ALL)
    everything = run("consume", name, *ALL, "--isolation-level", "read_uncommitted")
    since = run("consume", name, "--since", "1001", "--until-end")

    assert (committed.returncode, committed.stdout) == (0, "committed\n")
    assert everything.stdout == "committed\naborted\n"
    assert since.stdout == ""


def test_should_reset_an_application(address: str, log: Log, run: Run, name: str) -> None:
    lines, changelog, other = f"{name}-in", f"{name}-counts-changelog", f"{name}-out"
    log.create_topics([NewTopic(lines, 2), NewTopic(changelog, 2), NewTopic(other, 1)])
    with closing(log.producer()) as producer:
        for number in range(10):
            producer.send(TopicPartition(lines, number % 2), None, b"x", 1_000)
    offsets = {TopicPartition(lines, 0): 4, TopicPartition(lines, 1): 5}
    commit(log, name, offsets)
    reset = ("reset", "--application-id", name, "--without-coordinator")

    planned = run(*reset)
    done = run(*reset, "--execute", "-o", "json")

    assert planned.returncode == 0, planned.stderr
    assert f"offset  {lines}-0" in planned.stdout
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [(each["before"], each["after"]) for each in document["offsets"]] == [(4, 0), (5, 0)]
    assert [each["topic"] for each in document["deleted_topics"]] == sorted([changelog, f"{name}-claims"])
    assert log.committed_offsets(name, None) == {each: OffsetAndMetadata(0) for each in offsets}
    assert {topic for topic in log.topics() if topic.startswith(name)} == {lines, other}


def test_should_put_dead_letters_back(address: str, log: Log, run: Run, name: str) -> None:
    lines, failed = f"{name}-in", f"{name}-failed"
    log.create_topics([NewTopic(lines, 2), NewTopic(failed, 2)])
    letter = FailedRecord(
        TaskId(0, 1), RecordMetadata(lines, 1, 7), "node", b"key", b"\xff", (("trace", b"abc"),), 5_000, KeyError("sum")
    )
    with closing(log.producer(f"{name}-producer")) as producer:
        for partition in (0, 1):  # offsets 0 and 2, because each commit writes a marker at the offset after its record
            for headers in (dead_letter_headers(letter), ()):
                producer.begin_transaction()
                producer.send(TopicPartition(failed, partition), letter.key, letter.value, 5_000, headers)
                producer.commit_transaction()

    listed = json.loads(run("dead-letters", "list", failed, "-o", "json").stdout)
    bounded = json.loads(run("dead-letters", "list", failed, "--max-read", "4", "-o", "json").stdout)
    shown = json.loads(run("dead-letters", "show", failed, "1", "0", "-o", "json").stdout)
    marker = run("dead-letters", "show", failed, "1", "1")
    refused = run("dead-letters", "retry", failed, "--all", "--execute")
    done = run("dead-letters", "retry", failed, "--record", "1:0", "--execute")

    assert [(each["partition"], each["offset"], each["error"]) for each in listed["dead_letters"]] == [
        (1, 2, None), (0, 2, None), (1, 0, "KeyError"), (0, 0, "KeyError"),
    ]  # fmt: skip
    assert (listed["is_complete"], bounded["is_complete"], bounded["read"]) == (True, False, 2)
    assert (shown["value"], shown["headers"]) == ({"base64": "/w=="}, [["trace", "abc"]])
    assert (marker.returncode, marker.stderr) == (2, f"error: {failed}-1 has no record at offset 1\n")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert done.returncode == 0, done.stderr
    headers = (("trace", b"abc"), ("__streams.retry.of", f"{failed}-1@0".encode()))
    assert list(read_topic(log, lines, BYTES, BYTES)) == [ConsumedRecord(lines, 1, 0, 5_000, b"key", b"\xff", headers)]


def test_should_say_in_one_line_what_the_client_cannot_do(address: str, run: Run, name: str, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocl=SSL\n")
    misspelt = run("topics", "list", "--command-config", str(properties))
    properties.write_text("default.api.timeout.ms=20000\nrequest.timeout.ms=10000\n")
    fine = run("topics", "list", "--command-config", str(properties), "-o", "json")
    refused = run("topics", "create", name, "--config", "retention.mss=1")
    missing = run("consume", name)

    assert (misspelt.returncode, misspelt.stderr) == (
        2, "error: client properties: unknown property 'security.protocl'; did you mean 'security.protocol'?\n",
    )  # fmt: skip
    assert fine.returncode == 0, fine.stderr
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "retention.mss" in refused.stderr
    assert missing.returncode == 1
    assert missing.stderr.startswith(f"error: there is no topic {name} at {address}; ")
