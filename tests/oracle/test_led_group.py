"""A real Kafka Streams application, led by its own JVM and led from Python, through the same events side by side.

Two applications of each kind go through their scripts at the same time on one broker, so that the minute that Kafka
makes a probing rebalance wait is waited for once.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.oracle.broker import Broker
from tests.oracle.group_watch import GroupWatch
from tests.oracle.led_groups import (
    APPLICATION,
    LONGEST_RECORDING_S,
    PYTHON,
    RECORDED,
    as_many_rounds,
    assignments_of,
    decided_by_kafka,
    equal_again,
    leaders_of,
    led_file,
    lines_of,
    python_leader,
    recorded_generations,
    recording,
    rounds_of,
)
from tests.oracle.scenario import GroupScenario
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
from tests.told import Tell

pytestmark = pytest.mark.kafka

_CHOSEN_OFFSETS = "taken because the leader's result follows from it"
_KEYS_WRITTEN = 800


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
        recording(address, groups.all, tmp_path) as recorder,
    ):
        with LineFeed(address, LINES) as feed:
            _run(groups, feed)
        tell(f"{table([('static members, exactly-once', *groups.words), ('warm-ups', *groups.keys)])}")
        tell(f"{feed.lines} lines, {feed.words.total()} words counted by each of the two applications")
        for group in groups.words:
            wait_for_counts(address, f"{group.application_id}-counts", feed.words)
        rounds = {group.application_id: rounds_of(watch, group) for group in groups.all}
        numbers = {group: [each.id for each in generations] for group, generations in rounds.items()}
        recorder.wait_until(
            lambda: recorded_generations(tmp_path) == numbers, f"lines of {numbers}", LONGEST_RECORDING_S
        )
    for own, python in (groups.words, groups.keys):
        compared = python.results[: len(own.results)]
        assert [each.name for each in compared] == [each.name for each in own.results]
        assert [pair for pair in zip(compared, own.results, strict=True) if not as_many_rounds(*pair)] == []
        assert [each.placement for each in compared] == [each.placement for each in own.results]
        assert [each.probing for each in compared] == [each.probing for each in own.results]
    assert [each.probing for each in groups.keys[1].results] == [(), ("a",), (), (), ()]
    assert [leaders_of(rounds[group.application_id]) for group in groups.all] == [
        [APPLICATION],
        [PYTHON, APPLICATION],  # the lead is handed back in the end
        [APPLICATION],
        [PYTHON],
    ]
    led_files = [led_file(group) for group in (groups.words[1], groups.keys[1])]
    for file in (tmp_path / RECORDED, *led_files, *map(decided_by_kafka, led_files)):
        tell(f"{file.relative_to(tmp_path)}: {equal_again(file)}")
    chosen = sum(_CHOSEN_OFFSETS in line["note"] for line in lines_of(tmp_path / RECORDED))
    tell(f"lines of {RECORDED} with offsets that nobody saw, only found between two looks: {chosen}")
    delivered = assignments_of(tmp_path / RECORDED)
    for group in (groups.words[1], groups.keys[1]):
        name = group.application_id
        led = [(name, generation.id) for generation in rounds[name] if generation.is_led_from_outside]
        assert assignments_of(led_file(group)) == {each: delivered[each] for each in led}


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
        lead = (
            python_leader(address, name, topology, directory / name, configs | topics)
            if name.endswith("python")
            else None
        )
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
