"""Whatever happens to a task and in whatever order: nothing is lost, and under exactly-once nothing comes twice."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.common.errors import TaskCorrupted
from streams_runtime.state_stores.thread_cache import ThreadCache
from streams_runtime.tasks.standby_task import StandbyTask
from tests.known import known
from tests.streams_runtime.tasks.running_task import COUNTS, EXACTLY_ONCE, IN, OUT, Configs, RunningTask, counting

STEPS = st.sampled_from(
    ["write", "poll", "process", "process", "commit", "crash", "stop", "suspend", "recycle", "abort"]
)


class History:
    """A task that counts by key, and those that come after it. `cache_bytes`: of the record cache; 0: it has none."""

    def __init__(self, directory: Path, configs: Mapping[str, object], cache_bytes: int) -> None:
        self.directory = directory
        self.configs = configs
        self.written = 0
        self.cache_bytes = cache_bytes
        self.one = self.owner()

    def owner(self, **after: Any) -> RunningTask:
        cache = ThreadCache(self.cache_bytes) if self.cache_bytes else None
        topology = counting(persistent=False, caching=cache is not None)
        return RunningTask(self.directory, topology, self.configs, cache=cache, **after).start()

    def take(self, step: str) -> None:
        one = self.one
        match step:
            case "write":
                for _ in range(3):
                    one.write(IN, "x", first_ms=self.written, key="ab"[self.written % 2])
                    self.written += 1
            case "poll":
                one.poll()
            case "process":
                one.process(2)
            case "commit":
                one.commit()
            case "crash":
                one.task.close_dirty()
                self.go_on()
            case "stop":
                one.stop()
                self.go_on()
            case "suspend":
                one.commit()
                one.task.suspend()
                one.task.resume()
                one.task.complete_restoration()
            case "recycle":
                self.recycle()
            case "abort":
                self.abort()

    def go_on(self) -> None:
        self.one.producer.close()
        self.one = self.owner(after=self.one)

    def recycle(self) -> None:
        one = self.one
        one.commit()
        one.task.suspend()
        standby = StandbyTask(one.task.recycle_state(), one.inputs, configs=one.configs, clock=one.clock)
        standby.initialize_if_needed()
        standby.suspend()
        one.producer.close()
        self.one = self.owner(after=one, state=standby.recycle_state())

    def abort(self) -> None:
        """Another task of the thread ends badly. What this one did in the transaction is not to be committed."""
        lost = self.one.producer.transaction_in_flight
        self.one.producer.abort()
        if lost:
            with pytest.raises(TaskCorrupted):
                self.one.commit()
            self.take("crash")

    def end(self) -> None:
        self.one.run()
        self.one.stop()

    def highest_counts(self) -> dict[str, int]:
        highest: dict[str, int] = {}
        for key, value, _ in self.one.log.read(COUNTS):
            highest[known(key).decode()] = int.from_bytes(known(value), "big")
        return highest

    def expected(self) -> dict[str, int]:
        return dict(Counter("ab"[number % 2] for number in range(self.written)))


@given(st.lists(STEPS, max_size=25), st.sampled_from([0, 150, 1 << 20]), st.sampled_from([{}, EXACTLY_ONCE]))
def test_should_count_as_it_promises_whatever_happens(steps: list[str], cache_bytes: int, configs: Configs) -> None:
    """Every record at least once or exactly once."""
    with TemporaryDirectory() as directory:
        history = History(Path(directory), configs, cache_bytes)
        for step in ["write", *steps]:
            history.take(step)
        history.end()
        counted, expected = history.highest_counts(), history.expected()
        assert counted.keys() == expected.keys()
        assert all(counted[key] >= expected[key] for key in expected)
        assert known(history.one.committed()).offset == history.written
        if configs:
            assert counted == expected
            outputs = Counter(value for _, value, _ in history.one.log.read(OUT))
            counts = expected.values()
            assert outputs == Counter(str(number).encode() for count in counts for number in range(1, count + 1))
