"""The parts of a run at work: input, operators and members for some minutes of faults, then rest."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from streams_runtime import Application
from tests.history.calls import Counts
from tests.history.faults import FaultInjector, FaultKind, drawn
from tests.history.lever_operator import LeverOperator
from tests.history.member import MemberProcess, MemberSettings
from tests.history.proxies import Proxies
from tests.history.recorder import Recorder
from tests.history.spark_members import SparkMembers
from tests.history.word_counts import AT_LEAST_ONCE, FIRST_PROBING_INTERVAL_MS, WordFeed, word_count

DYNAMIC, STATIC = "words-dynamic", "words-static"
ON_SPARK = ("words-spark", AT_LEAST_ONCE)
OPERATORS = ("ada", "bob")
DEFINITIONS_APART = 100_000
REST_TIMEOUT_S = 600.0
_TURN_S = 0.5
_TOLD_EVERY_S = 15.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`processes`: of each group, of two threads each. `directory`: new or empty.

    `on_kafka`: the log is a real broker. `groups`: any of DYNAMIC, STATIC, and those of ON_SPARK. `kinds`: only these
    kinds of faults happen; all kinds if it is empty. `mean_gap_s`: the mean time between the begins of two faults.
    `lines_a_turn`: the input of each group in half a second.
    """

    seed: int
    minutes: float
    directory: Path
    processes: int = 3
    on_kafka: bool = False
    groups: tuple[str, ...] = (DYNAMIC, STATIC)
    kinds: tuple[str, ...] = ()
    mean_gap_s: float = 3.0
    lines_a_turn: int = 10


@dataclass(slots=True)
class Running:
    """`servers`: of each group's log. `failures`: members that failed. `applications`: as they were declared at first.

    The caller starts and ends the jobs on Spark.
    """

    settings: RunSettings
    servers: Mapping[str, str]
    proxies: Proxies
    say: Callable[[str], None]
    members: list[MemberProcess] = field(default_factory=list)
    spark: SparkMembers | None = None
    applications: Mapping[str, Application] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    _feeds: dict[str, WordFeed] = field(default_factory=dict)
    _operators: list[LeverOperator] = field(default_factory=list)
    _recorders: list[Recorder] = field(default_factory=list)

    def prepare(self) -> None:
        """Groups are declared, and their members started."""
        seed = self.settings.seed
        urls = {group: self._proxy(group) for group in self.settings.groups if group in ON_SPARK}
        if urls:
            self.spark = SparkMembers(self.settings.directory, urls, self.settings.processes)
        for group in self.settings.groups:
            if group not in urls:
                names = (f"{group}-{number}" for number in range(self.settings.processes))
                self.members += [MemberProcess(self._member(name, group)) for name in names]
            self._feeds[group] = WordFeed(group, self.servers[group], random.Random(f"{seed} words {group}"))
        for number, name in enumerate(OPERATORS):
            url = self._proxy(name)
            chance = random.Random(f"{seed} operator {name}")
            recorder = self._recorder(name)
            taken = partial(self.proxies.taken, name)
            definitions = itertools.count(FIRST_PROBING_INTERVAL_MS + number * DEFINITIONS_APART)
            define = partial(self._application, definitions)
            self._operators.append(LeverOperator(url, taken, recorder, self.settings.groups, chance, define))
        self.applications = self._operators[0].declare_at_first()
        for member in self.members:
            member.start()

    def work(self, kinds: Sequence[FaultKind]) -> None:
        """Input, levers and faults for the minutes of the run. Returns when the last fault has ended."""
        seed, seconds = self.settings.seed, self.settings.minutes * 60
        faults = drawn(kinds, seconds, self.settings.mean_gap_s, random.Random(f"{seed} faults"))
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
        if self.spark is not None:
            self.failures += self.spark.leave()
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

    def _member(self, name: str, group: str) -> MemberSettings:
        return MemberSettings(
            name, group, self._proxy(name), self.servers[group], self.settings.directory, group == STATIC
        )

    def _proxy(self, name: str) -> str:
        """The URL of a new proxy."""
        return self.proxies.add(name, random.Random(f"{self.settings.seed} proxy {name}"))

    def _application(self, definitions: Iterator[int], group: str) -> Application:
        """The application of a group, with another definition in each call."""
        return word_count(group, self.servers[group], self.settings.directory / "state", next(definitions))

    def _recorder(self, client: str) -> Recorder:
        recorder = Recorder(self.settings.directory, client)
        self._recorders.append(recorder)
        return recorder

    def _write_and_look(self, injector: FaultInjector) -> None:
        for feed in self._feeds.values():
            feed.write(self.settings.lines_a_turn)
        self._look(injector)

    def _look(self, injector: FaultInjector) -> None:
        """Start a member that has ended by itself again, and note the reason. Raises if a job on Spark has ended."""
        if self.spark is not None:
            self.spark.check()
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
