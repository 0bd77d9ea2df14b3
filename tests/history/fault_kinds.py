"""What happens to the parts of a run: its coordinator and its disk, its processes of members, and its connections."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.storage_faults.faults import SQLITE_FAULTS
from tests.acceptance.fleet.faulty_proxy import FaultyProxy
from tests.history.faults import Fault, FaultKind
from tests.history.member import MemberProcess
from tests.history.proxies import Proxies
from tests.oracle.broker import Broker
from tests.warm_coordinator import WarmCoordinator

COORDINATOR = "coordinator"
_DATABASE = "coordinator.sqlite3"
_LOSES = 0.3
_DELAYS_S = 0.8
_LOCK_PATIENCE_S = 20.0


class FreezableCoordinator(WarmCoordinator):
    """One that can be stopped in the middle of whatever it does."""

    def freeze(self) -> None:
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGCONT)


def fault_kinds(
    coordinator: FreezableCoordinator,
    coordinator_directory: Path,
    has_small_disk: bool,
    members: Sequence[MemberProcess],
    proxies: Proxies,
) -> list[FaultKind]:
    """All kinds that can happen here. `has_small_disk`: the directory is a disk of its own, which can be filled."""
    by_name = {each.settings.name: each for each in members}

    def of_members(happens: Callable[[MemberProcess], Fault]) -> Mapping[str, Fault]:
        return {name: happens(member) for name, member in by_name.items()}

    def of_proxies(change: Callable[[FaultyProxy], object], back: Callable[[FaultyProxy], object]) -> dict[str, Fault]:
        return {
            f"proxy of {name}": partial(
                _between, partial(proxies.change, name, change), partial(proxies.change, name, back)
            )
            for name in proxies.names
        }

    kinds = [
        FaultKind("coordinator killed", 10, 3.0, {COORDINATOR: partial(_between, coordinator.kill, coordinator.start)}),
        FaultKind(
            "coordinator frozen", 6, 12.0, {COORDINATOR: partial(_between, coordinator.freeze, coordinator.thaw)}
        ),
        FaultKind("database locked", 4, 6.0, {COORDINATOR: partial(_locked, coordinator_directory / _DATABASE)}),
        FaultKind("member killed", 14, 6.0, of_members(lambda member: partial(_between, member.kill, member.start))),
        FaultKind("member frozen", 10, 12.0, of_members(lambda member: partial(_between, member.freeze, member.thaw))),
        FaultKind("member restarted", 8, 6.0, of_members(lambda member: partial(_between, member.leave, member.start))),
        FaultKind("connections broken", 12, 1.0, of_proxies(FaultyProxy.break_all, lambda _: None)),
        FaultKind("callers turned away", 4, 8.0, of_proxies(_refuse, _refuse_no_more)),
        FaultKind("answers lost", 12, 8.0, of_proxies(_lose, _lose_no_more)),
        FaultKind("answers delayed", 10, 8.0, of_proxies(_delay, _delay_no_more)),
        FaultKind("network silent", 8, 10.0, of_proxies(FaultyProxy.fall_silent, FaultyProxy.flow_again)),
    ]
    if has_small_disk:
        full = partial(SQLITE_FAULTS["full-disk"].happens, coordinator_directory)
        kinds.append(FaultKind("disk full", 5, 8.0, {COORDINATOR: full}))
    return kinds


@contextmanager
def _between(begin: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    begin()
    try:
        yield
    finally:
        end()


@contextmanager
def _locked(database: Path) -> Iterator[None]:
    connection = sqlite3.connect(database, isolation_level=None, timeout=_LOCK_PATIENCE_S)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def _refuse(proxy: FaultyProxy) -> None:
    proxy.refuses = True
    proxy.break_all()


def _refuse_no_more(proxy: FaultyProxy) -> None:
    proxy.refuses = False


def _lose(proxy: FaultyProxy) -> None:
    proxy.loses_answers = _LOSES


def _lose_no_more(proxy: FaultyProxy) -> None:
    proxy.loses_answers = 0.0


def _delay(proxy: FaultyProxy) -> None:
    proxy.delays_s = _DELAYS_S


def _delay_no_more(proxy: FaultyProxy) -> None:
    proxy.delays_s = 0.0


def broker_killed(broker: Broker) -> FaultKind:
    """Of a group on Kafka: its only broker is killed and started again on its files."""
    return FaultKind("broker killed", 5, 3.0, {"broker": partial(_broker_killed, broker)})


@contextmanager
def _broker_killed(broker: Broker) -> Iterator[None]:
    broker.kill()
    try:
        yield
    finally:
        broker.start()


def can_have_small_disk() -> bool:
    return os.getuid() == 0
