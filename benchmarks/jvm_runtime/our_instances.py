"""Runs an application of `topologies.py` in several instances, each a process of `assignor workers run --local`.

Arguments, commands and answers are those of `ours.py`, with a number of instances instead of threads. Each instance has
one stream thread. The clock starts when all instances together have processed the first records: they say how many on
`/metrics`. CPU is that of the instances' processes; those of the coordinator and of this program do not count.
"""

import json
import os
import re
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from benchmarks.jvm_runtime.clock import Figures
from benchmarks.jvm_runtime.topologies import topology
from spark_jobs.ownership.group_view import wait_for_group
from spark_jobs.workers.local_instance import LocalInstance
from spark_jobs.workers.local_instances import LocalInstances
from streams_runtime import Application, CoordinatorProcess, ProcessingGuarantee, StreamsConfig
from streams_runtime.instance.application import group_body
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.processes import children

_VARIABLE = "BENCHMARKED_APPLICATION"
_LOOK_SHARPLY_S, _LOOK_S = 0.002, 0.05
_JOIN_TIMEOUT_S = 60.0
_DELAY_MS = 3_000
"""The first rebalance waits for all instances, which start at the same time."""
_PROCESSED = re.compile(rb"^streams_processed_records_total\{.*\} (\S+)$", re.MULTILINE)


def application() -> Application:
    """By import path, for the process of an instance, which inherits what it has to know."""
    arguments = json.loads(os.environ[_VARIABLE])
    configs = StreamsConfig(
        arguments["identifier"],
        arguments["servers"],
        processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2,
        statestore_cache_max_bytes=arguments["cache_bytes"],
    )
    return Application(
        topology(arguments["application"], arguments["events"], arguments["table"], arguments["output"]), configs
    )


class Runs:
    """One at a time."""

    def __init__(self, name: str, events: str, table: str, cache_bytes: int, instances: int) -> None:
        self._arguments = {"application": name, "events": events, "table": table, "cache_bytes": cache_bytes}
        self._instances = instances
        self._running = ExitStack()
        self._endpoints: list[str] = []
        self._http = httpx.Client(trust_env=False)
        self._begun: Figures | None = None

    def answer(self, line: str) -> str:
        match line.split():
            case ["run", identifier, directory, output, begin, end, servers]:
                os.environ[_VARIABLE] = json.dumps(
                    {**self._arguments, "identifier": identifier, "servers": servers, "output": output}
                )
                return self._run(Path(directory), servers, int(begin), int(end))
            case ["end"]:
                return self._end()
        raise AssertionError(f"no such command: {line}")

    def _run(self, state: Path, servers: str, begin: int, end: int) -> str:
        running, app = self._running, application()
        directory = Path(running.enter_context(tempfile.TemporaryDirectory()))
        settings = {"group.initial.rebalance.delay.ms": _DELAY_MS, "cluster.bootstrap.servers": servers}
        coordinator = running.enter_context(CoordinatorProcess(directory, settings))
        client = running.enter_context(CoordinatorClient(coordinator.url))
        client.declare(app.id, group_body(app))
        first = LocalInstance(f"{__spec__.name}:application", "here", 0, 0, coordinator.url, 1, str(state), None, None)
        local = running.enter_context(LocalInstances(first, self._instances, lambda line: print(line, file=sys.stderr)))
        threading.Thread(target=local.wait, daemon=True).start()
        view = wait_for_group(
            client, app.id, lambda view: len(view.members) == self._instances, "all instances", _JOIN_TIMEOUT_S
        )
        self._endpoints = [str(member.user_endpoint) for member in view.members]
        self._begun = self._wait_for(begin, _LOOK_SHARPLY_S)
        self._wait_for(end, _LOOK_S)
        return "processed"

    def _end(self) -> str:
        assert self._begun is not None, "run it first"
        ended = self._figures()
        self._running.close()
        begun, self._begun = self._begun, None
        return ended.since(begun)

    def _wait_for(self, records: int, look_s: float) -> Figures:
        while self._processed() < records:
            time.sleep(look_s)
        return self._figures()

    def _figures(self) -> Figures:
        processes = [pid for pid, command in children(os.getpid()).items() if "local_instance" in command]
        return Figures.of_processes(self._processed(), processes)

    def _processed(self) -> int:
        shown = (self._http.get(f"http://{endpoint}/metrics").content for endpoint in self._endpoints)
        return sum(int(float(count)) for text in shown for count in _PROCESSED.findall(text))


def main() -> None:
    name, events, table, cache_bytes, instances = sys.argv[1:]
    runs = Runs(name, events, table, int(cache_bytes), int(instances))
    for line in sys.stdin:
        print(runs.answer(line), flush=True)


if __name__ == "__main__":
    main()
