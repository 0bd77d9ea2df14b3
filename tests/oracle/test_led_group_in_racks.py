"""A real Kafka Streams application on three brokers in three racks, with a rack-aware strategy (KIP-925): led by its
own JVM and led from Python, side by side.

Topics have one replica, so that nearly every partition is on another rack than most of the instances. Kafka draws the
brokers of internal topics, so only where the input is read is the same in both groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rebalance_analysis.rerun import run
from tests.known import known
from tests.oracle import led_groups as leading
from tests.oracle.brokers import NODES, Brokers
from tests.oracle.jars import RELEASES
from tests.oracle.scenario import GroupScenario
from tests.oracle.scenario_feed import create_topic_on, write
from tests.oracle.scenario_script import table
from tests.told import Tell

pytestmark = pytest.mark.kafka

INPUT = "racks-lines"
INPUT_IS_ON = (3, 3, 1, 2, 1, 2)
"""Broker of each partition."""
RACK_OF = {"a": "r1", "b": "r2", "c": "r3"}
TASKS = frozenset(f"{subtopology}_{number}" for subtopology in (0, 1) for number in range(len(INPUT_IS_ON)))
CONFIGS = {
    "rack.aware.assignment.strategy": "min_traffic",
    "num.standby.replicas": "1",
    "acceptable.recovery.lag": "1000000000",  # all are caught up, so that every round settles at once
    "replication.factor": "1",
    "session.timeout.ms": "60000",
}
LINES_WRITTEN = 300


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Of the brokers and of Kafka Streams."""
    return str(request.param)


@pytest.fixture
def brokers_in_racks(oracle_jars: str, release: str, tmp_path: Path) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path / "brokers", {"min.insync.replicas": "1"}, release)
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.kill()


def test_should_lead_by_racks_as_the_application_s_leader(
    brokers_in_racks: Brokers, release: str, tmp_path: Path, tell: Tell
) -> None:
    address = brokers_in_racks.bootstrap_servers
    create_topic_on(address, INPUT, INPUT_IS_ON)
    write(address, INPUT, ((str(number), f"line {number} of many") for number in range(LINES_WRITTEN)))
    with leading.led_groups(address, tmp_path, release) as made:
        groups = own, python = made.pair("racks", "words", TASKS, INPUT, CONFIGS, static=False)
        with leading.recording(address, groups, tmp_path) as recorder:
            with ThreadPoolExecutor(len(groups)) as threads:
                list(threads.map(_grow, groups))
            tell(table([(f"in three racks, Kafka {release}", own, python)]))
            rounds = made.generations_recorded(groups, recorder)
    assert [leading.leaders_of(rounds[group.application_id]) for group in groups] == [
        [leading.APPLICATION],
        [leading.PYTHON],
    ]
    assert [pair for pair in zip(python.results, own.results, strict=True) if not leading.as_many_rounds(*pair)] == []
    active = [{name: tasks for name, (tasks, _) in group.results[-1].placement.items()} for group in groups]
    assert [_read_in_their_rack(each) for each in active] == [len(INPUT_IS_ON)] * 2

    led = leading.led_file(python)
    assert _read_in_their_rack(_without_a_strategy(leading.lines_of(led)[-1])) < len(INPUT_IS_ON) // 2
    again = leading.decided_by_kafka(led, release)
    for file in (tmp_path / leading.RECORDED, led, again):
        tell(f"{file.relative_to(tmp_path)}: {leading.equal_again(file)}")
    assert leading.assignments_of(again) == leading.assignments_of(led)
    assert {line["kafka_version"] for line in leading.lines_of(led)} == {release}
    assert leading.assignments_of(led).items() <= leading.assignments_of(tmp_path / leading.RECORDED).items()
    for lines in (
        leading.lines_of(led),
        [line for line in leading.lines_of(tmp_path / leading.RECORDED) if line["group_id"] == own.application_id],
    ):
        _assert_that_brokers_and_new_topics_were_described(lines)


def _grow(group: GroupScenario) -> None:
    group.event("a starts", lambda: _begin(group))
    for name in "bc":
        group.event(f"{name} starts", lambda name=name: _start(group, name))  # type: ignore[misc]


def _begin(group: GroupScenario) -> None:
    if group.lead is not None:
        group.lead_alone()
    _start(group, "a")


def _start(group: GroupScenario, name: str) -> None:
    group.start(name, {"client.rack": RACK_OF[name]})


def _read_in_their_rack(active: Mapping[str, Iterable[str]]) -> int:
    """How many partitions of the input. `active`: instance to its tasks."""
    instance_of = {task: name for name, tasks in active.items() for task in tasks}
    return sum(RACK_OF[instance_of[f"0_{number}"]] == f"r{broker}" for number, broker in enumerate(INPUT_IS_ON))


def _without_a_strategy(line: dict[str, Any]) -> dict[str, list[str]]:
    configs = line["input"]["configs"] | {"rack.aware.assignment.strategy": "none"}
    _, placed = known(run({**line, "input": {**line["input"], "configs": configs}}).placed)
    return {str(process)[-1]: [str(task) for task in client.active] for process, client in placed.clients.items()}


def _assert_that_brokers_and_new_topics_were_described(lines: list[dict[str, Any]]) -> None:
    created: dict[str, Any] = {}
    for line in lines:
        source, output = line["input"], line["output"]
        assert {broker["id"]: broker["rack"] for broker in source["cluster"]["brokers"]} == {n: f"r{n}" for n in NODES}
        described = source.get("created_internal_topics") or {}
        assert described.keys() == output["created_topics"].keys()
        created |= described
    assert sorted(name.rpartition("-")[2] for name in created) == ["changelog", "repartition"]
    for topic in created.values():
        assert len(topic["replicas"]) == len(INPUT_IS_ON)
        assert {broker for holders in topic["replicas"] for broker in holders} <= set(NODES)
