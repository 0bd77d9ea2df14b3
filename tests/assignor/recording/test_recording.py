"""rebalance/1 and placement/1, both ways; strict reading."""

import contextlib
import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import AssignorFault, DecodeError, InputError
from assignor.pipeline import assign
from assignor.pipeline.snapshot import Member
from assignor.recording import (
    RecordedTopic,
    parse_placement,
    parse_rebalance,
    parse_rebalance_input,
    parse_recorded_placement,
    parse_recorded_rebalance,
    placement_output,
    rebalance_document,
    rebalance_input,
    rebalance_output,
)
from assignor.topology.group_topology import ChangelogType
from assignor.types import ProcessId, TaskId
from rebalance_analysis.rerun import run
from tests.known import known
from tests.recorded import PLACEMENTS, REBALANCES, RECORDINGS, document, documents

Document = dict[str, Any]
Change = Callable[[Document], object]

SMOKE: Document = document("recordings/smoke.jsonl.gz", "smoke.3")
PLACEMENT: Document = documents(PLACEMENTS[0])[0]


def changed(original: Document, change: Change) -> Document:
    mutable = copy.deepcopy(original)
    change(mutable)
    return mutable


@pytest.mark.parametrize("name", [REBALANCES, *RECORDINGS])
def test_should_write_what_was_read_so_that_it_reads_the_same(name: str) -> None:
    for line in documents(name):
        recorded = parse_recorded_rebalance(line)
        written = json.loads(json.dumps(rebalance_input(recorded.snapshot)))
        assert parse_rebalance_input(written) == recorded.snapshot, line["id"]


def test_should_write_a_topology_without_the_settings_that_it_does_not_have() -> None:
    read = copy.deepcopy(SMOKE["input"]["topology"])
    for subtopology in read["subtopologies"]:
        del subtopology["java_hash_code"]  # the recorder of Kafka's leader adds it
    written = rebalance_input(parse_recorded_rebalance(SMOKE).snapshot)["topology"]
    assert json.dumps(written) == json.dumps(read)


def test_should_write_a_line_that_gives_the_same_round_again() -> None:
    recorded = parse_recorded_rebalance(SMOKE)
    result = assign(recorded.snapshot, recorded.now_ms)
    line = rebalance_document(
        id="again",
        group_id=recorded.group_id,
        generation_id=4,
        now_ms=recorded.now_ms,
        source="coordinator",
        snapshot=recorded.snapshot,
        result=result,
        explanations=[{"task": "0_0", "text": "because"}],
    )
    again = parse_recorded_rebalance(json.loads(json.dumps(line)))
    assert (again.id, again.generation_id, again.source) == ("again", 4, "coordinator")
    assert again.snapshot == recorded.snapshot
    assert dict(known(again.output).assignments) == dict(result.assignments)
    assert line["output"] == {**rebalance_output(result), "explanations": [{"task": "0_0", "text": "because"}]}


@pytest.mark.parametrize(
    ("release", "version", "written"), [(None, "4.3", "4.3.1"), ("4.3.0", "4.3", "4.3.0"), ("4.4.7", "4.4", "4.4.7")]
)
def test_should_keep_the_release_of_a_line(release: str | None, version: str, written: str) -> None:
    line = {**SMOKE, "same_in": ["4.3.1", "4.4.0"]} if release is None else {**SMOKE, "kafka_version": release}
    recorded = parse_recorded_rebalance(line)
    assert str(recorded.snapshot.configs.kafka_version) == version
    again = rebalance_document(
        id="again",
        group_id=recorded.group_id,
        generation_id=4,
        now_ms=recorded.now_ms,
        source="coordinator",
        snapshot=recorded.snapshot,
        result=assign(recorded.snapshot, recorded.now_ms),
        kafka_version=recorded.kafka_version,
    )
    assert again["kafka_version"] == written


