"""A real Kafka Streams application, led by its own JVM and led from Python, through the same events side by side.

Two applications of each kind go through their scripts at the same time on one broker, so that the minute that Kafka
makes a probing rebalance wait is waited for once.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from tests.oracle import led_groups as leading
from tests.oracle.broker import Broker
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
INFERRED = "inferred.jsonl"


def test_should_settle_in_as_many_rounds_as_under_its_own_leader(
    kafka_broker: Broker, tmp_path: Path, tell: Tell
) -> None:
    address = kafka_broker.bootstrap_servers
    create_topics(address, {LINES: LINES_PARTITIONS, KEYS: KEYS_PARTITIONS})
    write(address, KEYS, ((f"key {number % 40}", "") for number in range(_KEYS_WRITTEN)))
    with leading.led_groups(address, tmp_path) as groups:
        words = groups.pair("led-words", "words", WORDS_TASKS, LINES, WORDS_CONFIGS, static=True)
        keys = groups.pair("led-keys", "count-by-key", KEYS_TASKS, KEYS, KEYS_CONFIGS, static=False)
        with (
            leading.recording(address, (*words, *keys), tmp_path) as recorder,
            leading.recording(address, words, tmp_path, INFERRED) as inferring,
        ):
            with LineFeed(address, LINES) as feed:
                _run(words, keys, feed)
            tell(f"{table([('static members, exactly-once', *words), ('warm-ups', *keys)])}")
            tell(f"{feed.lines} lines, {feed.words.total()} words counted by each of the two applications")
            for group in words:
                wait_for_counts(address, f"{group.application_id}-counts", feed.words)
            groups.generations_recorded(words, inferring, INFERRED)
            rounds = groups.generations_recorded((*words, *keys), recorder)
    for own, python in (words, keys):
        compared = python.results[: len(own.results)]
        assert [each.name for each in compared] == [each.name for each in own.results]
        assert [pair for pair in zip(compared, own.results, strict=True) if not leading.as_many_rounds(*pair)] == []
        assert [each.placement for each in compared] == [each.placement for each in own.results]
        assert [each.probing for each in compared] == [each.probing for each in own.results]
    assert [each.probing for each in keys[1].results] == [(), ("a",), (), (), ()]
    assert [leading.leaders_of(rounds[group.application_id]) for group in (*words, *keys)] == [
        [leading.APPLICATION],
        [leading.PYTHON, leading.APPLICATION],  # the lead is handed back in the end
        [leading.APPLICATION],
        [leading.PYTHON],
    ]
    led_files = [leading.led_file(group) for group in (words[1], keys[1])]
    again = [leading.decided_by_kafka(file) for file in led_files]
    for file in (tmp_path / leading.RECORDED, tmp_path / INFERRED, *led_files, *again):
        tell(f"{file.relative_to(tmp_path)}: {leading.equal_again(file)}")
    chosen = sum(_CHOSEN_OFFSETS in line["note"] for line in leading.lines_of(tmp_path / leading.RECORDED))
    tell(f"lines of {leading.RECORDED} with offsets that nobody saw, only found between two looks: {chosen}")
    assert [*map(leading.assignments_of, again)] == [*map(leading.assignments_of, led_files)]
    delivered = leading.assignments_of(tmp_path / leading.RECORDED)
    for group in (words[1], keys[1]):
        name = group.application_id
        led = [(name, generation.id) for generation in rounds[name] if generation.is_led_from_outside]
        assert leading.assignments_of(leading.led_file(group)) == {each: delivered[each] for each in led}


def _run(words: Sequence[GroupScenario], keys: Sequence[GroupScenario], feed: LineFeed) -> None:
    """All scripts at the same time; lines flow until the groups that read them have been through theirs."""
    with ThreadPoolExecutor(len(words) + len(keys)) as threads:
        scripts = [threads.submit(members_come_and_go, group) for group in words]
        others = [threads.submit(warm_ups_take_over, group) for group in keys]
        try:
            for script in as_completed(scripts + others):
                script.result()
                if all(each.done() for each in scripts):
                    feed.stop()
        except BaseException:
            for group in (*words, *keys):
                group.stop()  # and with it the scripts that wait for them
            raise
