"""`assignor record` on a real broker: kills lose and double no line, and what is no Kafka Streams group is refused."""

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.protocol.group_metadata import GroupKind, GroupMetadataValue
from tests.kafka_groups.recorder.group_records import value_of
from tests.kafka_groups.recorder.offsets_topic_writer import write_generations, write_other_kind
from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.broker import Broker
from tests.oracle.group_watch import create_offsets_topic
from tests.oracle.led_groups import lines_of
from tests.recorded import documents

pytestmark = pytest.mark.kafka

REBALANCES = [value_of(document) for document in documents("recordings/static.jsonl.gz")]
GENERATIONS = 40
KILLS = 3
PAUSE_S = 0.05


@pytest.fixture(scope="module")
def servers(oracle_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own, because no coordinator serves the groups that the tests write."""
    broker = Broker(tmp_path_factory.mktemp("recorder") / "broker")
    try:
        broker.start()
        asyncio.run(create_offsets_topic(broker.bootstrap_servers))
        yield broker.bootstrap_servers
    finally:
        broker.stop()


def recording(directory: Path, *arguments: str) -> AssignorProcess:
    """A recorder that runs; each has files of its own."""
    return AssignorProcess(f"record-{uuid.uuid4().hex}", ["record", *arguments], directory).start()


def generation(number: int) -> GroupMetadataValue:
    return replace(REBALANCES[number % len(REBALANCES)], generation=number)


def test_should_lose_and_double_no_line_when_it_is_killed(servers: str, tmp_path: Path) -> None:
    groups = ("killed-a", "killed-b")
    output = tmp_path / "rebalances.jsonl"
    arguments = ["--bootstrap-server", servers, "--output", str(output), "--from-start"]
    writers = []
    for group in groups:
        twice = [generation(number) for number in range(1, GENERATIONS + 1) for _ in range(2)]
        writers.append(threading.Thread(target=write_generations, args=(servers, group, twice, PAUSE_S)))
        arguments += ["--group", group]
    for writer in writers:
        writer.start()
    draw = random.Random(6)
    for _ in range(KILLS):
        recorder = recording(tmp_path, *arguments)
        recorder.wait_for_message("members", times=5)
        time.sleep(draw.random() / 20)  # anywhere between two lines, or in one
        recorder.kill()
    for writer in writers:
        writer.join()
    assert recording(tmp_path, *arguments, "--once").wait() == 0
    lines = lines_of(output)
    assert len({line["id"] for line in lines}) == len(lines)
    for group in groups:
        numbers = [line["generation_id"] for line in lines if line["group_id"] == group]
        assert numbers == list(range(1, GENERATIONS + 1))


def test_should_begin_with_the_next_generation_and_take_a_rewritten_one_for_none(servers: str, tmp_path: Path) -> None:
    first = REBALANCES[0]
    back = replace(first, members=(replace(first.members[0], member_id="back-again"), *first.members[1:]))
    write_generations(servers, "from-now", [first])
    output = tmp_path / "rebalances.jsonl"
    arguments = ["--bootstrap-server", servers, "--group", "from-now", "--output", str(output)]
    recorder = recording(tmp_path, *arguments, "--until-generations", "1")
    recorder.wait_for_message("from-now: generation 1, 6 members; following")
    write_generations(servers, "from-now", [back, generation(2)])
    assert recorder.wait() == 0
    assert [line["generation_id"] for line in lines_of(output)] == [2]
    assert recording(tmp_path, *arguments, "--once").wait() == 0
    assert [line["generation_id"] for line in lines_of(output)] == [2]


def test_should_refuse_the_streams_rebalance_protocol_and_go_on_with_other_groups(servers: str, tmp_path: Path) -> None:
    write_other_kind(servers, "of-kip-1071", GroupKind.STREAMS)
    write_generations(servers, "beside-it", [REBALANCES[0]])
    arguments = ["--bootstrap-server", servers, "--group", "of-kip-1071", "--from-start", "--once"]
    alone = recording(tmp_path, *arguments)
    assert alone.wait() == 2
    assert "speaks the streams rebalance protocol (KIP-1071)" in alone.lines()[-1]
    output = tmp_path / "rebalances.jsonl"
    both = recording(tmp_path, *arguments, "--group", "beside-it", "--output", str(output))
    assert both.wait() == 0, both.lines()
    assert any(line.endswith("; the other groups are recorded") for line in both.lines())
    assert [line["group_id"] for line in lines_of(output)] == ["beside-it"]
