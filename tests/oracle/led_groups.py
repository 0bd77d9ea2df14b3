"""What tests of led groups ask of their recordings, and the commands that make these: `assignor record` and `lead`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from assignor.configs.kafka_versions import version_of_release
from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.group_watch import Generation, GroupWatch
from tests.oracle.jars import DEFAULT_RELEASE
from tests.oracle.oracle import Oracle
from tests.oracle.scenario import EventResult, GroupScenario
from tests.oracle.scenario_feed import create_topics
from tests.oracle.streams_app import topology_description
from tests.program import assignor

RECORDED = "recorded.jsonl"
APPLICATION, PYTHON = "one of the application", "Python"
LONGEST_RECORDING_S = 30.0

_ASSIGNMENT_CONFIGS = (
    "num.standby.replicas",
    "acceptable.recovery.lag",
    "probing.rebalance.interval.ms",
    "rack.aware.assignment.strategy",
    "replication.factor",
)
_LEAD_SESSION_MS = "60000"


def as_many_rounds(one: EventResult, other: EventResult) -> bool:
    """Exactly, unless members were overtaken: each time may have cost a round."""
    return one.rounds - one.overtaken <= other.rounds and other.rounds - other.overtaken <= one.rounds


def leaders_of(generations: list[Generation]) -> list[str]:
    """Who led, one after the other."""
    return [who for who, _ in groupby(PYTHON if each.is_led_from_outside else APPLICATION for each in generations)]


def equal_again(recording: Path) -> str:
    """In words, how many rounds came out again. Raises AssertionError when one did not, or cannot be used."""
    checked = assignor("assign", str(recording), "--check")
    assert checked.returncode == 0, checked.stderr
    return " ".join(next(line for line in checked.stdout.splitlines() if line.startswith("equal after")).split())


def decided_by_kafka(led: Path, release: str = DEFAULT_RELEASE) -> Path:
    """The rounds that Python led, each decided once more by the leader of a release of Kafka Streams."""
    again = led.with_name(f"decided-by-kafka-{release}.jsonl")
    lines = [line for line in lines_of(led) if not line.get("interrupted")]
    with Oracle(release=release) as kafka:
        again.write_text("".join(json.dumps(kafka.ask(line)) + "\n" for line in lines))
    return again


def assignments_of(recording: Path) -> dict[tuple[str, int], dict[str, str]]:
    """Group and generation to what each member was sent."""
    lines = [line for line in lines_of(recording) if not line.get("interrupted")]
    return {(line["group_id"], line["generation_id"]): line["output"]["assignments"] for line in lines}


def lines_of(recording: Path) -> list[dict[str, Any]]:
    """All that are whole; the last may just be written."""
    whole, _, _ = recording.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def recorded_generations(file: Path) -> dict[str, list[int]]:
    """Group to the generations that `assignor record` wrote, less those that another rebalance overtook."""
    found: dict[str, list[int]] = {}
    for line in lines_of(file):
        if line.get("interrupted"):
            continue
        found.setdefault(line["group_id"], []).append(line["generation_id"])
    return found


def led_file(group: GroupScenario) -> Path:
    return group.directory / "led.jsonl"


@contextmanager
def recording(
    address: str, groups: Sequence[GroupScenario], directory: Path, file: str = RECORDED
) -> Iterator[AssignorProcess]:
    """Follows the groups from before their first round until after their last, into one file. With another file than
    RECORDED their topologies are inferred.
    """
    arguments = ["record", "--bootstrap-server", address, "--output", str(directory / file)]
    arguments += ["--kafka-version", version_of_release(groups[0].release)]
    for group in groups:
        name = group.application_id
        arguments += ["--group", name]
        if file == RECORDED:
            arguments += ["--topology", f"{name}={_described(group.topology, group.directory, group.configs)}"]
        for key in _ASSIGNMENT_CONFIGS:
            if key in group.configs:
                arguments += ["--config", f"{name}:{key}={group.configs[key]}"]
    recorder = AssignorProcess(file, arguments, directory).start()
    try:
        follows = [f"{group.application_id}: there is no such group yet" for group in groups]
        recorder.wait_until(lambda: all(each in recorder.messages() for each in follows), "start", LONGEST_RECORDING_S)
        yield recorder
        assert recorder.terminate() == 0, recorder.last_words()
    finally:
        recorder.kill()


def _described(topology: str, directory: Path, configs: Mapping[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    described = directory / "topology.txt"
    described.write_text(topology_description(topology, directory, configs))
    return described


def python_leader(
    address: str, group: str, topology: str, directory: Path, configs: dict[str, str], release: str = DEFAULT_RELEASE
) -> AssignorProcess:
    """`release`: of the members. A release of another version decides by other rules."""
    described = str(_described(topology, directory, configs))
    arguments = ["lead", "--bootstrap-server", address, "--group", group, "--topology", described]
    arguments += ["--kafka-version", version_of_release(release)]
    arguments += ["--session-timeout-ms", _LEAD_SESSION_MS, "--standby"]  # one that was killed is missed only after 6 s
    for name in _ASSIGNMENT_CONFIGS:
        if name in configs:
            arguments += ["--config", f"{name}={configs[name]}"]
    arguments += ["--config", f"topology.optimization={configs.get('topology.optimization', 'none')}"]
    return AssignorProcess("lead", [*arguments, "--output", str(directory / "led.jsonl")], directory)


@dataclass(frozen=True, slots=True)
class LedGroups:
    """Groups on one broker, of members of one release. `watch`: follows them; `recorder`: records them, all into one
    file of `directory`.
    """

    address: str
    directory: Path
    watch: GroupWatch
    cleanup: ExitStack
    release: str

    def pair(
        self, name: str, topology: str, tasks: frozenset[str], source: str, configs: dict[str, str], *, static: bool
    ) -> tuple[GroupScenario, GroupScenario]:
        """The same application under its own leader, and under the Python leader."""
        made = []
        for group in (f"{name}-own", f"{name}-python"):
            own = configs | {"app.input": source, "app.output": f"{group}-counts"}
            create_topics(self.address, {f"{group}-counts": 1})
            directory = self.directory / group
            of_group = (self.address, group, topology, directory, own, self.release)
            lead = python_leader(*of_group) if group.endswith("-python") else None
            made.append(
                GroupScenario(
                    group, self.address, self.watch, directory, topology, tasks, own, static, lead, self.release
                )
            )
            self.cleanup.callback(made[-1].stop)
        return made[0], made[1]

    def generations_recorded(
        self, groups: Sequence[GroupScenario], recorder: AssignorProcess, file: str = RECORDED
    ) -> dict[str, list[Generation]]:
        """Group to its generations with members of the application, once the recorder has a line of each."""
        names = [group.application_id for group in groups]
        rounds = {name: [each for each in self.watch.generations(name) if each.workers] for name in names}
        numbers = {group: [each.id for each in generations] for group, generations in rounds.items()}
        recorder.wait_until(
            lambda: recorded_generations(self.directory / file) == numbers, f"lines of {numbers}", LONGEST_RECORDING_S
        )
        return rounds


@contextmanager
def led_groups(address: str, directory: Path, release: str = DEFAULT_RELEASE) -> Iterator[LedGroups]:
    with GroupWatch(address) as watch, ExitStack() as cleanup:
        yield LedGroups(address, directory, watch, cleanup, release)
