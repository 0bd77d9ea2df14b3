"""The instances of a real application are upgraded to the next Kafka release one after the other: led by the
application itself, and led from Python, side by side.

The broker has the newer release, as brokers are upgraded first. Each instance leaves and comes back, so that the groups
have members of both releases.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.oracle import led_groups as leading
from tests.oracle.broker import Broker
from tests.oracle.jars import RELEASES
from tests.oracle.scenario import GroupScenario
from tests.oracle.scenario_feed import LineFeed, create_topics, wait_for_counts
from tests.oracle.scenario_script import LINES, LINES_PARTITIONS, WORDS_CONFIGS, WORDS_TASKS, table
from tests.told import Tell

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("old, new", list(pairwise(RELEASES)))
def test_should_lead_on_while_the_members_are_upgraded(
    oracle_jars: str, tmp_path: Path, tell: Tell, old: str, new: str
) -> None:
    broker = Broker(tmp_path / "broker", release=new)
    try:
        broker.start()
        address = broker.bootstrap_servers
        create_topics(address, {LINES: LINES_PARTITIONS})
        with leading.led_groups(address, tmp_path, old) as made:
            groups = own, python = made.pair("upgraded", "words", WORDS_TASKS, LINES, WORDS_CONFIGS, static=False)
            with leading.recording(address, groups, tmp_path) as recorder:
                with LineFeed(address, LINES) as feed, ThreadPoolExecutor(len(groups)) as threads:
                    list(threads.map(lambda group: _upgrade(group, new), groups))
                    feed.stop()
                    for group in groups:
                        wait_for_counts(address, f"{group.application_id}-counts", feed.words)
                rounds = made.generations_recorded(groups, recorder)
    finally:
        broker.stop()
    tell(table([(f"from {old} to {new}", own, python)]))
    tell(f"{feed.lines} lines, {feed.words.total()} words counted once by each of the two applications")
    assert [leading.leaders_of(rounds[group.application_id]) for group in groups] == [
        [leading.APPLICATION],
        [leading.PYTHON],
    ]
    assert [pair for pair in zip(python.results, own.results, strict=True) if not leading.as_many_rounds(*pair)] == []
    assert [each.placement for each in python.results] == [each.placement for each in own.results]
    led = leading.led_file(python)
    for file in (tmp_path / leading.RECORDED, led):
        tell(f"{file.relative_to(tmp_path)}: {leading.equal_again(file)}")
    for release in (old, new):
        again = leading.decided_by_kafka(led, release)
        tell(f"{again.relative_to(tmp_path)}: {leading.equal_again(again)}")
        assert leading.assignments_of(again) == leading.assignments_of(led)


def _upgrade(group: GroupScenario, release: str) -> None:
    group.event("a starts", lambda: _begin(group))
    group.event("b starts", lambda: group.start("b"))
    group.release = release
    for name in "ab":
        group.event(f"{name} leaves", lambda name=name: group.leave(name))  # type: ignore[misc]
        group.event(f"{name} of {release} starts", lambda name=name: group.start(name))  # type: ignore[misc]


def _begin(group: GroupScenario) -> None:
    if group.lead is not None:
        group.lead_alone()
    group.start("a")
