"""The program `assignor lead` and a Java Kafka Streams application: leaders are killed in the middle of a rebalance."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_groups.leader.stopping_assignor import STOPPED, StopsAtThree, StopsAtTwo
from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.broker import Broker
from tests.oracle.led_groups import lines_of
from tests.oracle.scenario_feed import create_topics, write
from tests.oracle.streams_app import InstanceTasks, StreamsInstance, topology_description
from tests.program import assignor_process
from tests.told import Tell

pytestmark = [pytest.mark.kafka, pytest.mark.long]

TASKS = {"0_0", "0_1", "0_2", "0_3"}
PROCESS_IDS = tuple(f"00000000-0000-4000-8000-00000000000{last}" for last in "bac")
LEAST_SESSION_S = 6.0
_HEARTBEAT_S = 3.0
_LONGEST_WAIT_S = 40.0
_JOINING_S = 3.0
"""Time for members to learn of a rebalance, to join it and to get their tasks."""


def test_should_hold_a_rebalance_for_one_session_when_a_leader_dies(
    kafka_broker: Broker, tmp_path: Path, tell: Tell
) -> None:
    address, group = kafka_broker.bootstrap_servers, "dying-leader"
    topology, recorded, led = (tmp_path / name for name in ("topology.txt", "recorded.jsonl", "led.jsonl"))
    configs = {"acceptable.recovery.lag": "0", "app.input": f"{group}-in", "app.output": f"{group}-out"}
    create_topics(address, {configs["app.input"]: 4, configs["app.output"]: 1})
    topology.write_text(topology_description("count-by-key", tmp_path / "topology", configs))
    write(address, configs["app.input"], ((f"key {number % 40}", "") for number in range(400)))
    leads = ["lead", "--store", "counts=key-value", "--output", str(led), "--assignor"]
    with ExitStack() as cleanup:

        def command(name: str, *arguments: str) -> AssignorProcess:
            of_group = ["--bootstrap-server", address, "--group", group, "--topology", str(topology)]
            given = [*arguments, *of_group, "--config", "acceptable.recovery.lag=0"]
            process = AssignorProcess(name, given, tmp_path)
            cleanup.callback(process.kill)
            return process.start()

        def instance(number: int) -> StreamsInstance:
            made = StreamsInstance(
                address,
                group,
                tmp_path / f"instance-{number}",
                topology="count-by-key",
                configs=configs,
                process_id=PROCESS_IDS[number],
            )
            cleanup.callback(made.kill)
            return made.start()

        recorder = command("record", "record", "--output", str(recorded))
        recorder.wait_for_message("waiting for ")
        lead = command("first", *leads, StopsAtTwo().name)
        lead.wait_for_message("without members of the application")
        first = instance(0)
        first.wait_until(lambda: set(first.tasks().active) == TASKS, "all tasks")

        second = instance(1)
        lead.wait_for_message(STOPPED)
        lead.kill()
        killed_at = time.monotonic()
        again = command("again", *leads, StopsAtThree().name)
        again.wait_for_message("2 members of 2 processes")
        again_after_s = time.monotonic() - killed_at
        interrupted = [line["generation_id"] for line in _wait_for_interrupted(recorded, recorder, 1)]
        tell(f"leads again {again_after_s:.1f} s after the leader died in a rebalance")
        if again_after_s < _HEARTBEAT_S:  # later, on a busy machine, the members have begun another rebalance by then
            assert [line["generation_id"] for line in lines_of(led) if line.get("interrupted")] == interrupted

        third = instance(2)
        again.wait_for_message(STOPPED)
        again.kill()
        killed_at = time.monotonic()
        third.wait_until(lambda: third.tasks() != InstanceTasks((), ()), "tasks", LEAST_SESSION_S + _JOINING_S)
        tell(f"tasks again {time.monotonic() - killed_at:.1f} s after the leader died in a rebalance")
        lines = _wait_for_interrupted(recorded, recorder, len(interrupted) + 1)
        for each in (first, second, third):
            assert each.exceptions == []

        assert recorder.terminate() == 0
        assert "is gone; the input is that of generation" in lines[-1]["note"]
        completed = [line for line in lines_of(recorded) if not line.get("interrupted")]
        ids = [line["generation_id"] for line in completed]
        assert sorted([*ids, *(line["generation_id"] for line in lines)]) == list(range(ids[0], ids[-1] + 1))
        leaders = {line["generation_id"]: line.get("led_by") for line in completed}
        first_of_jvm = min(generation for generation, leader in leaders.items() if leader is None)
        assert interrupted[0] < lines[-1]["generation_id"] < first_of_jvm  # the restart kept the lead
        checked = assignor_process("assign", "--check", str(recorded))
        assert checked.returncode == 0, checked.stderr


def _wait_for_interrupted(recorded: Path, recorder: AssignorProcess, count: int) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]]:
        return [line for line in lines_of(recorded) if line.get("interrupted") is True]

    recorder.wait_until(lambda: len(found()) >= count, f"{count} interrupted generations", _LONGEST_WAIT_S)
    return found()
