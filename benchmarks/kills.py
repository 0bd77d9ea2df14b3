"""How long tasks stand still when one process after another is killed, every other one while a rebalance is under way.

The settings are those of README's application: exactly-once, a standby for each task, else the defaults, on the
embedded log and one coordinator on SQLite. The application counts by key; each process runs one thread, and all are fed
without a pause.

- A process killed while the group is stable dies when every task runs and has a standby that has caught up.
- A process killed during a rebalance dies in the same situation, but right after the process that replaces the one
  before it has joined: the coordinator's state is no longer Stable.

From the signal until a new owner has processed a first record, for each task of which the killed process had processed
a record; a kill counts with its slowest task. A task none of whose standbys had caught up, or was left, is counted
apart: its new owner has to read the changelog. A task that had such a standby may all the same go to another process,
such as the one that has just started, whose old state is not older than acceptable.recovery.lag allows.
"""

import argparse
import random
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.table import Table

from assignor.errors import AssignorFault
from assignor.types import TopicPartition
from benchmarks.applications import APPLICATION_ID, EVENTS, counting, create_topics
from benchmarks.feed import FedRecord, Feed
from benchmarks.flat_out import miscounted
from benchmarks.handovers import STEPS, Handover, all_run, first_record, handovers, lost_tasks, percentile
from benchmarks.instance_processes import InstanceProcesses
from benchmarks.readme_group import is_caught_up
from benchmarks.turns import load_average
from spark_jobs.ownership.group_status import GroupWatch
from spark_jobs.ownership.group_view import STABLE, GroupView, group_view, wait_for_group
from spark_jobs.ownership.ownership_history import members_behind
from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine
from streams_runtime.instance.application import group_body
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.membership.coordinator_client import CoordinatorClient

KILLS, QUICK_KILLS, SEED = 500, 4, 1
INSTANCES, TASKS = 3, 6
P95_GOAL_MS, LONGEST_GOAL_MS = 800, 1_000
WHILE_STABLE, IN_REBALANCE = "while stable", "during a rebalance"
_FEED_INTERVAL_S, _FEED_RECORDS, _DIFFERENT_KEYS = 0.01, 3, 1_000
_SETTLE_TIMEOUT_S, _TAKEOVER_TIMEOUT_S, _REBALANCE_TIMEOUT_S, _COUNTED_TIMEOUT_S = 120.0, 60.0, 30.0, 120.0
_COUNT_INTERVAL_S = 0.1
_KILLS_A_LINE = 20


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, by lost task. `ready`: tasks that had a standby which had caught up; `unready`: those that had none.

    `when`: WHILE_STABLE or IN_REBALANCE. `by_others`: tasks that had such a standby, but were taken over by another.
    """

    when: str
    ready: Mapping[str, Handover]
    unready: Mapping[str, Handover]
    by_others: frozenset[str] = frozenset()

    @property
    def slowest_ready(self) -> tuple[str, Handover] | None:
        """None when no task that counts was lost."""
        return max(self.ready.items(), key=lambda entry: entry[1].total, default=None)


def run(console: Console, *, quick: bool = False) -> None:
    """Print how long the tasks stood still, and whether all was counted right."""
    measure(console, QUICK_KILLS if quick else KILLS, SEED)


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=SEED, help="which of the processes with tasks are killed")
    options = parser.parse_args(arguments)
    measure(console, options.kills, options.seed)


def measure(console: Console, kills: int, seed: int) -> None:
    """Kill so many processes, and print the results."""
    chance = random.Random(seed)
    began_s = time.monotonic()
    done: list[Kill] = []
    with tempfile.TemporaryDirectory(prefix="bench-kills-") as directory, KilledGroup(Path(directory)) as group:
        for number in range(kills):
            done.append(group.kill(chance, in_rebalance=number % 2 == 1))
            if line := slow(number + 1, done[-1]):
                console.print(line)
            if (number + 1) % _KILLS_A_LINE == 0:
                console.print(f"{number + 1:,} of {kills:,} kills after {time.monotonic() - began_s:,.0f} s")
        wrong = group.miscounted()
        console.print(table(done))
        console.print(f"seed {seed}, {time.monotonic() - began_s:,.0f} s, {load_average()}")
        console.print(f"{group.records:,} records, {wrong:,} keys miscounted; {verdict(done, wrong)}")


def slow(number: int, kill: Kill) -> str | None:
    """The steps of a kill's slowest task, when that came too late; None when it did not."""
    slowest = kill.slowest_ready
    if slowest is None or slowest[1].total <= LONGEST_GOAL_MS:
        return None
    task, one = slowest
    steps = ", ".join(f"{name} {step(one):,.0f} ms" for name, step in STEPS.items())
    taker = "another process than its standby" if task in kill.by_others else "its standby"
    return f"kill {number}, {kill.when}, task {task}, taken over by {taker}: {steps}; {one.records:,} records read"


