"""The processor with a store on Quix Streams, as often as it is told. Arguments, commands and answers: see `ours.py`.

The function, the topics and the results are those of the other programs. Quix commits as often as they do, in
transactions, and keeps its state in RocksDB with a changelog. It needs `quixstreams`, which is no dependency of ours.
"""

import sys
import threading
import time
from queue import SimpleQueue
from typing import Any

from quixstreams import Application, State  # type: ignore[import-not-found]
from quixstreams.models.serializers.base import Serializer  # type: ignore[import-not-found]

from benchmarks.jvm_runtime.cells import PROCESSOR
from benchmarks.jvm_runtime.clock import Figures
from streams_runtime import LONG

_COMMIT_INTERVAL_S = 0.1
_LOOK_SHARPLY_S, _LOOK_S = 0.001, 0.02
_MAIN = threading.main_thread().name


class LongSerializer(Serializer):  # type: ignore[misc] # nothing is known of it where Quix is not installed
    """Eight bytes, as `LONG` writes them."""

    def __call__(self, value: int, *_: Any, **__: Any) -> bytes:
        return LONG.serialize(value)


class Run:
    """One application of Quix, which runs in the main thread, because it handles signals."""

    def __init__(self, identifier: str, directory: str, events: str, output: str, servers: str) -> None:
        self._processed = 0
        self._application = Application(
            broker_address=servers,
            consumer_group=identifier,
            auto_offset_reset="earliest",
            processing_guarantee="exactly-once",
            commit_interval=_COMMIT_INTERVAL_S,
            state_dir=directory,
            loglevel="ERROR",
        )
        topic = self._application.topic(events, key_deserializer="bytes", value_deserializer="bytes")
        results = self._application.topic(output, key_serializer="bytes", value_serializer=LongSerializer())
        self._application.dataframe(topic).apply(self._counted, stateful=True).to_topic(results)

    def run(self) -> None:
        """Until it is stopped."""
        self._application.run()

    def stop(self) -> None:
        self._application.stop()

    def wait_for(self, records: int, look_s: float) -> Figures:
        while self._processed < records:
            time.sleep(look_s)
        return self.figures()

    def figures(self) -> Figures:
        return Figures.now(self._processed, {_MAIN})

    def _counted(self, _value: bytes, state: State) -> int:
        """A get and a put for each record, whose result is sent on."""
        count: int = state.get("count", 0) + 1
        state.set("count", count)
        self._processed += 1
        return count


def answer_commands(events: str, runs: SimpleQueue[Run | None]) -> None:
    """Hands each application to the main thread, and lets it end."""
    run: Run | None = None
    begun: Figures | None = None
    for line in sys.stdin:
        match line.split():
            case ["run", identifier, directory, output, begin, end, servers]:
                run = Run(identifier, directory, events, output, servers)
                runs.put(run)
                begun = run.wait_for(int(begin), _LOOK_SHARPLY_S)
                run.wait_for(int(end), _LOOK_S)
                print("processed", flush=True)
            case ["end"]:
                assert run is not None
                assert begun is not None
                ended = run.figures()
                run.stop()
                print(ended.since(begun), flush=True)
            case _:
                raise AssertionError(f"no such command: {line}")
    runs.put(None)


def main() -> None:
    application, events, _table, _cache_bytes, _threads = sys.argv[1:]
    assert application == PROCESSOR, "Quix is compared where a function in Python has a store"
    runs: SimpleQueue[Run | None] = SimpleQueue()
    threading.Thread(target=answer_commands, args=(events, runs), daemon=True).start()
    while (run := runs.get()) is not None:
        run.run()


if __name__ == "__main__":
    main()
