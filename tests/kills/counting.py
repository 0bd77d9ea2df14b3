"""The application whose processes are killed: it counts its records in a plain, a timestamped and a windowed store.

As a program, `python tests/kills/counting.py`, it works on an embedded log until all is counted, with the product that
PYTHONPATH names. So it also runs on an earlier release, and imports only what that release has.
"""

import argparse
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from assignor.types import TopicPartition
from streams_runtime.common.records import Record
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.dsl.windows import TimeWindows
from streams_runtime.instance.application import Application
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.local_run.local_run import LocalRun
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.serdes import BYTES, LONG
from streams_runtime.state_stores.builders import key_value_store
from streams_runtime.state_stores.key_value import KeyValueStore

PLAIN, TIMESTAMPED, WINDOWED = STORES = ("plain", "timestamped", "windowed")
EVENTS, RESTORES = "test.events", "test.restores"
"""Configs of the application: its input topic, and the directory in which its processes write down what they
restore.
"""

_DAY_MS = 24 * 3600 * 1000
_WINDOWS = TimeWindows(10_000, grace_ms=_DAY_MS)


class Tally(Processor[bytes, bytes]):
    """Counts the records of each key in the plain store."""

    def init(self, context: ProcessorContext) -> None:
        self._counts: KeyValueStore[bytes, int] = context.state_store(PLAIN)

    def process(self, record: Record[bytes, bytes]) -> None:
        self._counts.put(record.key, (self._counts.get(record.key) or 0) + 1)


class RestoreLines(SilentRestoreListener):
    """Writes a line for each restore of a store that starts, and for each batch that was restored."""

    def __init__(self, directory: str) -> None:
        self._file = Path(directory, f"{os.getpid()}.jsonl")

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self._write({"store": store, "partition": partition.partition, "start": start, "end": end})

    def on_batch_restored(self, partition: TopicPartition, store: str, batch_end: int, count: int) -> None:
        self._write({"store": store, "partition": partition.partition, "restored": count})

    def _write(self, line: Mapping[str, object]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def counting_stores(configs: Mapping[str, object], tally: Callable[[], Tally] = Tally) -> Application:
    """The application with these configs, and those above. `tally`: makes the processor of the plain store."""
    given = dict(configs)
    topic, restores = str(given.pop(EVENTS)), str(given.pop(RESTORES))
    builder = StreamsBuilder()
    builder.add_state_store(key_value_store(PLAIN, BYTES, LONG))
    events = builder.stream(topic, BYTES, BYTES)
    events.process(tally, stores=[PLAIN])
    events.group_by_key().count(store=TIMESTAMPED)
    events.group_by_key().windowed_by(_WINDOWS).count(store=WINDOWED)
    return Application(builder.build(), given, restore_listener_factory=partial(RestoreLines, restores))


def changelog(application_id: str, store: str, partition: int) -> TopicPartition:
    return TopicPartition(f"{application_id}-{store}-changelog", partition)


def create_topics(log: Log, application_id: str, events: str, partitions: int) -> None:
    """The input, and the changelogs. No record of a changelog is compacted during a run, because the content of a store
    is compared with all records up to its offset.
    """
    kept = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(_DAY_MS)}
    changelogs = [NewTopic(changelog(application_id, store, 0).topic, partitions, kept) for store in STORES]
    log.create_topics([NewTopic(events, partitions), *changelogs])


COUNTED = "counted"
"""The id of the application that the program runs."""

KEYS = 20
"""So many different keys the program writes."""

_PARTITIONS, _TIMESTAMP_MS = 2, 1_700_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="holds the log and the state, and gets the file `restores`")
    parser.add_argument("guarantee", help="processing.guarantee")
    parser.add_argument("--records", type=int, default=300, help="written before it starts")
    parser.add_argument("--kill", action="store_true", help="end by SIGKILL, when all is counted and committed")
    parser.add_argument("--config", action="append", default=[], help="name=value")
    options = parser.parse_args()
    directory: Path = options.directory.absolute()
    (directory / "restores").mkdir(parents=True, exist_ok=True)
    with closing(EmbeddedLog(directory / "log")) as log:
        if EVENTS not in log.topics():
            create_topics(log, COUNTED, EVENTS, _PARTITIONS)
        with closing(log.producer()) as producer:
            for number in range(options.records):
                partition, key = number % _PARTITIONS, number % KEYS
                producer.send(TopicPartition(EVENTS, partition), b"%d" % key, b"event", _TIMESTAMP_MS + 1_000 * number)
    configs = {
        "application.id": COUNTED,
        "bootstrap.servers": f"embedded:{directory / 'log'}",
        "state.dir": directory / "state",
        "processing.guarantee": options.guarantee,
        "commit.interval.ms": 100,
        EVENTS: EVENTS,
        RESTORES: directory / "restores",
        **dict(text.split("=", 1) for text in options.config),
    }
    with LocalRun(counting_stores(configs)) as run:
        run.wait_until_running()
        run.wait_until_caught_up()
        if options.kill:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
