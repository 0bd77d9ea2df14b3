"""Instances that count without a pause are killed with SIGKILL, one after another, and their stores are examined.

After each kill, each store of the dead process is opened in a copy of its directory, and in another copy, which has
lost the end of its write-ahead log, as in a failure of the machine. These rules hold:
- The store has an offset or no content. With state.checkpoint.file, a kill during a clean end may leave no offset.
- All records up to the offset are committed, and the content is that of the changelog's committed records up to it.
  Under exactly-once, these are whole transactions.
- The database is the same one as after the kill before: nothing was deleted and restored.
- An instance without others restores exactly what its stores lack.

In the end all instances are closed. The counts of all stores are then exact under exactly-once, and none is too low
under at-least-once.
"""

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from assignor.types import TopicPartition
from benchmarks.feed import FedRecord, Feed
from benchmarks.instance_processes import InstanceProcesses
from streams_runtime.instance.application import group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.kills.committed import WAITS_S, CommittedRecords
from tests.kills.counting import (
    EVENTS,
    RESTORES,
    STORES,
    changelog,
    counting_stores,
    create_topics,
)
from tests.kills.store_files import StoreOnDisk, stores_on_disk
from tests.waiting import wait_until

PARTITIONS = 2
_KEYS, _FEED_INTERVAL_S, _FEED_RECORDS = 500, 0.01, 15
_LOST_DISK_CHANCE, _ALL_AT_ONCE_CHANCE = 0.1, 0.25

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once_v2", "at_least_once"


