"""A run: real processes at work for some minutes while faults happen, then rest, and all that was written down.

What is started is ended in every case. The seed decides the faults, the input and what operators do; processes and
threads take turns as the machine has it, so a seed is no exact replay.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.storage_faults.faults import small_disk
from tests.history.calls import Counts, write_run
from tests.history.fault_kinds import FreezableCoordinator, can_have_small_disk, fault_kinds
from tests.history.faults import FaultInjector, FaultKind, drawn
from tests.history.lever_operator import LeverOperator
from tests.history.member import MemberProcess, MemberSettings
from tests.history.proxies import Proxies
from tests.history.recorder import Recorder
from tests.history.word_counts import SESSION_TIMEOUT_MS, WordFeed, address

GROUPS = ("words-dynamic", "words-static")
DISCONNECT_GRACE_MS = 2_000
OPERATORS = ("ada", "bob")
DEFINITIONS_APART = 100_000
MEAN_GAP_S = 3.0
DISK_BYTES = 96 * 1024 * 1024
REST_TIMEOUT_S = 600.0
_LINES_A_TURN = 10
_TURN_S = 0.5
_TOLD_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`processes`: of each group, of two threads each. `directory`: new or empty."""

    seed: int
    minutes: float
    directory: Path
    processes: int = 3


def run(settings: RunSettings, say: Callable[[str], None]) -> None:
    """Everything that happens is in `settings.directory` afterwards. Raises what kept the run from its end."""
    directory = settings.directory
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ending:
        coordinator_directory = directory / "coordinator"
        coordinator_directory.mkdir(mode=0o700)
        has_small_disk = ending.enter_context(_own_disk(coordinator_directory, say))
        log_addresses = ",".join(address(directory / "log" / group) for group in GROUPS)
        coordinator = ending.enter_context(
            FreezableCoordinator(
                coordinator_directory,
                {
                    "group.initial.rebalance.delay.ms": 500,
                    "group.disconnect.grace.ms": DISCONNECT_GRACE_MS,
                    "cluster.bootstrap.servers": log_addresses,
                },
            )
        )
        ending.callback(lambda: shutil.copy(coordinator.log_file, directory / "coordinator.log"))
        proxies = ending.enter_context(Proxies(coordinator.url))
        running = _Running(settings, coordinator, proxies, say)
        ending.callback(running.end)
        running.prepare()
        running.work(fault_kinds(coordinator, coordinator_directory, has_small_disk, running.members, proxies))
        counts = running.rest()
        write_run(
            directory,
            {
                "seed": settings.seed,
                "minutes": settings.minutes,
                "processes": settings.processes,
                "session_timeout_ms": SESSION_TIMEOUT_MS,
                "heard_within_ms": min(SESSION_TIMEOUT_MS, DISCONNECT_GRACE_MS),
                "has_small_disk": has_small_disk,
                "failures": running.failures,
            },
            counts,
        )


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


