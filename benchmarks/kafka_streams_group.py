"""README's application as a Kafka Streams application on the JVM: three instances, with Kafka Streams' defaults.

What README sets is set here, too (exactly-once, one standby, two threads), and nothing else.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from assignor.errors import AssignorFault
from benchmarks import readme_application as readme
from benchmarks.feed import Feed
from benchmarks.readme_group import CAUGHT_UP_LAG, FEED_INTERVAL_S, TASKS, lines_of_words
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.opening import open_log
from tests.oracle.streams_app import NO_CONFIGS, StreamsInstance

APPLICATION_ID = "words-on-the-jvm"
_LINES, _COUNTS = "jvm-lines", "jvm-word-counts"
_CONFIGS: Mapping[str, str] = {
    "processing.guarantee": "exactly_once_v2",
    "num.standby.replicas": "1",
    "num.stream.threads": str(readme.THREADS),
    "app.input": _LINES,
    "app.output": _COUNTS,
}
_TOPOLOGY = "told-words"
_TIMEOUT_S = 180.0
_LOOK_INTERVAL_S = 0.1
_QUIET_MS = 2_000


class KafkaStreamsGroup:
    """Fed without a pause while the context lasts. `directory`: for the instances' files."""

    def __init__(self, directory: Path, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._instances = [
            StreamsInstance(
                bootstrap_servers,
                APPLICATION_ID,
                directory / f"jvm-{number}",
                topology=_TOPOLOGY,
                configs=_CONFIGS,
                defaults=NO_CONFIGS,
            )
            for number in range(readme.INSTANCES)
        ]
        self._ended: StreamsInstance | None = None
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            log = open_log(self._servers)
            closing.callback(log.close)
            log.create_topics([NewTopic(topic, readme.PARTITIONS) for topic in (_LINES, _COUNTS)])
            closing.enter_context(Feed(log, FEED_INTERVAL_S, lines_of_words(_LINES)))
            for instance in self._instances:
                closing.callback(instance.kill)
                instance.start()
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def settle(self) -> None:
        """Start again who was ended; until every task runs, and each with state has a standby that follows it."""
        if self._ended is not None:
            self._ended.start()
            self._ended = None
        _wait(self._is_settled, lambda: "; ".join(f"{each.state} {each.tasks()}" for each in self._instances))

    def kill(self) -> float:
        """SIGKILL of a JVM: milliseconds until the slowest of its tasks was processed again."""
        return self._end(StreamsInstance.kill)

    def close(self) -> float:
        """`KafkaStreams.close()`, by whose default a member stays in the group. Answers as `kill` does."""
        return self._end(StreamsInstance.close)

    def _end(self, end: Callable[[StreamsInstance], None]) -> float:
        victim = max(self._instances, key=lambda each: sum(map(_has_state, each.tasks().active)))
        lost = victim.tasks().active
        others = [each for each in self._instances if each is not victim]
        began_ms = time.time() * 1_000
        end(victim)
        self._ended = victim

        def first_records() -> dict[str, float]:
            """By lost task, when it was processed first since."""
            found: dict[str, float] = {}
            for event in (event for each in others for event in list(each.events)):
                if event["event"] == "first-record" and event["at_ms"] >= began_ms and event["task"] in lost:
                    found[event["task"]] = min(event["at_ms"], found.get(event["task"], event["at_ms"]))
            return found

        _wait(lambda: first_records().keys() == set(lost), lambda: f"{lost} lost, seen again: {first_records()}")
        return max(first_records().values()) - began_ms

    def _is_settled(self) -> bool:
        if any(
            each.state != "RUNNING" or _changed_since(each, time.time() * 1_000 - _QUIET_MS) for each in self._instances
        ):
            return False
        active = [task for each in self._instances for task in each.tasks().active]
        if sorted(active) != sorted({*active}) or len(active) != TASKS:
            return False
        return set(filter(_has_state, active)) <= self._followed()

    def _followed(self) -> set[str]:
        """Tasks of which a standby has caught up."""
        followed: set[str] = set()
        for each in self._instances:
            lags = each.lags().get("counts", {})
            followed.update(
                task
                for task in each.tasks().standby
                if lags.get(int(task.split("_")[1]), CAUGHT_UP_LAG + 1) <= CAUGHT_UP_LAG
            )
        return followed


def _changed_since(instance: StreamsInstance, at_ms: float) -> bool:
    """Whether its tasks or states have changed: a rebalance may still be going on."""
    return any(event["at_ms"] > at_ms and event["event"] in ("state", "tasks") for event in list(instance.events))


def _has_state(task: str) -> bool:
    return task.startswith(f"{readme.STATEFUL}_")


def _wait(holds: Callable[[], bool], seen: Callable[[], str]) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise AssignorFault(f"Kafka Streams was waited for {_TIMEOUT_S:g} s: {seen()}")
        time.sleep(_LOOK_INTERVAL_S)