def test_should_read_every_part_of_a_line() -> None:
    recorded = parse_recorded_rebalance(document("recordings/smoke.jsonl.gz", "smoke.1"))
    assert (recorded.id, recorded.group_id) == ("smoke.1", "smoke")
    assert (recorded.source, recorded.note) == ("kafka", "1 instance")
    snapshot = recorded.snapshot
    assert snapshot.leader_process_id == ProcessId.parse("2230ea3e-4048-4d7d-bee0-e650940ec648")
    assert snapshot.configs.num_standby_replicas == 1
    windowed = known(snapshot.topology.subtopologies[3].stores[1].changelog)
    assert (windowed.type, windowed.retention_ms) == (ChangelogType.WINDOWED, 300_000)
    assert snapshot.cluster.topics["smoke-text"].replicas == ((1,),) * 4
    (member,) = snapshot.members.values()
    assert member.client_id == "a-StreamThread-1-consumer"
    assert known(known(recorded.output).created_topics)["smoke-counts-store-changelog"] == RecordedTopic(
        4, 1, {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    )


def test_should_read_a_placement_in_the_order_given() -> None:
    problem = parse_placement(PLACEMENT)
    assert [str(task) for task in problem.tasks] == PLACEMENT["tasks"]
    assert [str(process) for process in problem.clients] == list(PLACEMENT["clients"])
    client = next(iter(problem.clients.values()))
    assert client.lags.lag_for(TaskId(1, 2)) == 0
    recorded = parse_recorded_placement(PLACEMENT)
    assert placement_output(known(recorded.output)) == PLACEMENT["output"]


def test_should_take_a_store_without_changelog_settings_as_unwindowed() -> None:
    line = changed(SMOKE, lambda line: line["input"]["topology"]["subtopologies"][0]["stores"][0].pop("changelog"))
    assert parse_rebalance(line).topology.subtopologies[0].stores[0].changelog is None
    assert run(line).comparison() is not None


WRONG = json.loads((Path(__file__).parent / "wrong_lines.json").read_text())
WRONG.append((["generation_id"], 10**5000, "a number of 16610 bits"))


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_should_name_the_path_of_what_is_wrong(path: list[Any], value: object, message: str) -> None:
    def change(line: Document) -> None:
        inner: Any = line
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    with pytest.raises(InputError, match=re.escape(message)):
        parse_recorded_rebalance(changed(SMOKE, change))


REQUIRED = ["format", "id", "group_id", "generation_id", "now_ms", "source", "input"]


@pytest.mark.parametrize("name", [*REQUIRED, *(f"input.{name}" for name in sorted(SMOKE["input"]))])
def test_should_miss_a_field(name: str) -> None:
    part, _, of_input = name.rpartition(".")
    with pytest.raises(InputError, match=f"^{re.escape(name)}: is missing$"):
        parse_recorded_rebalance(changed(SMOKE, lambda line: (line[part] if part else line).pop(of_input)))


MIN_TRAFFIC = {"rack.aware.assignment.strategy": "min_traffic"}
WRONG_PLACEMENTS: list[tuple[Change, str]] = [
    (lambda line: line["configs"].update(MIN_TRAFFIC), "task_partitions: is missing; it is needed with a rack.aware"),
    (lambda line: line.update(partition_racks={}), "task_partitions: is missing; it is needed beside partition_racks"),
    (
        lambda line: line.update(task_partitions={}, changelog_partitions={}, partition_racks={}),
        f"task_partitions: {min(PLACEMENT['tasks'], key=TaskId.parse)} is missing",
    ),
    (
        lambda line: line.update(task_partitions={"0_0": [["t"]]}, changelog_partitions={}, partition_racks={}),
        "task_partitions['0_0'][0]: must be a list of a topic and a partition",
    ),
    (
        lambda line: line.update(task_partitions={"0_0": [["t", -1]]}, changelog_partitions={}, partition_racks={}),
        "task_partitions['0_0'][0][1]: must be",
    ),
    (
        lambda line: line.update(task_partitions={}, changelog_partitions={}, partition_racks={"t": [[1]]}),
        "partition_racks.t[0][0]: must be",
    ),
    (lambda line: line["tasks"].append("0"), "tasks[15]: '0' is not a task id"),
    (lambda line: line["tasks"].append(line["tasks"][0]), "tasks: a task is given twice"),
    (lambda line: line["tasks"].append("name__0_0"), "tasks: all tasks have to be of one topology"),
    (lambda line: line["stateful"].append("9_9"), "stateful: 9_9 is not in tasks"),
    (lambda line: line["stateful"].append("0_99999999999"), "has a number above"),
    (lambda line: line.update(clients={}), "clients: at least one client is needed"),
    (lambda line: line["clients"].update({"x": {}}), "clients.x: 'x' is not a process id"),
    (
        lambda line: line["clients"].update({key.upper(): value for key, value in line["clients"].items()}),
        "the same process id is given twice",
    ),
    (lambda line: next(iter(line["clients"].values())).update(capacity=0), "capacity: must be from 1"),
    (lambda line: next(iter(line["clients"].values()))["consumers"].pop(), "has 2 consumers for a capacity of 3"),
    (lambda line: next(iter(line["clients"].values()))["lags"].update({"0_0": 1.5}), "must be a whole number"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_PLACEMENTS)
def test_should_name_the_path_of_what_is_wrong_in_a_placement(change: Change, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        parse_recorded_placement(changed(PLACEMENT, change))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["smoke-text", "AAMAAAAA", "HighAvailabilityTaskAssignor", "0_0", 2**31, 2**63, -1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_should_answer_any_damaged_document_with_an_error_of_its_own(data: st.DataObject) -> None:
    """Whatever one value of the line becomes: the round runs, or the error is ours; never a stack trace."""
    line = copy.deepcopy(data.draw(st.sampled_from([SMOKE, PLACEMENT])))
    inner: Any = line
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(inner[key], (dict, list)) or not inner[key] or data.draw(st.booleans()):
            break
        inner = inner[key]
    if data.draw(st.booleans()):
        del inner[key]
    else:
        inner[key] = data.draw(JSON)
    with contextlib.suppress(AssignorFault):
        ran = run(line)
        json.dumps(ran.output())
        ran.comparison()


def test_should_refuse_an_interrupted_generation_that_has_an_output() -> None:
    interrupted = {key: value for key, value in SMOKE.items() if key != "output"} | {"interrupted": True}
    assert parse_recorded_rebalance(interrupted).interrupted
    with pytest.raises(InputError, match="output: is there, although the generation was interrupted"):
        parse_recorded_rebalance({**SMOKE, "interrupted": True})


@given(st.data())
def test_should_answer_any_damaged_subscription_with_a_decode_error_or_a_round(data: st.DataObject) -> None:
    snapshot = parse_rebalance(SMOKE)
    name, member = next(iter(snapshot.members.items()))
    raw = bytearray(member.subscription)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(1, len(raw))) :]
    members = {**snapshot.members, name: Member(bytes(raw))}
    with contextlib.suppress(DecodeError):
        result = assign(replace(snapshot, members=members), 0)
        assert result.error is not None or set(result.assignments) == set(members)
