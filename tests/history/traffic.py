"""A run: real processes at work for some minutes while faults happen, then rest, and all that was written down.

What is started is ended in every case. The seed decides the faults, the input and what operators do; processes and
threads take turns as the machine has it, so a seed is no exact replay.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.storage_faults.faults import small_disk
from tests.history.calls import write_run
from tests.history.fault_kinds import FreezableCoordinator, broker_killed, can_have_small_disk, fault_kinds
from tests.history.faults import FaultKind
from tests.history.proxies import Proxies
from tests.history.running import Running, RunSettings
from tests.history.word_counts import SESSION_TIMEOUT_MS
from tests.oracle.broker import Broker

DISCONNECT_GRACE_MS = 2_000
DISK_BYTES = 96 * 1024 * 1024


def run(settings: RunSettings, say: Callable[[str], None]) -> None:
    """Everything that happens is in `settings.directory` afterwards. Raises what kept the run from its end."""
    directory = settings.directory
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ending:
        coordinator_directory = directory / "coordinator"
        coordinator_directory.mkdir(mode=0o700)
        has_small_disk = ending.enter_context(_own_disk(coordinator_directory, say))
        known = _known(settings, has_small_disk=has_small_disk)
        write_run(directory, {**known, "broken_off": "it was killed"}, {})  # so that it can be judged even then
        servers = {group: f"embedded:{directory / 'log' / group}" for group in settings.groups}
        kinds: list[FaultKind] = []
        if settings.on_kafka:
            broker = ending.enter_context(_broker(directory / "broker"))
            servers = dict.fromkeys(settings.groups, broker.bootstrap_servers)
            kinds.append(broker_killed(broker))
        coordinator = ending.enter_context(
            FreezableCoordinator(
                coordinator_directory,
                {
                    "group.initial.rebalance.delay.ms": 500,
                    "group.disconnect.grace.ms": DISCONNECT_GRACE_MS,
                    "cluster.bootstrap.servers": ",".join(sorted(set(servers.values()))),
                },
            )
        )
        ending.callback(lambda: shutil.copy(coordinator.log_file, directory / "coordinator.log"))
        proxies = ending.enter_context(Proxies(coordinator.url))
        running = Running(settings, servers, proxies, say)
        ending.callback(running.end)
        try:
            running.prepare()
            if running.spark is not None:
                ending.enter_context(running.spark.running(running.applications))
                kinds += running.spark.fault_kinds()
            kinds += fault_kinds(coordinator, coordinator_directory, has_small_disk, running.members, proxies)
            wanted = settings.kinds or [each.name for each in kinds]
            running.work([each for each in kinds if each.faults and each.name in wanted])
            counts = running.rest()
        except Exception as error:
            write_run(directory, {**known, **_seen(running), "broken_off": repr(error)[:1_000]}, {})
            raise
        write_run(directory, {**known, **_seen(running)}, counts)


def _seen(running: Running) -> dict[str, object]:
    return {"failures": running.failures, "deaths": {} if running.spark is None else running.spark.deaths}


def _known(settings: RunSettings, *, has_small_disk: bool) -> dict[str, object]:
    """What is written down of a run from its begin on."""
    return {
        "seed": settings.seed,
        "minutes": settings.minutes,
        "processes": settings.processes,
        "on_kafka": settings.on_kafka,
        "groups": settings.groups,
        "has_small_disk": has_small_disk,
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heard_within_ms": min(SESSION_TIMEOUT_MS, DISCONNECT_GRACE_MS),
    }


@contextmanager
def _own_disk(directory: Path, say: Callable[[str], None]) -> Iterator[bool]:
    """A small disk at `directory`, so that it can be filled; whether that is possible here."""
    with ExitStack() as mounted:
        has_it = can_have_small_disk()
        if has_it:
            try:
                mounted.enter_context(small_disk(directory, DISK_BYTES))
            except (OSError, subprocess.CalledProcessError):
                has_it = False
        if not has_it:
            say("no disk is filled in this run: that needs root, and a small disk that can be mounted")
        yield has_it


@contextmanager
def _broker(directory: Path) -> Iterator[Broker]:
    """Raises JarsUnavailable where Kafka is not to be had."""
    broker = Broker(directory, controller_apart=True)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
