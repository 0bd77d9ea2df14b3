"""A real Kafka Streams application, led by its own JVM and led from Python, through the same events side by side.

Two applications of each kind go through their scripts at the same time on one broker, so that the minute that Kafka
makes a probing rebalance wait is waited for once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.assignor_process import AssignorProcess
from tests.oracle.broker import Broker
from tests.oracle.group_watch import Generation, GroupWatch
from tests.oracle.oracle import Oracle
from tests.oracle.scenario import EventResult, GroupScenario
from tests.oracle.scenario_feed import LineFeed, create_topics, wait_for_counts, write
from tests.oracle.scenario_script import (
    KEYS,
    KEYS_CONFIGS,
    KEYS_PARTITIONS,
    KEYS_TASKS,
    LINES,
    LINES_PARTITIONS,
    WORDS_CONFIGS,
    WORDS_TASKS,
    members_come_and_go,
    table,
    warm_ups_take_over,
)
from tests.oracle.streams_app import topology_description
from tests.program import assignor
from tests.told import Tell

pytestmark = pytest.mark.kafka

_ASSIGNMENT_CONFIGS = ("num.standby.replicas", "acceptable.recovery.lag", "probing.rebalance.interval.ms")
_RECORDED = "recorded.jsonl"
_CHOSEN_OFFSETS = "taken because the leader's result follows from it"
_KEYS_WRITTEN = 800
_APPLICATION, _PYTHON = "one of the application", "Python"
_LEAD_SESSION_MS = "60000"
_LONGEST_RECORDING_S = 30.0


@dataclass(frozen=True, slots=True)
class _Groups:
    """Each under its own leader, then under the Python leader."""

    words: tuple[GroupScenario, GroupScenario]
    keys: tuple[GroupScenario, GroupScenario]

    @property
    def all(self) -> tuple[GroupScenario, ...]:
        return (*self.words, *self.keys)


def test_should_settle_in_the_same_rounds_as_under_its_own_leader_and_lose_nothing(
    kafka_broker: Broker, tmp_path: Path, tell: Tell
) -> None:
    address = kafka_broker.bootstrap_servers
    create_topics(address, {LINES: LINES_PARTITIONS, KEYS: KEYS_PARTITIONS})
    write(address, KEYS, ((f"key {number % 40}", "") for number in range(_KEYS_WRITTEN)))
    with (
        GroupWatch(address) as watch,
        _groups(address, watch, tmp_path) as groups,
        _recorder(address, groups, tmp_path) as recorder,
    ):
        with LineFeed(address, LINES) as feed:
            _run(groups, feed)
        tell(f"{table([('static members, exactly-once', *groups.words), ('warm-ups', *groups.keys)])}")
        tell(f"{feed.lines} lines, {feed.words.total()} words counted by each of the two applications")
        for group in groups.words:
            wait_for_counts(address, f"{group.application_id}-counts", feed.words)
        rounds = {group.application_id: _rounds(watch, group) for group in groups.all}
        numbers = {group: [each.id for each in generations] for group, generations in rounds.items()}
        recorder.wait_until(lambda: _recorded(tmp_path) == numbers, f"lines of {numbers}", _LONGEST_RECORDING_S)
    for own, python in (groups.words, groups.keys):
        compared = python.results[: len(own.results)]
        assert [each.name for each in compared] == [each.name for each in own.results]
        assert [pair for pair in zip(compared, own.results, strict=True) if not _as_many_rounds(*pair)] == []
        assert [each.placement for each in compared] == [each.placement for each in own.results]
        assert [each.probing for each in compared] == [each.probing for each in own.results]
    assert [each.probing for each in groups.keys[1].results] == [(), ("a",), (), (), ()]
    assert [_leaders(rounds[group.application_id]) for group in groups.all] == [
        [_APPLICATION],
        [_PYTHON, _APPLICATION],  # the lead is handed back in the end
        [_APPLICATION],
        [_PYTHON],
    ]
    led_files = [_led(group) for group in (groups.words[1], groups.keys[1])]
    for file in (tmp_path / _RECORDED, *led_files, *map(_decided_by_kafka, led_files)):
        tell(f"{file.relative_to(tmp_path)}: {_equal(file)}")
    chosen = sum(_CHOSEN_OFFSETS in line["note"] for line in _lines(tmp_path / _RECORDED))
    tell(f"lines of {_RECORDED} with offsets that nobody saw, only found between two looks: {chosen}")
    delivered = _assignments(tmp_path / _RECORDED)
    for group in (groups.words[1], groups.keys[1]):
        name = group.application_id
        led = [(name, generation.id) for generation in rounds[name] if generation.is_led_from_outside]
        assert _assignments(_led(group)) == {each: delivered[each] for each in led}


def _as_many_rounds(one: EventResult, other: EventResult) -> bool:
    """Exactly, unless members were overtaken: each time may have cost a round."""
    return one.rounds - one.overtaken <= other.rounds and other.rounds - other.overtaken <= one.rounds


def _rounds(watch: GroupWatch, group: GroupScenario) -> list[Generation]:
    """A generation with nobody but the Python leader in it is none."""
    return [generation for generation in watch.generations(group.application_id) if generation.workers]


def _leaders(generations: list[Generation]) -> list[str]:
    """Who led, one after the other."""
    return [who for who, _ in groupby(_PYTHON if each.is_led_from_outside else _APPLICATION for each in generations)]


def _equal(recording: Path) -> str:
    """In words, how many rounds came out again. Raises AssertionError when one did not, or cannot be used."""
    checked = assignor("assign", str(recording), "--check")
    assert checked.returncode == 0, checked.stderr
    return " ".join(next(line for line in checked.stdout.splitlines() if line.startswith("equal after")).split())


def _decided_by_kafka(led: Path) -> Path:
    """The rounds that Python led, each decided once more by Kafka Streams' own leader."""
    again = led.with_name("decided-by-kafka.jsonl")
    with Oracle() as kafka:
        again.write_text("".join(json.dumps(kafka.ask(line)) + "\n" for line in _lines(led)))
    return again


