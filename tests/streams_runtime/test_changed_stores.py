"""The next version of an application has other stores under the names of before: whole runs, one after the other."""

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streams_runtime import (
    LONG,
    STRING,
    Application,
    LocalRun,
    NewTopic,
    RecordProducer,
    StreamsBuilder,
    StreamsRuntimeError,
    TimeWindows,
    read_topic,
)
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.opening import open_log
from tests.streams_runtime.running_group import GUARANTEES
from tests.warm_coordinator import WarmCoordinator

MINUTE_MS = 60_000
NOW_MS = 1_700_000_040_000
TIMEOUT_S = 60

pytestmark = pytest.mark.long

both_guarantees = pytest.mark.parametrize("guarantee", GUARANTEES)


Counts = dict[str | None, int | None]


class Versions:
    """Versions of an application that run one after the other, on one log and one state directory."""

    def __init__(self, name: str, directory: Path, coordinator: CoordinatorProcess, guarantee: str) -> None:
        self._directory = directory
        self._coordinator = coordinator
        self._servers = f"embedded:{directory / 'log'}"
        self._input, self._output = f"{name}-in", f"{name}-out"
        self._configs = {
            "application.id": name,
            "bootstrap.servers": self._servers,
            "state.dir": directory / "state",
            "processing.guarantee": guarantee,
            "commit.interval.ms": 100,
        }
        with closing(open_log(self._servers)) as log:
            log.create_topics([NewTopic(self._input, 1), NewTopic(self._output, 1)])

    def run(
        self, *timestamps_ms: int, grace_minutes: int | None, store: str = "counts"
    ) -> dict[str | None, int | None]:
        """What the topic of the counts says, by key, once the records of these times are counted, too.

        `grace_minutes`: of windows of a minute; None: records are counted by their key alone.
        """
        builder = StreamsBuilder()
        grouped = builder.stream(self._input, STRING, STRING).group_by_key()
        if grace_minutes is None:
            counts = grouped.count(store=store).to_stream()
        else:
            windows = grouped.windowed_by(TimeWindows(MINUTE_MS, grace_ms=grace_minutes * MINUTE_MS))
            counts = windows.count(store=store).to_stream().map(lambda window, count: (str(window.start_ms), count))
        counts.to(self._output, key_serde=STRING, value_serde=LONG)
        with closing(open_log(self._servers)) as log:
            with RecordProducer(log, STRING, STRING) as producer:
                for timestamp_ms in timestamps_ms:
                    producer.send(self._input, "a customer", "v", timestamp_ms=timestamp_ms)
            with LocalRun(Application(builder.build(), self._configs), coordinator=self._coordinator.url) as run:
                run.wait_until_caught_up(TIMEOUT_S)
            return {record.key: record.value for record in read_topic(log, self._output, STRING, LONG)}


Start = Callable[[str], Versions]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("versions")


@pytest.fixture(scope="module")
def coordinator(directory: Path) -> Iterator[CoordinatorProcess]:
    (directory / "coordinator").mkdir()
    settings = {"group.initial.rebalance.delay.ms": 0, "cluster.bootstrap.servers": f"embedded:{directory / 'log'}"}
    with WarmCoordinator(directory / "coordinator", settings) as process:
        yield process


@pytest.fixture
def start(directory: Path, coordinator: CoordinatorProcess) -> Start:
    """A new application with this guarantee."""
    return lambda guarantee: Versions(f"app-{uuid.uuid4().hex[:8]}", directory, coordinator, guarantee)


@both_guarantees
def test_should_count_on_when_the_grace_changes(start: Start, caplog: pytest.LogCaptureFixture, guarantee: str) -> None:
    app = start(guarantee)
    first, later = str(NOW_MS), str(NOW_MS + 60 * MINUTE_MS)
    assert app.run(NOW_MS, NOW_MS + 1, grace_minutes=10) == {first: 2}
    assert app.run(NOW_MS + 2, grace_minutes=11) == {first: 3}
    # the first window is over by the grace of this version, and deleted on its disk
    assert app.run(NOW_MS + 60 * MINUTE_MS, NOW_MS + 3, grace_minutes=10) == {first: 3, later: 1}
    with caplog.at_level(logging.WARNING):
        assert app.run(NOW_MS + 4, grace_minutes=600) == {first: 4, later: 1}
    assert "its retention is 36060000 ms and was 660000 ms; its changelog" in caplog.text
    assert app.run(NOW_MS + 5, NOW_MS + 60 * MINUTE_MS, grace_minutes=61) == {first: 5, later: 2}


@both_guarantees
@pytest.mark.parametrize(
    "before, after, refused",
    [
        (None, 5, "store counts is a window store, and its changelog"),
        (5, None, "store counts is a key-value store, and its changelog"),
    ],
    ids=["key-value to windows", "windows to key-value"],
)
def test_should_refuse_a_store_of_another_kind_and_say_what_to_do(
    start: Start, caplog: pytest.LogCaptureFixture, before: int | None, after: int | None, refused: str, guarantee: str
) -> None:
    app = start(guarantee)
    assert list(app.run(NOW_MS, NOW_MS, grace_minutes=before).values()) == [2]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):  # the second time, nothing on disk tells of the old kind
            with pytest.raises(StreamsRuntimeError, match=refused):
                app.run(NOW_MS, grace_minutes=after)
    assert "the store is restored from its changelog" in caplog.text
    assert "Give the store another name, or reset the application" in caplog.text
    assert "Traceback" not in caplog.text
    assert set(app.run(NOW_MS, NOW_MS, grace_minutes=after, store="renamed").values()) == {2, 4}
    assert set(app.run(NOW_MS, grace_minutes=before).values()) == {3, 4}, "the old version goes on where it was"
