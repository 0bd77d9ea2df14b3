"""Instances of an application as real processes of this machine, which are started and ended one by one.

They are forked from a process that has imported everything, so that starting one takes no CPU from the others.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.applications import counting
from spark_jobs.ownership.executor_identity import ExecutorIdentity
from spark_jobs.ownership.ownership_log import SUFFIX, OwnershipLine, read_ownership
from spark_jobs.workers.member_process import InstanceSettings, run_instance
from streams_runtime.instance.application import Application

_FORKING = multiprocessing.get_context("forkserver")


class InstanceProcesses:
    """The instances, by partition. When the context ends, so do they.

    `configs`: of the application, under dotted names. `directory`: for state, ownership logs and what instances print.
    `application`: a function of a module, which makes the application from its configs in each process.
    `deaths`: process id to when it got the signal that ended it, in milliseconds since the epoch, until `forget_ended`.
    """

    def __init__(
        self,
        configs: Mapping[str, object],
        coordinator_url: str,
        directory: Path,
        application: Callable[[Mapping[str, object]], Application] = counting,
    ) -> None:
        self._application = application
        self._configs = dict(configs)
        self._url = coordinator_url
        self._directory = directory
        self.log_dir = directory / "ownership"
        self._running: dict[int, ForkServerProcess] = {}
        self._ended: list[ForkServerProcess] = []
        self._incarnation = 0
        self.deaths: dict[int, float] = {}

    def __enter__(self) -> Self:
        _FORKING.set_forkserver_preload(["benchmarks.instance_processes"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes = [*self._running.values(), *self._ended]
        for process in processes:
            process.kill()
        for process in processes:
            process.join()

    @property
    def pids(self) -> dict[int, int]:
        """By partition, those of the running instances."""
        return {partition: process.pid for partition, process in self._running.items() if process.pid is not None}

    def start(self, partition: int) -> None:
        """Return before the instance has joined its group."""
        self._release_ended()
        self._incarnation += 1
        process = _FORKING.Process(
            target=_be_instance,
            args=(
                self._application,
                self._configs,
                self._url,
                str(self._directory),
                str(self.log_dir),
                partition,
                self._incarnation,
            ),
        )
        process.start()
        self._running[partition] = process

    def end(self, partition: int, number: signal.Signals) -> float:
        """Send an instance the signal that ends it: when, in milliseconds since the epoch."""
        process = self._running.pop(partition)
        self._ended.append(process)
        assert process.pid is not None, "it was started"
        self.deaths[process.pid] = time.time() * 1_000
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(process.pid, number)
        return self.deaths[process.pid]

    def wait_until_ended(self) -> None:
        """Wait for the processes that got a signal."""
        for process in self._ended:
            process.join()

    def lines(self) -> list[OwnershipLine]:
        """What all threads ever wrote down, but for those that `forget_ended` removed."""
        return read_ownership(self.log_dir)

    def forget_ended(self) -> None:
        """Remove the ownership logs of ended instances, and their deaths.

        Reading all logs would soon take CPU from the others, and after some hundred instances a new one gets the
        process id of an old one: by its death the new one would be taken for dead.
        """
        for pid in self.deaths:
            for file in self.log_dir.glob(f"*-{pid}{SUFFIX}"):
                file.unlink()
        self.deaths.clear()

    def _release_ended(self) -> None:
        """Each holds an open file until it is closed."""
        for process in [each for each in self._ended if not each.is_alive()]:
            process.join()
            process.close()
            self._ended.remove(process)


def _be_instance(
    application: Callable[[Mapping[str, object]], Application],
    configs: Mapping[str, object],
    url: str,
    directory: str,
    log_dir: str,
    partition: int,
    incarnation: int,
) -> None:
    """The body of an instance's process. What it prints goes to a file: tracebacks of killed ones are not news."""
    with open(f"{directory}/instances.log", "ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    settings = InstanceSettings(application(configs), url, 1, f"{directory}/state", log_dir)
    run_instance(settings, partition, incarnation, ExecutorIdentity(f"e{partition}", None))
