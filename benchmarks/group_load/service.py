"""The coordinator under load: `assignor serve` as a process of its own, its memory, and what its metrics say."""

from __future__ import annotations

import re
import resource
import sqlite3
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import httpx

from benchmarks.process_tree import descendants
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from tests.coordinator_api import group_members

LONGEST_STOP_S = 120.0
_LOOK_INTERVAL_S = 0.1


def definition(tasks: int) -> dict[str, Any]:
    """The body of PUT /v1/groups/{group}: one topic, one store, as many tasks as are asked for, Kafka's default
    configs."""
    return group_members.definition(tasks, configs={})


class ServiceUnderLoad(CoordinatorProcess):
    """`files`: how many descriptors it may have open; None for as many as this process."""

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None, files: int | None = None) -> None:
        super().__init__(directory, {"log.level": "warning", **(settings or {})})
        self._files = files
        self._database = directory / "coordinator.sqlite3"

    @property
    def pid(self) -> int:
        assert self._process is not None, "start it first"
        return self._process.pid

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=120, trust_env=False)

    def declare(self, group: str, definition: Mapping[str, object]) -> None:
        with self.client() as client:
            client.put(f"/v1/groups/{group}", json=definition).raise_for_status()

    def describe(self, group: str) -> dict[str, Any]:
        with self.client() as client:
            document: dict[str, Any] = client.get(f"/v1/groups/{group}").raise_for_status().json()
        return document

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        with self.client() as client:
            text = client.get("/metrics").text
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE))

    def recorded_bytes(self, generation_id: int) -> int:
        """How large the recording of a rebalance is in the database."""
        with closing(sqlite3.connect(f"{self._database.absolute().as_uri()}?mode=ro", uri=True)) as database:
            query = "select sum(length(document)) from rebalances where generation_id = ?"
            (size,) = database.execute(query, (generation_id,)).fetchone()
        return int(size or 0)

    def ends_in_s(self) -> float:
        """Send SIGTERM; how long until the process has ended. Raises TimeoutExpired, after it has been killed."""
        process = self._process
        assert process is not None, "start it first"
        begun = time.monotonic()
        process.terminate()
        try:
            process.wait(LONGEST_STOP_S)
        finally:
            self._process = None
            if process.poll() is None:
                process.kill()
                process.wait()
        return time.monotonic() - begun

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        spawned = super()._spawn(log)
        if self._files is not None:
            _, hard = resource.prlimit(spawned.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(spawned.pid, resource.RLIMIT_NOFILE, (self._files, hard))
        return spawned


def memory_of(root: int) -> int:
    """Bytes of a process and all below it; pages that several of them share count once (PSS)."""
    return sum(_proportional_bytes(pid) for pid in descendants(root))


def _proportional_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended meanwhile
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


class PeakOfMemory:
    """Looks ten times a second at the memory of a process and all below it, as long as the `with` block runs."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.bytes = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakOfMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.bytes = max(self.bytes, memory_of(self._root))
            if self._end.wait(_LOOK_INTERVAL_S):
                return