def table(kills: Sequence[Kill]) -> Table:
    """A row for each time of a kill, and for the tasks that no standby took over, or could take over."""
    found = Table(
        title=f"SIGKILL of one of {INSTANCES} processes, default settings: ms until the slowest task ran again"
    )
    headings = ("killed", "times", "measured", "median", "95th", "longest", f"later than {LONGEST_GOAL_MS:,} ms")
    for heading in headings:
        found.add_column(heading, justify="left" if heading == "killed" else "right")
    for when in (WHILE_STABLE, IN_REBALANCE):
        of_it = [kill for kill in kills if kill.when == when]
        found.add_row(when, f"{len(of_it):,}", *_cells(measured(of_it)))
        others = [one.total for kill in of_it for task, one in kill.ready.items() if task in kill.by_others]
        found.add_row("  of these, tasks not taken over by their standby", f"{len(others):,}", *_cells(others))
    found.add_row("all", f"{len(kills):,}", *_cells(measured(kills)))
    unready = [max(one.total for one in kill.unready.values()) for kill in kills if kill.unready]
    found.add_row("without a ready standby", f"{len(unready):,}", *_cells(unready))
    return found


def measured(kills: Sequence[Kill]) -> list[float]:
    """Of each kill that lost tasks with a ready standby, the time of the slowest of them."""
    return [kill.slowest_ready[1].total for kill in kills if kill.slowest_ready is not None]


def verdict(kills: Sequence[Kill], wrong: int) -> str:
    """Whether the goals are reached."""
    totals = measured(kills)
    reached = totals and percentile(totals, 95) <= P95_GOAL_MS and max(totals) <= LONGEST_GOAL_MS and not wrong
    return (
        f"goal: 95th at most {P95_GOAL_MS:,} ms, none later than {LONGEST_GOAL_MS:,} ms, none miscounted:"
        f" {'reached' if reached else 'MISSED'}"
    )


def _cells(totals: Sequence[float]) -> tuple[str, ...]:
    if not totals:
        return ("0", "", "", "", "")
    late = sum(total > LONGEST_GOAL_MS for total in totals)
    times = (statistics.median(totals), percentile(totals, 95), max(totals))
    return (f"{len(totals):,}", *(f"{ms:,.0f}" for ms in times), f"{late:,}")


