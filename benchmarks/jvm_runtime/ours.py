"""Runs an application of `topologies.py` in a real instance, as often as it is told, and answers what it took.

Arguments, commands and answers are those of `Instance.java`; `run` has the address of the log as one word more. The
instance is `LocalRun`'s: an instance with its stream threads, its heartbeats and its endpoint in this process, and a
coordinator in another one, whose CPU does not count.
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.jvm_runtime.cells import FOREIGN_KEY_JOIN, ROWS_FIRST_MS
from benchmarks.jvm_runtime.clock import Figures
from benchmarks.jvm_runtime.topologies import topology
from operating_system.processes import freeze_loaded_objects
from streams_runtime import Application, InstanceState, LocalRun, ProcessingGuarantee, StreamsConfig, StreamsInstance

_LOOK_SHARPLY_S, _LOOK_S = 0.001, 0.02
_RECORDS = "streams_processed_records_total"
_ALIVE = (InstanceState.REBALANCING, InstanceState.RUNNING)


class Instances:
    """One at a time. `application`, `events`, `table`: as `topology` takes them."""

    def __init__(self, application: str, events: str, table: str, cache_bytes: int, threads: int) -> None:
        self._application = application
        self._events = events
        self._table = table
        self._cache_bytes = cache_bytes
        self._threads = threads
        self._running = ExitStack()
        self._instance: StreamsInstance | None = None
        self._begun: Figures | None = None

    def answer(self, line: str) -> str:
        match line.split():
            case ["run", identifier, directory, output, begin, end, servers]:
                return self._run(self._configs(identifier, Path(directory), servers), output, int(begin), int(end))
            case ["end"]:
                return self._end()
        raise AssertionError(f"no such command: {line}")

    def _configs(self, identifier: str, state: Path, servers: str) -> StreamsConfig:
        return StreamsConfig(
            identifier,
            servers,
            state,
            ProcessingGuarantee.EXACTLY_ONCE_V2,
            num_stream_threads=self._threads,
            statestore_cache_max_bytes=self._cache_bytes,
            max_task_idle_ms=ROWS_FIRST_MS if self._application == FOREIGN_KEY_JOIN else 0,
        )

    def _run(self, configs: StreamsConfig, output: str, begin: int, end: int) -> str:
        built = topology(self._application, self._events, self._table, output)
        run = self._running.enter_context(LocalRun(Application(built, configs)))
        (self._instance,) = run.instances
        # the counts grow at the end of a pass: the clock starts with a pass
        self._begun = self._wait_for(begin, _LOOK_SHARPLY_S)
        self._wait_for(end, _LOOK_S)
        return "processed"

    def _end(self) -> str:
        assert self._instance is not None
        assert self._begun is not None, "run it first"
        ended = _figures(self._instance)
        self._running.close()
        begun, self._instance, self._begun = self._begun, None, None
        return ended.since(begun)

    def _wait_for(self, records: int, look_s: float) -> Figures:
        instance = self._instance
        assert instance is not None
        while _processed(instance) < records:
            assert instance.state in _ALIVE, f"the instance is {instance.state}: {instance.errors}"
            time.sleep(look_s)
        return _figures(instance)


def _processed(instance: StreamsInstance) -> int:
    counts = (
        instance.metrics.registry.get_sample_value(_RECORDS, {"thread": thread.name})
        for thread in instance.status().threads
    )
    return sum(int(count) for count in counts if count is not None)


def _figures(instance: StreamsInstance) -> Figures:
    return Figures.now(_processed(instance), {thread.name for thread in instance.status().threads})


def main() -> None:
    application, events, table, cache_bytes, threads = sys.argv[1:]
    freeze_loaded_objects()  # as an instance does that owns its process
    instances = Instances(application, events, table, int(cache_bytes), int(threads))
    for line in sys.stdin:
        print(instances.answer(line), flush=True)


if __name__ == "__main__":
    main()