@dataclass(slots=True)
class _Running:
    """The parts of a run that are started one after the other. `failures`: members that ended with an error."""

    settings: RunSettings
    coordinator: FreezableCoordinator
    proxies: Proxies
    say: Callable[[str], None]
    members: list[MemberProcess] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)
    _feeds: dict[str, WordFeed] = field(default_factory=dict)
    _operators: list[LeverOperator] = field(default_factory=list)
    _recorders: list[Recorder] = field(default_factory=list)

    def prepare(self) -> None:
        """Groups are declared, and their members started."""
        directory, seed = self.settings.directory, self.settings.seed
        for number in range(self.settings.processes):
            for group in GROUPS:
                name = f"{group}-{number}"
                url = self.proxies.add(name, random.Random(f"{seed} proxy {name}"))
                is_static = group == GROUPS[1]
                self.members.append(MemberProcess(MemberSettings(name, group, url, directory, is_static)))
        for group in GROUPS:
            log_directory = directory / "log" / group
            self._feeds[group] = WordFeed(group, log_directory, random.Random(f"{seed} words {group}"))
        one_of_each = {member.settings.group: member.settings for member in self.members}
        for number, name in enumerate(OPERATORS):
            url = self.proxies.add(name, random.Random(f"{seed} proxy {name}"))
            chance = random.Random(f"{seed} operator {name}")
            recorder = self._recorder(name)
            self._operators.append(LeverOperator(url, recorder, one_of_each, chance, number * DEFINITIONS_APART))
        self._operators[0].declare_at_first()
        for member in self.members:
            member.start()

    def work(self, kinds: Sequence[FaultKind]) -> None:
        """Input, levers and faults for the minutes of the run. Returns when the last fault has ended."""
        seed, seconds = self.settings.seed, self.settings.minutes * 60
        faults = drawn(kinds, seconds, MEAN_GAP_S, random.Random(f"{seed} faults"))
        injector = FaultInjector(self._recorder("faults"))
        stop = threading.Event()
        threads = [threading.Thread(target=operator.work, args=(stop,)) for operator in self._operators]
        injecting = threading.Thread(target=injector.have_happen, args=(faults, stop))
        for thread in (*threads, injecting):
            thread.start()
        began_s = told_s = time.monotonic()
        try:
            while (now_s := time.monotonic()) < began_s + seconds:
                self._write_and_look(injector)
                if now_s - told_s >= _TOLD_EVERY_S:
                    told_s = now_s
                    self._tell(f"{now_s - began_s:.0f} s of {seconds:.0f} s, {injector.happened} faults")
                stop.wait(_TURN_S)
        finally:
            stop.set()
            for thread in (*threads, injecting):
                thread.join()
        self._note_faults(injector.failures)

    def rest(self) -> dict[str, Counts]:
        """All levers off, everything counted, everybody gone. Raises what kept an operator from being answered."""
        self._operators[0].end_levers()
        deadline_s = time.monotonic() + REST_TIMEOUT_S
        injector = FaultInjector(self._recorder("rest"))
        told_s = time.monotonic()
        while any(not feed.progress().is_complete for feed in self._feeds.values()):
            self._look(injector)
            if time.monotonic() - told_s >= _TOLD_EVERY_S:
                told_s = time.monotonic()
                self._tell("at rest")
            if time.monotonic() > deadline_s:
                break
            time.sleep(_TURN_S)
        self._operators[0].end_levers()  # it describes every group
        for member in self.members:
            member.leave()
        return {group: feed.counts() for group, feed in self._feeds.items()}

    def end(self) -> None:
        """Whatever runs."""
        for member in self.members:
            if member.life:
                member.kill()
        for operator in self._operators:
            operator.close()
        for feed in self._feeds.values():
            feed.close()
        for recorder in self._recorders:
            recorder.close()

    def _recorder(self, client: str) -> Recorder:
        recorder = Recorder(self.settings.directory, client)
        self._recorders.append(recorder)
        return recorder

    def _write_and_look(self, injector: FaultInjector) -> None:
        for feed in self._feeds.values():
            feed.write(_LINES_A_TURN)
        self._look(injector)

    def _look(self, injector: FaultInjector) -> None:
        """Start who ended by himself again, and note why he did."""
        for member in self.members:
            name = member.settings.name
            with injector.spared(name) as is_spared:
                if is_spared and member.exit_code is not None:
                    said = f"{name}.{member.life} ended with {member.exit_code}: {member.said_last()}"
                    self.failures.append({"group": member.settings.group, "said": said})
                    self.say(said)
                    member.start()

    def _note_faults(self, failures: Sequence[str]) -> None:
        """A fault that could not end left its victim behind: nothing can be judged."""
        if failures:
            raise RuntimeError(f"faults failed: {'; '.join(failures)}")

    def _tell(self, what: str) -> None:
        progress = {group: feed.progress() for group, feed in self._feeds.items()}
        done = ", ".join(f"{group} {each.done:,} of {each.there:,} records" for group, each in progress.items())
        self.say(f"{what}; {done}")
