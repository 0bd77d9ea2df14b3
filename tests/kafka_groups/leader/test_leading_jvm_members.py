"""The program `assignor lead` and a Java Kafka Streams application: leaders are killed, stand by, and hand back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from assignor.rerun import RerunRebalance, run
from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.broker import Broker
from tests.oracle.scenario_feed import create_topics, write
from tests.oracle.streams_app import StreamsInstance, topology_description
from tests.program import assignor_process

pytestmark = pytest.mark.kafka

GROUP = "leading-jvm"
TASKS = {"0_0", "0_1", "0_2", "0_3"}
CONFIGS = {"acceptable.recovery.lag": "0", "app.input": f"{GROUP}-in", "app.output": f"{GROUP}-out"}
PROCESS_IDS = ("00000000-0000-4000-8000-00000000000b", "00000000-0000-4000-8000-00000000000a")
_LONGEST_WAIT_S = 40.0


@dataclass(frozen=True, slots=True)
class _Stand:
    address: str
    directory: Path
    cleanup: ExitStack

    @property
    def arguments(self) -> list[str]:
        arguments = ["lead", "--bootstrap-server", self.address, "--group", GROUP, "--session-timeout-ms", "9000"]
        arguments += ["--topology", str(self.directory / "topology.txt"), "--config", "acceptable.recovery.lag=0"]
        return [*arguments, "--output", str(self.directory / "led.jsonl")]

    def lead(self, name: str, *more: str) -> AssignorProcess:
        lead = AssignorProcess(name, [*self.arguments, *more], self.directory)
        self.cleanup.callback(lead.kill)
        lead.start()
        return lead

    def instance(self, number: int) -> StreamsInstance:
        instance = StreamsInstance(
            self.address,
            GROUP,
            self.directory / f"instance-{number}",
            topology="count-by-key",
            configs=CONFIGS,
            process_id=PROCESS_IDS[number],
        )
        self.cleanup.callback(instance.kill)
        return instance.start()

    def wait(self, lead: AssignorProcess, words: str) -> None:
        lead.wait_until(lambda: words in lead.last_words(), words, _LONGEST_WAIT_S)

    @property
    def rebalances(self) -> list[RerunRebalance]:
        lines = (self.directory / "led.jsonl").read_text().splitlines()
        rebalances = [run(json.loads(line)) for line in lines]
        return [each for each in rebalances if isinstance(each, RerunRebalance)]


@contextmanager
def _stand(address: str, directory: Path) -> Iterator[_Stand]:
    create_topics(address, {CONFIGS["app.input"]: 4, CONFIGS["app.output"]: 1})
    (directory / "topology.txt").write_text(topology_description("count-by-key", directory / "topology", CONFIGS))
    write(address, CONFIGS["app.input"], ((f"key {number % 40}", "") for number in range(400)))
    with ExitStack() as cleanup:
        yield _Stand(address, directory, cleanup)


def test_should_keep_a_jvm_application_running_through_all_that_happens_to_its_leader(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    with _stand(kafka_broker.bootstrap_servers, tmp_path) as stand:
        lead = stand.lead("first")
        stand.wait(lead, "without members of the application")
        first = stand.instance(0)
        first.wait_until(lambda: set(first.tasks().active) == TASKS, "all tasks")
        second = stand.instance(1)
        stand.wait(lead, "2 members of 2 processes")
        second.wait_for_state("RUNNING")
        second.wait_until(lambda: second.tasks().standby != (), "warm-ups")
        _check_that_a_member_probes(stand.rebalances[-1])
        rebalances = len(stand.rebalances)

        lead.kill()
        again = stand.lead("again")
        stand.wait(again, "the lead is kept without a rebalance")
        standby = stand.lead("standby", "--standby")
        stand.wait(standby, "standing by")
        again.kill()
        stand.wait(standby, "the lead is kept without a rebalance")
        assert len(stand.rebalances) == rebalances

        assert standby.terminate() == 0
        refused = assignor_process(*stand.arguments)
        assert (refused.returncode, "2 members, and one of them leads it" in refused.stderr) == (1, True)
        for instance in (first, second):
            assert (instance.state, instance.exceptions) == ("RUNNING", [])
        assert set(first.tasks().active) | set(second.tasks().active) == TASKS
        for ran in stand.rebalances:
            comparison = ran.comparison()
            assert comparison is not None
            assert comparison.bytes_equal


def _check_that_a_member_probes(ran: RerunRebalance) -> None:
    """The new process, which is the lowest, has the deadline: it probes also when no leader of ours lives."""
    assert ran.result.probing_rebalance_at_ms is not None
    assert str(ran.recorded.snapshot.leader_process_id) == min(PROCESS_IDS)
