"""A real Kafka Streams group is recorded while it grows, loses a member and bounces another, and lines flow.

The recorder is killed in between. What it wrote is compared with what an independent reader of the same records saw,
and every rebalance is run again: this project's own leader decides what Kafka's did.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.broker import Broker
from tests.oracle.group_watch import Generation, GroupWatch
from tests.oracle.led_groups import lines_of
from tests.oracle.scenario_feed import LineFeed, create_topics
from tests.oracle.streams_app import StreamsInstance, topology_description
from tests.program import assignor

pytestmark = pytest.mark.kafka

APPLICATION, INPUT, OUTPUT = "recorded-words", "recorded-lines", "recorded-counts"
CONFIGS = {
    "num.standby.replicas": "1",
    "acceptable.recovery.lag": "20",  # low, so that it matters how far each member is behind
    "num.stream.threads": "2",
    "app.input": INPUT,
    "app.output": OUTPUT,
}
SESSION_TIMEOUT_MS = {"a": "30000", "b": "3000", "c": "30000"}
"""Of b, which is killed: until it is missed. Of the others: longer than a start takes on a busy machine."""
QUIET_S = 1.5
LONGEST_WAIT_S = 60.0


def test_should_record_every_rebalance_of_a_real_group_so_that_it_can_be_run_again(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    address = kafka_broker.bootstrap_servers
    create_topics(address, {INPUT: 3, OUTPUT: 1})
    described = tmp_path / "words.txt"
    described.write_text(topology_description("words", tmp_path, CONFIGS))
    by_text, inferred = tmp_path / "by-text.jsonl", tmp_path / "inferred.jsonl"
    arguments = ["--bootstrap-server", address, "--group", APPLICATION]
    arguments += ["--config", "num.standby.replicas=1", "--config", "acceptable.recovery.lag=20"]
    with_text = [*arguments, "--output", str(by_text), "--topology", str(described)]
    instances = {name: instance(address, tmp_path / name, name) for name in "abc"}
    with GroupWatch(address) as watch, LineFeed(address, INPUT):
        recorders = [
            AssignorProcess("by-text", ["record", *with_text], tmp_path).start(),
            AssignorProcess("inferred", ["record", *arguments, "--output", str(inferred)], tmp_path).start(),
        ]
        for recorder in recorders:
            recorder.wait_until_said("waiting for its first generation")
        try:
            instances["a"].start().wait_for_state("RUNNING")
            settled(watch)
            recorders[0].kill()
            recorders[0].start()
            recorders[0].wait_until_said("following")
            for name in "bc":
                instances[name].start()
            for name in "bc":
                instances[name].wait_for_state("RUNNING")
            settled(watch)
            instances["b"].kill()
            watch.wait_until(APPLICATION, lambda last: len(last.members if last else ()) == 4, "loss", LONGEST_WAIT_S)
            settled(watch)
            instances["c"].close()
            instances["c"].start().wait_for_state("RUNNING")
            settled(watch)
        finally:
            for each in instances.values():
                each.kill()
        generations = watch.generations(APPLICATION)
        for recorder in recorders:
            recorder.wait_until_said(f"{APPLICATION}: generation {generations[-1].id},")
            assert recorder.terminate() == 0
    assert any(generation.rewritten for generation in generations), "the static bounce rewrites a generation"
    for file in (by_text, inferred):
        # a generation that another rebalance overtook has a line, and never got an assignment
        lines = [line for line in lines_of(file) if not line.get("interrupted")]
        assert [line["generation_id"] for line in lines] == [
            generation.id for generation in generations if generation.members
        ]
        checked = assignor("assign", "--check", "--format", "json", str(file))
        tally = json.loads(checked.stdout)
        assert (checked.returncode, tally["equal_after_decoding"], tally["differences"]) == (0, len(lines), [])
    first, second = [line for line in lines_of(by_text) if not line.get("interrupted")][:2]
    made = {f"{APPLICATION}-counts-changelog": 3, f"{APPLICATION}-counts-repartition": 3}
    assert first["output"]["internal_topics"] == made
    # a rebalance that the group gave up, because another thread joined, is no generation, but may have created a topic
    created, existed = set(first["output"]["created_topics"]), set(first["input"]["existing_internal_topics"])
    assert created.isdisjoint(existed)
    assert created | existed == set(made)
    assert set(second["input"]["existing_internal_topics"]) == set(made)
    assert first["note"].startswith("topology: Topology#describe text words.txt")
    assert lines_of(inferred)[0]["note"].startswith("topology: inferred from assignments and topic names")


def instance(address: str, directory: Path, name: str) -> StreamsInstance:
    configs = {**CONFIGS, "group.instance.id": name, "session.timeout.ms": SESSION_TIMEOUT_MS[name]}
    return StreamsInstance(address, APPLICATION, directory, topology="words", configs=configs)


def settled(watch: GroupWatch) -> None:
    """No generation for a while. Nothing tells that none will come."""
    deadline = time.monotonic() + LONGEST_WAIT_S
    last: Generation | None = None
    since = time.monotonic()
    while time.monotonic() - since < QUIET_S:
        assert time.monotonic() < deadline, f"the group does not settle: {last}"
        now = watch.latest(APPLICATION)
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.05)
