"""A join of two streams gives the same results, whatever happens to its task under exactly-once."""

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streams_runtime import STRING, JoinWindows, Materialized, StreamsBuilder, Topology
from streams_runtime.logs.base import NewTopic
from streams_runtime.tasks.standby_task import StandbyTask
from tests.streams_runtime.tasks.running_task import EXACTLY_ONCE, IN, OTHER, OUT, TASK, RunningTask

JOINS = [("outer_join", True), ("outer_join", False), ("left_join", False), ("join", False)]
"""Each kind of join in memory. RocksDB takes long to open, so only one kind has it."""
GRACE_MS = 3
STEPS = ("commit", "crash", "stop", "lose the disk", "suspend", "recycle")


def joined(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def topology(kind: str, persistent: bool) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("in", STRING, STRING), builder.stream("other", STRING, STRING)
    store = Materialized("joined", persistent=persistent)
    method = {"join": left.join, "left_join": left.left_join, "outer_join": left.outer_join}[kind]
    method(right, joined, JoinWindows(5, 9, grace_ms=GRACE_MS), store=store).to("out", value_serde=STRING)
    return builder.build()


class JoinHistory:
    """A task that joins, and the tasks that come after it."""

    def __init__(self, directory: Path, kind: str, persistent: bool) -> None:
        self.directory = directory
        self.kind = kind
        self.persistent = persistent
        self.one = self._owner()
        changelogs = [topic for topic in self.one.graph.store_changelogs.values() if topic is not None]
        self.one.log.create_topics([NewTopic(topic, 1) for topic in changelogs])
        self.one.start()

    def _owner(self, **after: Any) -> RunningTask:
        return RunningTask(self.directory, topology(self.kind, self.persistent), EXACTLY_ONCE, **after)

    def take(self, step: str) -> None:
        one = self.one
        match step:
            case "commit":
                one.commit()
            case "crash":
                one.task.close_dirty()
                self._go_on()
            case "stop":
                one.stop()
                self._go_on()
            case "lose the disk":
                one.task.close_dirty()
                shutil.rmtree(one.directory.task_directory(TASK))
                self._go_on()
            case "suspend":
                one.commit()
                one.task.suspend()
                one.task.resume()
                one.task.complete_restoration()
            case "recycle":
                one.commit()
                one.task.suspend()
                standby = StandbyTask(one.task.recycle_state(), one.inputs, configs=one.configs, clock=one.clock)
                standby.initialize_if_needed()
                standby.suspend()
                one.producer.close()
                self.one = self._owner(after=one, state=standby.recycle_state()).start()

    def _go_on(self) -> None:
        self.one.producer.close()
        self.one = self._owner(after=self.one).start()

    def results(self) -> Counter[tuple[bytes | None, bytes | None, int]]:
        """The records that the join has sent, after all windows are closed."""
        self.one.write(IN, "end", first_ms=1_000, key="end")
        self.one.run()
        self.one.stop()
        return Counter(self.one.log.read(OUT))


def written(history: JoinHistory, choices: random.Random, steps: bool, late_ms: int) -> None:
    """Writes records that are late by at most `late_ms`. After some of them, processes and takes a step."""
    for now_ms in range(0, 140, 2):
        first_ms = max(0, now_ms - choices.randint(0, late_ms))
        history.one.write(choices.choice((IN, OTHER)), str(now_ms), first_ms=first_ms, key=choices.choice("abc"))
        step, processes = choices.choice(STEPS), choices.random() < 0.12
        if steps and processes:
            history.one.run()
            history.take(step)


@pytest.mark.parametrize("late_ms", [0, GRACE_MS])
@pytest.mark.parametrize(("kind", "persistent"), JOINS)
def test_should_join_as_without_interruptions(tmp_path: Path, kind: str, persistent: bool, late_ms: int) -> None:
    seed = f"{kind} {persistent} {late_ms}"
    undisturbed = JoinHistory(tmp_path / "undisturbed", kind, persistent)
    written(undisturbed, random.Random(seed), steps=False, late_ms=late_ms)
    disturbed = JoinHistory(tmp_path / "disturbed", kind, persistent)
    written(disturbed, random.Random(seed), steps=True, late_ms=late_ms)
    expected = undisturbed.results()
    assert expected.total() > 20
    assert disturbed.results() == expected
