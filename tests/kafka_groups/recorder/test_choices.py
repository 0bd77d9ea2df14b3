"""The choices of the command line for each group, and the errors of impossible ones."""

import json
import re
from pathlib import Path

import pytest

from assignor.configs import AssignmentConfigs
from assignor.configs.kafka_versions import KafkaVersion
from assignor.errors import InputError
from assignor.recording.topology_fields import topology_document
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from assignor.types import TaskId, TopicPartition
from kafka_groups.recorder.choices import ShownTasks, TopologySource, group_choices, read_topology
from tests.checkout import ROOT
from tests.program import assignor

LOG = ROOT / "tests/kafka_groups/recorder/jvm_logs/high_availability.log.gz"
TOPOLOGY = GroupTopology((Subtopology(0, ("lines",), stores=(SubtopologyStore("counts", "wc-counts-changelog"),)),))
TEXT = ROOT / "tests/kafka_groups/described/texts/counting_lines.txt"


def test_should_take_configs_for_all_groups_and_over_them_those_of_one(tmp_path: Path) -> None:
    properties = tmp_path / "app.properties"
    assignor = "org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor"
    properties.write_text(
        f"application.id=b\nnum.standby.replicas=1\nmax.warmup.replicas=7\ninternal.task.assignor.class={assignor}\n"
    )
    chosen = group_choices(
        ["a", "b"],
        [],
        [f"b={properties}"],
        ["acceptable.recovery.lag=5", "b:num.standby.replicas=2", "topic.segment.bytes=9"],
        None,
    )
    common = {
        "acceptable_recovery_lag": 5,
        "topic_configs": {"segment.bytes": "9"},
        "kafka_version": KafkaVersion.V4_4,
    }
    assert [(each.group, each.assignor, each.configs) for each in chosen] == [
        ("a", "HighAvailabilityTaskAssignor", AssignmentConfigs(**common)),  # type: ignore[arg-type]
        (
            "b",
            "FallbackPriorTaskAssignor",
            AssignmentConfigs(num_standby_replicas=2, max_warmup_replicas=7, **common),  # type: ignore[arg-type]
        ),
    ]
    assert all(each.topology == TopologySource() for each in chosen)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([[], [], [], []], "--group: name at least one group"),
        ([["a", "a"], [], [], []], "--group: name each group once"),
        ([["a"], ["c=nowhere.txt"], [], []], "--topology: 'c' is not one of the groups (a)"),
        ([["a"], ["a=nowhere.txt"], [], []], "nowhere.txt: cannot be read"),
        ([["a"], [], [], ["num.standby.replica=1"]], "configs of a: unknown config 'num.standby.replica'"),
        ([["a"], [], [], ["c:num.standby.replicas=1"]], "--config: 'c' is not one of the groups (a)"),
        ([["a"], [], [], ["num.standby.replicas"]], "--config: must be key=value"),
        ([["a"], [], ["nowhere.properties"], ["num.standby.replicas"]], "--config: must be key=value"),
    ],
)
def test_should_say_what_is_wrong_with_the_options(arguments: list[list[str]], message: str) -> None:
    groups, topologies, files, configs = arguments
    with pytest.raises(InputError, match=re.escape(message)):
        group_choices(groups, topologies, files, configs, None)


def test_should_read_a_topology_as_json_and_as_text(tmp_path: Path) -> None:
    document = tmp_path / "topology.json"
    document.write_text(json.dumps({"input": {"topology": topology_document(TOPOLOGY)}}))
    given, described = read_topology(document), read_topology(TEXT)
    assert given.topology("wc", ShownTasks(), {}).topology == TOPOLOGY
    assert (given.origin, described.origin) == ("definition topology.json", "Topology#describe text counting_lines.txt")
    subtopology = described.topology("wc", ShownTasks(), {"lines": 2}).topology.subtopologies[0]
    assert (subtopology.source_topics, subtopology.stores[0].changelog_topic) == (("lines",), "wc-counts-changelog")
    shown = ShownTasks()
    shown.stateful.add(TaskId(0, 0))  # the group has run, so a changelog that is not there now will never be
    subtopology = described.topology("wc", shown, {"lines": 2}).topology.subtopologies[0]
    assert [store.changelog_topic for store in subtopology.stores if store.changelog_topic] == []


def test_should_infer_a_topology_from_what_the_group_shows() -> None:
    shown = ShownTasks()
    shown.subscribed = frozenset({"lines"})
    source = TopologySource()
    assert source.topology("wc", shown, {"lines": 1}).topology.subtopologies == (Subtopology(0, ("lines",)),)
    shown.assigned[TaskId(0, 0)] = {TopicPartition("lines", 0)}
    shown.stateful.add(TaskId(0, 0))
    counts = {"lines": 1, "wc-counts-changelog": 1}
    (subtopology,) = source.topology("wc", shown, counts).topology.subtopologies
    assert [store.changelog_topic for store in subtopology.stores] == ["wc-counts-changelog"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group", "g"], "error: --bootstrap-server: is missing"),
        (["--from-log", "nowhere.log"], "error: nowhere.log: cannot be read"),
        (["--from-log", "-", "--group", "g"], "error: --from-log: reads a log alone"),
    ],
)
def test_should_end_with_one_line_and_code_2_for_wrong_usage(arguments: list[str], message: str) -> None:
    ended = assignor("record", *arguments)
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)
    assert ended.stderr.startswith(message)


def test_should_import_what_a_jvm_leader_logged(tmp_path: Path) -> None:
    output = tmp_path / "placements.jsonl"
    configs = ["num.standby.replicas=1", "acceptable.recovery.lag=0", "max.warmup.replicas=1"]
    configs += ["rack.aware.assignment.tags=zone"]
    options = [option for config in configs for option in ("--config", config)]
    ended = assignor("record", "--from-log", str(LOG), "--output", str(output), *options)
    count = len(output.read_text().splitlines())
    assert (ended.returncode, ended.stdout, ended.stderr.splitlines()[-1]) == (0, "", f"{count} lines")
    checked = assignor("assign", "--check", "--format", "json", str(output))
    tally = json.loads(checked.stdout)
    assert (tally["total"], tally["equal_after_decoding"]) == (count, count)


def test_should_say_that_a_log_has_no_rebalance_in_it() -> None:
    ended = assignor("record", "--from-log", "-", stdin=b"INFO nothing of an assignor\n")
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "0 lines\n")
