"""A program for tests: an instance with a global store that counts the records of each key.

A record that is lost, or processed twice, makes a wrong count. Usage: python -m ... <directory>. The program prints a
line after each hundred records, and runs until it is killed.
"""

import sys
from pathlib import Path
from typing import Any

from streams_runtime import (
    LONG,
    STRING,
    Application,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    StreamsInstance,
    key_value_store,
)
from tests.streams_runtime.logs.processes import say

STORE = TOPIC = "events"
LINE_EVERY = 100


class CountRecords(Processor[str, Any]):
    def init(self, context: ProcessorContext) -> None:
        self.store = context.state_store(STORE)
        self.seen = 0

    def process(self, record: Record[str, Any]) -> None:
        self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
        self.seen += 1
        if self.seen % LINE_EVERY == 0:
            say(self.seen)


def counting_instance(directory: Path) -> StreamsInstance:
    """The coordinator is never called, because the topology has no subtopology."""
    store = key_value_store(STORE, STRING, LONG)
    topology = StreamsBuilder().add_global_store(store, TOPIC, CountRecords, STRING, STRING).build()
    configs = {
        "application.id": "events",
        "bootstrap.servers": f"embedded:{directory / 'log'}",
        "state.dir": directory / "state",
        "max.poll.records": 70,
    }
    return StreamsInstance(Application(topology, configs), "http://127.0.0.1:1")


if __name__ == "__main__":
    instance = counting_instance(Path(sys.argv[1]))
    instance.start()
    instance.wait()