def _assignments(recording: Path) -> dict[tuple[str, int], dict[str, str]]:
    """Group and generation to what each member was sent."""
    return {(line["group_id"], line["generation_id"]): line["output"]["assignments"] for line in _lines(recording)}


def _lines(recording: Path) -> list[dict[str, Any]]:
    """All that are whole; the last may just be written."""
    whole, _, _ = recording.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def _recorded(directory: Path) -> dict[str, list[int]]:
    """Group to the generations that `assignor record` wrote."""
    found: dict[str, list[int]] = {}
    for line in _lines(directory / _RECORDED):
        found.setdefault(line["group_id"], []).append(line["generation_id"])
    return found


def _led(group: GroupScenario) -> Path:
    return group.directory / "led.jsonl"


def _run(groups: _Groups, feed: LineFeed) -> None:
    """All scripts at the same time; lines flow until the groups that read them have been through theirs."""
    with ThreadPoolExecutor(len(groups.all)) as threads:
        words = [threads.submit(members_come_and_go, group) for group in groups.words]
        keys = [threads.submit(warm_ups_take_over, group) for group in groups.keys]
        try:
            for script in as_completed(words + keys):
                script.result()
                if all(each.done() for each in words):
                    feed.stop()
        except BaseException:
            for group in groups.all:
                group.stop()  # and with it the scripts that wait for them
            raise


@contextmanager
def _groups(address: str, watch: GroupWatch, directory: Path) -> Iterator[_Groups]:
    def group(name: str, topology: str, tasks: frozenset[str], configs: dict[str, str], static: bool) -> GroupScenario:
        topics = {"app.input": LINES if static else KEYS, "app.output": f"{name}-counts"}
        create_topics(address, {f"{name}-counts": 1})
        lead = _leader(address, name, topology, directory / name, configs | topics) if name.endswith("python") else None
        made = GroupScenario(
            name,
            address,
            watch,
            directory / name,
            topology=topology,
            tasks=tasks,
            configs=configs | topics,
            static=static,
            lead=lead,
        )
        cleanup.callback(made.stop)
        return made

    with ExitStack() as cleanup:
        words = [
            group(name, "words", WORDS_TASKS, WORDS_CONFIGS, True) for name in ("led-words-own", "led-words-python")
        ]
        keys = [
            group(name, "count-by-key", KEYS_TASKS, KEYS_CONFIGS, False) for name in ("led-keys-own", "led-keys-python")
        ]
        yield _Groups((words[0], words[1]), (keys[0], keys[1]))


@contextmanager
def _recorder(address: str, groups: _Groups, directory: Path) -> Iterator[AssignorProcess]:
    """Follows all four groups from before their first round until after their last, into one file."""
    arguments = ["record", "--bootstrap-server", address, "--output", str(directory / _RECORDED)]
    for group in groups.all:
        name = group.application_id
        arguments += [
            "--group",
            name,
            "--topology",
            f"{name}={_described(group.topology, group.directory, group.configs)}",
        ]
        for key in _ASSIGNMENT_CONFIGS:
            if key in group.configs:
                arguments += ["--config", f"{name}:{key}={group.configs[key]}"]
    recorder = AssignorProcess("record", arguments, directory)
    recorder.start()
    try:
        follows = [f"{group.application_id}: there is no such group yet" for group in groups.all]
        recorder.wait_until(lambda: all(each in recorder.said() for each in follows), "start", _LONGEST_RECORDING_S)
        yield recorder
        assert recorder.terminate() == 0, recorder.last_words()
    finally:
        recorder.kill()


def _described(topology: str, directory: Path, configs: Mapping[str, str]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    described = directory / "topology.txt"
    described.write_text(topology_description(topology, directory, configs))
    return described


def _leader(address: str, group: str, topology: str, directory: Path, configs: dict[str, str]) -> AssignorProcess:
    described = str(_described(topology, directory, configs))
    arguments = ["lead", "--bootstrap-server", address, "--group", group, "--topology", described]
    arguments += ["--session-timeout-ms", _LEAD_SESSION_MS, "--standby"]  # one that was killed is missed only after 6 s
    for name in _ASSIGNMENT_CONFIGS:
        if name in configs:
            arguments += ["--config", f"{name}={configs[name]}"]
    return AssignorProcess("lead", [*arguments, "--output", str(directory / "led.jsonl")], directory)