class KilledGroup:
    """The group, while the context lasts. `directory`: for everything that it keeps."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._closing = ExitStack()
        self._feeding = ExitStack()
        self._written: Counter[bytes] = Counter()
        self._caught_up: set[tuple[str, str]] = set()
        """(task, thread) of each standby that had caught up when the group was last seen settled."""

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            address = f"embedded:{(self._directory / 'log').absolute()}"
            configs = {
                "application.id": APPLICATION_ID,
                "bootstrap.servers": address,
                "processing.guarantee": "exactly_once_v2",
                "num.standby.replicas": 1,
            }
            self._log = EmbeddedLog(self._directory / "log")
            closing.callback(self._log.close)
            create_topics(self._log, TASKS)
            coordinator = closing.enter_context(
                CoordinatorProcess(self._directory / "coordinator", {"cluster.bootstrap.servers": address})
            )
            self._client = closing.enter_context(CoordinatorClient(coordinator.url))
            self._watch = closing.enter_context(GroupWatch(self._client, APPLICATION_ID))
            self._client.declare(APPLICATION_ID, group_body(counting(configs)))
            self._instances = closing.enter_context(InstanceProcesses(configs, coordinator.url, self._directory))
            for partition in range(INSTANCES):
                self._instances.start(partition)
            closing.enter_context(self._feeding)
            self._feeding.enter_context(Feed(self._log, _FEED_INTERVAL_S, self._events(random.Random(TASKS))))
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def records(self) -> int:
        """Written so far."""
        return self._written.total()

    def kill(self, chance: random.Random, *, in_rebalance: bool) -> Kill:
        """Kill one of the processes that run tasks, and wait until its tasks run elsewhere.

        A rebalance that is over before it was seen makes it a kill while stable. Raises AssignorFault.
        """
        missing = [partition for partition in range(INSTANCES) if partition not in self._instances.pids]
        if in_rebalance and missing:
            generation_id = self._settle(INSTANCES - len(missing))
            victim = self._draw(chance)
            self._start(missing)
            if self._sees_rebalance(generation_id):
                return self._end(victim, IN_REBALANCE)
        self._start(partition for partition in missing if partition not in self._instances.pids)
        self._settle(INSTANCES)
        return self._end(self._draw(chance), WHILE_STABLE)

    def miscounted(self) -> int:
        """Stop writing, wait until all is committed, and give the number of keys that were not counted right. Raises
        AssignorFault when the group does not get there.
        """
        self._feeding.close()
        partitions = [TopicPartition(EVENTS, number) for number in range(TASKS)]
        ends = self._log.end_offsets(partitions, IsolationLevel.READ_COMMITTED)
        deadline_s = time.monotonic() + _COUNTED_TIMEOUT_S
        while True:
            committed = self._log.committed_offsets(APPLICATION_ID, partitions)
            if all(one in committed and committed[one].offset == ends[one] for one in partitions):
                return miscounted(self._log, self._written)
            if time.monotonic() > deadline_s:
                raise AssignorFault(f"the group has not committed everything within {_COUNTED_TIMEOUT_S:g} s")
            time.sleep(_COUNT_INTERVAL_S)

    def _start(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._instances.start(partition)

    def _draw(self, chance: random.Random) -> int:
        """The partition of an instance that has active tasks."""
        newest = {line.pid: line for line in self._instances.lines()}
        return chance.choice([one for one, pid in sorted(self._instances.pids.items()) if newest[pid].active])

    def _end(self, victim: int, when: str) -> Kill:
        pid = self._instances.pids[victim]
        died_ms = self._instances.end(victim, signal.SIGKILL)
        lines = self._instances.lines()
        lost = lost_tasks(lines, died_ms, self._instances.deaths)
        ran = tasks_run(lines, pid) & set(lost)
        if not ran:
            return Kill(when, {}, {})
        caught_up = copies_held(lines, self._instances.pids.values(), died_ms) & self._caught_up
        ready = ran & {task for task, _ in caught_up}
        found = handovers(self._instances.lines, died_ms, self._instances.deaths, _TAKEOVER_TIMEOUT_S)
        lines = self._instances.lines()
        firsts = {task: first_record(lines, task, died_ms, self._instances.deaths) for task in ready}
        return Kill(
            when,
            {task: found[task] for task in sorted(ready)},
            {task: found[task] for task in sorted(ran - ready)},
            frozenset(task for task, line in firsts.items() if line and (task, line.thread) not in caught_up),
        )

    def _settle(self, members: int) -> int:
        """Wait until so many members are settled, every task runs, and has a standby that has caught up. The generation
        of that.
        """
        deaths = self._instances.deaths

        def settled(view: GroupView) -> bool:
            if not (view.is_settled and len(view.members) == members and len(view.owners()) == TASKS):
                return False
            lines = self._instances.lines()
            member_ids = [member.member_id for member in view.members]
            return (
                not members_behind(lines, member_ids, view.generation_id)
                and all_run(lines, deaths, TASKS)
                and self._standbys_follow(view.generation_id)
            )

        view = wait_for_group(
            self._client, APPLICATION_ID, settled, f"{members} members with standbys", _SETTLE_TIMEOUT_S
        )
        self._instances.forget_ended()
        return view.generation_id

    def _standbys_follow(self, generation_id: int) -> bool:
        status = self._watch.poll()
        if status.view.state != STABLE or status.view.generation_id != generation_id:
            return False
        self._caught_up = {
            (copy.task, row.thread) for row in status.threads for copy in row.copies if is_caught_up(copy)
        }
        return len({task for task, _ in self._caught_up}) == TASKS

    def _sees_rebalance(self, generation_id: int) -> bool:
        """Wait for one to begin; False when it was over before it was seen. It asks without a pause: a rebalance is
        short.
        """
        deadline_s = time.monotonic() + _REBALANCE_TIMEOUT_S
        while (view := group_view(self._client, APPLICATION_ID)).state == STABLE:
            if view.generation_id != generation_id:
                return False
            if time.monotonic() > deadline_s:
                raise AssignorFault(f"no rebalance began within {_REBALANCE_TIMEOUT_S:g} s")
        return True

    def _events(self, chance: random.Random) -> Iterator[list[FedRecord]]:
        """No key is written to two partitions."""
        while True:
            records = [
                (number, (number * _DIFFERENT_KEYS + chance.randrange(_DIFFERENT_KEYS)).to_bytes(8, "big"))
                for number in range(TASKS)
                for _ in range(_FEED_RECORDS)
            ]
            self._written.update(key for _, key in records)
            yield [(TopicPartition(EVENTS, number), key, b"event") for number, key in records]


def tasks_run(lines: Sequence[OwnershipLine], pid: int) -> set[str]:
    """The tasks of which this process had processed a record, since it last got them."""
    running: set[str] = set()
    for line in lines:
        if line.pid == pid:
            running &= set(line.active)
            if line.event is OwnershipEvent.PROCESSED and line.task is not None:
                running.add(line.task)
    return running


def copies_held(lines: Sequence[OwnershipLine], pids: Collection[int], at_ms: float) -> set[tuple[str, str]]:
    """(task, thread) of each copy that these processes held then."""
    newest = {line.pid: line for line in lines if line.pid in pids and line.at_ms <= at_ms}
    return {(task, line.thread) for line in newest.values() for task in (*line.active, *line.standby)}