class Moment(StrEnum):
    STARTING = "while it starts or restores"
    WORKING = "while it works and commits"
    CLOSING = "while it closes"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one run. `instances`: with two, each task has a standby. `cache_bytes`: of the record caches.
    `uncommitted_bytes`: statestore.uncommitted.max.bytes. `checkpoint_file`: state.checkpoint.file.
    """

    application_id: str
    guarantee: str
    instances: int = 1
    cache_bytes: int = 0
    uncommitted_bytes: int | None = None
    checkpoint_file: bool = False

    @property
    def events(self) -> str:
        """The input topic."""
        return f"{self.application_id}-events"

    def configs(self, servers: str) -> dict[str, object]:
        given: dict[str, object] = {
            "application.id": self.application_id,
            "bootstrap.servers": servers,
            "processing.guarantee": self.guarantee,
            "commit.interval.ms": 100,
            "num.standby.replicas": self.instances - 1,
            "statestore.cache.max.bytes": self.cache_bytes,
            "session.timeout.ms": 10_000,
            EVENTS: self.events,
        }
        if self.uncommitted_bytes is not None:
            given["statestore.uncommitted.max.bytes"] = self.uncommitted_bytes
        if self.checkpoint_file:
            given["state.checkpoint.file"] = True
        return given


def drawn_settings(application_id: str, chance: random.Random, guarantee: str | None = None) -> Settings:
    return Settings(
        application_id,
        guarantee or chance.choice((EXACTLY_ONCE, AT_LEAST_ONCE)),
        chance.choice((1, 1, 2)),
        chance.choice((0, 10 * 1024 * 1024)),
        chance.choice((None, 20_000)),
        chance.choice((False, False, True)),
    )


@dataclass(slots=True)
class KillResults:
    """`faults`: each broken rule, as text. `stores`: how many were examined. `set_back`: how many had an earlier offset
    after a power loss. `written`, `restored`: records.
    """

    faults: list[str] = field(default_factory=list)
    kills: Counter[Moment] = field(default_factory=Counter)
    stores: int = 0
    without_offset: int = 0
    set_back: int = 0
    written: int = 0
    logged: int = 0
    restored: int = 0
    lost_disks: int = 0
    lacking: list[int] = field(default_factory=list)

    def add(self, other: "KillResults") -> None:
        self.faults += other.faults
        self.kills += other.kills
        self.stores += other.stores
        self.without_offset += other.without_offset
        self.set_back += other.set_back
        self.written += other.written
        self.logged += other.logged
        self.restored += other.restored
        self.lost_disks += other.lost_disks
        self.lacking += other.lacking

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {moment}" for moment, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kills}), {self.lost_disks} lost disks; {self.stores:,} stores opened, "
            f"{self.without_offset:,} of them without an offset, {self.set_back:,} set back by a power loss; "
            f"{self.written:,} records, {self.logged:,} changes, "
            f"{self.restored:,} restored; a store lacked at most {max(self.lacking, default=0):,} changes, "
            f"{sum(self.lacking) / max(1, len(self.lacking)):,.1f} on average; {len(self.faults)} faults"
        )


class KilledInstances:
    """The group, while the context lasts. `directory`: for everything that it keeps. `servers`: of its log."""

    def __init__(self, settings: Settings, directory: Path, chance: random.Random, servers: str | None = None) -> None:
        self._settings = settings
        self._directory = directory
        self._chance = chance
        self._servers = servers or f"embedded:{(directory / 'log').absolute()}"
        self._restores = directory / "restores"
        self._expected: Counter[bytes] = Counter()
        self._known: dict[Path, StoreOnDisk] = {}
        self._closing = ExitStack()
        self.results = KillResults()

    def __enter__(self) -> Self:
        with ExitStack() as closing_all:
            settings = self._settings
            self._restores.mkdir(parents=True)
            self._log = closing_all.enter_context(closing(open_log(self._servers)))
            create_topics(self._log, settings.application_id, settings.events, PARTITIONS)
            self._events = [TopicPartition(settings.events, number) for number in range(PARTITIONS)]
            changelogs = [self._changelog(store, number) for store in STORES for number in range(PARTITIONS)]
            self._committed = closing_all.enter_context(
                closing(CommittedRecords(self._log, changelogs, transactions=settings.guarantee == EXACTLY_ONCE))
            )
            configs = settings.configs(self._servers) | {RESTORES: str(self._restores)}
            coordinator = closing_all.enter_context(
                CoordinatorProcess(self._directory / "coordinator", {"cluster.bootstrap.servers": self._servers})
            )
            with CoordinatorClient(coordinator.url) as client:
                client.declare(settings.application_id, group_body(counting_stores(configs)))
            self._instances = closing_all.enter_context(
                InstanceProcesses(configs, coordinator.url, self._directory, counting_stores)
            )
            self._feeding = closing_all.enter_context(ExitStack())
            self._feeding.enter_context(Feed(self._log, _FEED_INTERVAL_S, self._rounds()))
            self._closing = closing_all.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def kill(self) -> None:
        """Start what does not run, kill one or all instances at a random moment, and examine their stores."""
        numbers = range(self._settings.instances)
        missing = [number for number in numbers if number not in self._instances.pids]
        done = self._done()
        for number in missing:
            self._instances.start(number)
        moment = self._chance.choice(list(Moment))
        victims = list(numbers) if self._chance.random() < _ALL_AT_ONCE_CHANCE else [self._chance.choice(numbers)]
        if moment is Moment.STARTING and set(victims) <= set(missing):
            time.sleep(self._chance.uniform(0, 0.8))
        else:
            wait_until(lambda: self._done() > done, self._output, WAITS_S)
            time.sleep(self._chance.uniform(0, 0.5))
        pids = self._instances.pids
        if moment is Moment.CLOSING:
            for victim in victims:
                os.kill(pids[victim], signal.SIGTERM)
            time.sleep(self._chance.uniform(0, 0.15))
        for victim in victims:
            self._instances.end(victim, signal.SIGKILL)
        self._instances.wait_until_ended()
        for victim in victims:
            self.results.kills[moment] += 1
            self._check_restores(victim, pids[victim])
            self._examine(victim, f"kill {self.results.kills.total()}, {moment}")
            if self._chance.random() < _LOST_DISK_CHANCE:
                self._lose_disk(victim)

    def finish(self) -> KillResults:
        """Let the instances process all that was written, close them, and compare the counts."""
        done = self._done()
        for number in range(self._settings.instances):
            if number not in self._instances.pids:
                self._instances.start(number)
        wait_until(lambda: self._done() > done, self._output, WAITS_S)
        self._feeding.close()
        ends = sum(self._log.end_offsets(self._events).values())
        wait_until(lambda: self._done() == ends, self._output, WAITS_S)
        pids = self._instances.pids
        for number in pids:
            self._instances.end(number, signal.SIGTERM)
        self._instances.wait_until_ended()
        for number, pid in pids.items():
            self._check_restores(number, pid)
            self._examine(number, "after a clean end")
        self.results.written = ends
        self._compare_counts()
        return self.results

    def _done(self) -> int:
        """The records that the group has committed."""
        committed = self._log.committed_offsets(self._settings.application_id, self._events)
        return sum(each.offset for each in committed.values())

    def _examine(self, instance: int, when: str) -> None:
        results = self.results
        state_dir = self._state_dir(instance)
        for store in stores_on_disk(state_dir, self._settings.application_id, self._directory, self._chance):
            results.stores += 1
            results.without_offset += store.now.offset is None
            results.set_back += store.after_power_loss.offset != store.now.offset
            where = f"{when}: {store.directory.relative_to(self._directory)}: "
            results.faults += [where + fault for fault in self._faults_of(store)]
            results.lacking.append(self._committed.count_beyond(store.changelog, store.now.offset))
            self._known[store.directory] = store

    def _faults_of(self, store: StoreOnDisk) -> Iterator[str]:
        before = self._known.get(store.directory)
        if before is not None and before.now.offset is not None and before.identity != store.identity:
            yield f"it was wiped; it had offset {before.now.offset} before"
        yield from self._committed.faults_of(store)

    def _check_restores(self, instance: int, pid: int) -> None:
        """What the process had restored, when it is dead."""
        file = self._restores / f"{pid}.jsonl"
        if not file.exists():
            return
        first: set[tuple[str, int]] = set()
        for text in file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            self.results.restored += line.get("restored", 0)
            store, number = line["store"], line["partition"]
            if "start" not in line or (store, number) in first or self._settings.instances > 1:
                continue
            first.add((store, number))
            before = next(
                (each for each in self._known.values() if each.changelog == self._changelog(store, number)), None
            )
            lacking_from = 0 if before is None or before.now.offset is None else before.now.offset + 1
            if line["start"] != lacking_from:
                self.results.faults.append(
                    f"store {store} of partition {number} lacked records from offset {lacking_from}, "
                    f"but was restored from {line['start']}"
                )
        file.unlink()

    def _lose_disk(self, instance: int) -> None:
        shutil.rmtree(self._state_dir(instance), ignore_errors=True)
        self._known = {path: store for path, store in self._known.items() if path.exists()}
        self.results.lost_disks += 1

    def _compare_counts(self) -> None:
        self._committed.read()
        self.results.logged += sum(self._committed.count_beyond(each, None) for each in self._committed.changelogs)
        self.results.faults += self._committed.wrong_counts(
            self._expected, exactly_once=self._settings.guarantee == EXACTLY_ONCE
        )

    def _changelog(self, store: str, number: int) -> TopicPartition:
        return changelog(self._settings.application_id, store, number)

    def _state_dir(self, instance: int) -> Path:
        return self._directory / "state" / f"instance-{instance}"

    def _rounds(self) -> Iterator[Sequence[FedRecord]]:
        """No key is written to two partitions."""
        chance = random.Random(PARTITIONS)
        while True:
            records = [
                (partition, f"{partition.partition}-{chance.randrange(_KEYS)}".encode(), b"event")
                for partition in self._events
                for _ in range(_FEED_RECORDS)
            ]
            self._expected.update(key for _, key, _ in records)
            yield records

    def _output(self) -> str:
        file = self._directory / "instances.log"
        return file.read_text(encoding="utf-8", errors="replace")[-5_000:] if file.exists() else "no output"


def run(settings: Settings, kills: int, directory: Path, chance: random.Random, servers: str | None) -> KillResults:
    with KilledInstances(settings, directory, chance, servers) as group:
        while group.results.kills.total() < kills:
            group.kill()
        return group.finish()
