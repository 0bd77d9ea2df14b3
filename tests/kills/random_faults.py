"""Two stream threads get random faults of their log, their disks, their group and the code of their application.

    python -m tests.kills.random_faults --seed 17 --rounds 50

The threads belong to two processes and have real stores on a real disk. The caller is their thread, so that a kill can
come between any two calls of the log. A round draws settings and steps from its seed, and then lets the threads finish.
The exit code is 1 if a rule was broken:
- After a kill, each store is a committed prefix of its changelog, as in `tests.kills.running`. Without transactions,
  this holds only under exactly-once, and only for a store with an offset.
- After the last step, the threads process all records. The counts are exact under exactly-once, and none is too low
  under at-least-once. Then each store equals its changelog.
- The threads raise only errors of the runtime and of the log.
"""

import argparse
import logging
import random
import resource
import shutil
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError, TaskCorrupted, TaskMigrated
from streams_runtime.common.records import Record
from streams_runtime.common.states import TaskState
from streams_runtime.logs.base import Log
from streams_runtime.logs.log_errors import LogError
from tests.kills.committed import CommittedRecords
from tests.kills.counting import EVENTS, RESTORES, STORES, Tally, changelog, counting_stores, create_topics
from tests.kills.running import AT_LEAST_ONCE, EXACTLY_ONCE
from tests.kills.store_files import copy_state, damage_store, stores_on_disk
from tests.simulation.clocks import Pauses
from tests.simulation.fate import Fate, Point, ProcessKilled
from tests.simulation.faults import Fault, Kind
from tests.simulation.log import LogView, SharedLog
from tests.simulation.timeline import Timeline
from tests.simulation.windows import Windows
from tests.streams_runtime.manual_clock import ManualClock
from tests.streams_runtime.tasks.thread_rig import APPLICATION, rig

ROUNDS, STEPS = 50, 70
INPUT, KEYS_A_PARTITION = "events", 4
TASKS = tuple(TaskId(0, number) for number in range(2))
INPUTS = {task: frozenset({TopicPartition(INPUT, task.partition)}) for task in TASKS}
PROCESSING_FAILS, CLOSE_FAILS, LATE_WRITE = "processing fails", "close fails", "close writes"
CLOSED = b"closed"
"""The key that a processor counts in its `close`. No record has it."""

_FIRST_MS, _STEP_MS, _MOST_PASSES, _LARGEST_LOG_BYTES = 1_700_000_000_000, 1_000, 600, 5_000
_MOST_CALLS_LEFT = 12  # a process that starts makes seven until it restores
_EXAMINED = 0.3
"""The share of the stores that are examined after a kill. Opening a store takes most of the time."""


class FaultyTally(Tally):
    """`planned`: the faults that are to happen once."""

    def __init__(self, planned: set[str]) -> None:
        self._planned = planned

    def process(self, record: Record[bytes, bytes]) -> None:
        super().process(record)
        self._strike(PROCESSING_FAILS)

    def close(self) -> None:
        if LATE_WRITE in self._planned:
            self._planned.remove(LATE_WRITE)
            self._counts.put(CLOSED, (self._counts.get(CLOSED) or 0) + 1)
        self._strike(CLOSE_FAILS)

    def _strike(self, fault: str) -> None:
        if fault in self._planned:
            self._planned.remove(fault)
            raise ValueError(fault)


class FaultyView(LogView):
    """`calls_left`: the number of calls before the process dies. It does not die if the number is negative."""

    calls_left = -1

    def ask(self) -> None:
        self.fate.is_dead |= self.calls_left == 0
        self.calls_left -= 1
        super().ask()


class QuietView(LogView):
    """For a reader that no fault of the log affects."""

    def ask(self) -> None: ...


class Process:
    """A process with one stream thread. `directory`: its `state.dir`. `active`: the tasks that the group has assigned
    to it. `damaged`: the tasks with damaged files that were not opened since, as far as it is known.
    """

    def __init__(self, number: int, attack: "RandomFaults", directory: Path) -> None:
        self.number = number
        self.damaged: set[TaskId] = set()
        self._attack = attack
        self.start(directory)

    def start(self, directory: Path) -> None:
        self.directory = directory
        self.active: tuple[TaskId, ...] = ()
        self.view = FaultyView(self._attack.log, Fate(), Pauses())
        application, name = self._attack.application, f"t{self.number}"
        self.rig = rig(directory, "", log=cast(Log, self.view), name=name, topics=False, application=application)
        self.manager = self.rig.work.manager

    def abandon(self) -> None:
        """Release what is left of a dead process. Nothing is written."""
        self.view.fate.is_dead = True
        for task in self.rig.tasks:
            if task.state is not TaskState.CREATED:
                self.damaged.discard(task.id)
            for store in task.stores.values():
                with suppress(StreamsRuntimeError):
                    store.close()
        self.rig.directory.close()


class RandomFaults:
    """One round. `directory`: for the state of the processes. `met`: how often each kind of event happened."""

    def __init__(self, seed: int, directory: Path) -> None:
        chance = self._chance = random.Random(seed)
        self._seed, self._directory = seed, directory
        self._exactly_once, self._transactional = chance.random() < 0.5, chance.random() < 0.75
        self._checkpoint_file = chance.random() < 0.4
        self._configs: dict[str, object] = {
            "processing.guarantee": EXACTLY_ONCE if self._exactly_once else AT_LEAST_ONCE,
            "enable.transactional.statestores": self._transactional,
            "state.checkpoint.file": self._checkpoint_file,
            "statestore.uncommitted.max.bytes": chance.choice([-1, 0, 2_000, 1 << 20]),
            "statestore.cache.max.bytes": chance.choice([0, 0, 2_000, 1 << 20]),
            "max.poll.records": chance.choice([3, 1_000]),
        }
        given = {"application.id": APPLICATION, "bootstrap.servers": "embedded:/nowhere", "state.dir": directory}
        of_counting = {EVENTS: INPUT, RESTORES: str(directory)}
        self.planned: set[str] = set()
        self.application = counting_stores(given | of_counting | self._configs, partial(FaultyTally, self.planned))
        self._timeline = Timeline(seed)
        self._windows = Windows(self._timeline, "the log", lambda _: None)
        self.log = SharedLog("cluster", ManualClock(), self._windows, lambda: None)
        create_topics(cast(Log, self.log), APPLICATION, INPUT, len(TASKS))
        changelogs = [changelog(APPLICATION, store, task.partition) for store in STORES for task in TASKS]
        reader = cast(Log, QuietView(self.log, Fate(), Pauses()))
        self._committed = CommittedRecords(reader, changelogs, transactions=self._exactly_once)
        self._expected: Counter[bytes] = Counter()
        self.met: Counter[str] = Counter()
        self._history: deque[str] = deque(maxlen=25)
        self._processes = [Process(number, self, directory / f"state-{number}") for number in range(2)]

    def run(self, steps: int = STEPS) -> None:
        """Raises AssertionError, with the seed and the last steps."""
        actions: dict[Callable[[Process], None], int] = {
            self._write: 25,
            self._pass: 30,
            self._rebalance: 15,
            self._break_log: 3,
            self._plan: 7,
            self._die_at_commit: 3,
            self._die_at_call: 3,
            self._kill: 6,
            self._restart: 3,
            self._lose_tasks: 2,
            self._fence: 2,
            self._corrupt: 3,
            self._fill_disk: 4,
        }
        try:
            for action in self._chance.choices(list(actions), list(actions.values()), k=steps):
                process = self._chance.choice(self._processes)
                self._note(action.__name__.strip("_"), process)
                action(process)
                self._timeline.run_until(self._timeline.now_ms + _STEP_MS)
            self._finish()
        except Exception as error:
            history = "\n  ".join(self._history)
            raise AssertionError(f"seed {self._seed}: {error!r}\n{self._configs}\n  {history}") from error
        finally:
            for process in self._processes:
                process.abandon()
            self._committed.close()

    def _note(self, event: str, process: Process, more: object = "") -> None:
        self.met[event] += 1
        self._history.append(f"{event}, process {process.number} {more}"[:200])

    # --- steps

    def _write(self, _: Process) -> None:
        task = self._chance.choice(TASKS)
        keys = [b"%d-%d" % (task.partition, self._chance.randrange(KEYS_A_PARTITION)) for _ in range(30)]
        keys = keys[: self._chance.randrange(1, 30)]
        self._expected.update(keys)
        (partition,) = INPUTS[task]
        self.log.write(partition, [(key, b"", _FIRST_MS + self._timeline.now_ms) for key in keys])

    def _pass(self, process: Process) -> None:
        process.rig.commits = self._chance.random() < 0.5
        for _ in range(self._chance.randrange(1, 4)):
            self._do(process, process.rig.one_pass)

    def _rebalance(self, _: Process) -> None:
        """Mostly, a process revokes tasks before another one gets them. Else it may learn of the rebalance too late."""
        chance = self._chance
        owners = {task: chance.choice([0, 0, 1]) for task in TASKS}
        revoking, reporting = chance.random() < 0.7, chance.random() < 0.3
        for process in self._processes:
            revoked = frozenset(task for task in process.active if owners[task] != process.number)
            if revoking and revoked:
                self._do(process, partial(process.manager.handle_revocation, revoked))
            if reporting:
                self._do(process, process.manager.handle_rebalance_start)
        for process in chance.sample(self._processes, 2):
            if revoking or chance.random() < 0.6:
                self._assign(process, [task for task in TASKS if owners[task] == process.number])

    def _break_log(self, _: Process) -> None:
        kind, for_ms = self._chance.choice([Kind.LOG_AWAY, Kind.LOG_SILENT]), self._chance.randrange(1, 4) * _STEP_MS
        self._windows.open(Fault(0, kind, for_ms=for_ms, amount=self._chance.choice([30, 100])))

    def _plan(self, _: Process) -> None:
        self.planned.add(self._chance.choice([PROCESSING_FAILS, CLOSE_FAILS, LATE_WRITE]))

    def _die_at_commit(self, process: Process) -> None:
        process.view.fate.dies_at(self._chance.choice([Point.BEFORE_COMMIT, Point.AFTER_COMMIT]))

    def _die_at_call(self, process: Process) -> None:
        process.view.calls_left = self._chance.randrange(_MOST_CALLS_LEFT)

    def _kill(self, process: Process) -> None:
        """Examine what the process leaves, perhaps damage it, and start the process again."""
        killed, left = process.directory, Path(tempfile.mkdtemp(dir=self._directory))
        copy_state(killed, left)
        process.abandon()
        shutil.rmtree(killed)
        self._examine(process, left)
        self._start_again(process, left)

    def _restart(self, process: Process) -> None:
        """End the process in good order, as far as possible, and start it again."""
        self._do(process, process.manager.shutdown)
        process.abandon()
        self._start_again(process, process.directory)

    def _lose_tasks(self, process: Process) -> None:
        self._do(process, process.manager.handle_lost_all)
        process.active = ()

    def _fence(self, _: Process) -> None:
        self.log.claim(APPLICATION, INPUTS[self._chance.choice(TASKS)])

    def _corrupt(self, process: Process) -> None:
        """A task has uncommitted work that can never be committed. Its stores may be damaged."""

        def find_corruption() -> None:
            process.rig.one_pass()
            raise TaskCorrupted([task], damaged=damaged)

        task, damaged = self._chance.choice(TASKS), self._chance.choice([None, ()])
        self._write(process)
        process.rig.commits = False
        self._do(process, find_corruption)

    def _fill_disk(self, process: Process) -> None:
        """For one pass, as far as its files are larger than a random size."""
        limited = _largest_file(self._chance.randrange(_LARGEST_LOG_BYTES))
        self._do(process, limited(process.rig.one_pass))

    # --- what the steps have in common

    def _do(self, process: Process, call: Callable[[], object]) -> None:
        """Call it as a stream thread does. If the thread would end, its process is started again."""
        try:
            try:
                try:
                    call()
                except TaskCorrupted as corrupted:
                    self._note("corrupted", process, corrupted)
                    process.manager.handle_corruption(corrupted.tasks, corrupted.damaged)
            except TaskMigrated as migrated:
                self._note("migrated", process, migrated)
                process.manager.handle_lost_all()
                process.active = ()
        except ProcessKilled:
            self._note("killed at a call", process)
            self._kill(process)
        except (StreamsRuntimeError, LogError) as error:
            self._note("ended", process, error)
            self._end(process)

    def _start_again(self, process: Process, directory: Path) -> None:
        """Perhaps damage stores of the dead process before. The new one may be killed while it starts."""
        stores = sorted(directory.glob(f"{APPLICATION}/*_*/rocksdb/*/"))
        while stores and self._chance.random() < 0.4:
            damaged = damage_store(self._chance.choice(stores), self._chance)
            self._note("damaged", process, damaged.relative_to(self._directory))
            process.damaged.add(TaskId.parse(damaged.relative_to(directory / APPLICATION).parts[0]))
        process.start(directory)
        if self._chance.random() < 0.5:
            self._die_at_call(process)
            self._assign(process, TASKS)
            self._do(process, process.rig.one_pass)

    def _end(self, process: Process) -> None:
        with suppress(ProcessKilled):
            process.rig.close()
        process.abandon()
        process.start(process.directory)

    def _assign(self, process: Process, active: Collection[TaskId]) -> None:
        process.active = tuple(active)
        standby = [task for task in TASKS if task not in active and self._chance.random() < 0.6]
        of_types = [{task: INPUTS[task] for task in tasks} for tasks in (active, standby)]
        self._do(process, partial(process.manager.handle_assignment, *of_types))

    def _examine(self, process: Process, state_dir: Path) -> None:
        if not self._transactional and not self._exactly_once:
            return

        def is_wanted(changelog: TopicPartition) -> bool:
            return self._chance.random() < _EXAMINED and TaskId(0, changelog.partition) not in process.damaged

        for store in stores_on_disk(state_dir, APPLICATION, self._directory, self._chance, is_wanted):
            self.met["stores examined"] += 1
            faults = list(self._committed.faults_of(store, has_offset=self._transactional, waits_s=0))
            assert not faults, f"{store.directory.relative_to(self._directory)}: {faults}"

    def _finish(self) -> None:
        """Let the first process do all that is left."""
        self._windows.heal()
        self.planned.clear()
        first, second = self._processes
        for process in self._processes:
            process.view.fate.lives_on()
            process.view.calls_left = -1
        self._do(second, second.manager.shutdown)
        self._lose_tasks(first)  # it may not know that it has lost some
        self._assign(first, TASKS)
        first.rig.commits = True
        for _ in range(_MOST_PASSES):
            if self._is_done(first):
                break
            self._do(first, first.rig.one_pass)
            if not first.active:
                self._assign(first, TASKS)
        assert self._is_done(first), f"it does not end: {first.rig.states()}"
        self._committed.read()
        faults = list(self._committed.wrong_counts(self._expected, exactly_once=self._exactly_once))
        assert not faults, str(faults)
        first.manager.shutdown()
        first.abandon()
        for store in stores_on_disk(first.directory, APPLICATION, self._directory, self._chance):
            committed = self._committed.content(store.changelog, self.log.end_of(store.changelog))
            assert store.now.content == committed, f"{store.directory} is not what its changelog says"

    def _is_done(self, process: Process) -> bool:
        inputs = [partition for of_task in INPUTS.values() for partition in of_task]
        done = all(self.log.committed_offset(APPLICATION, each) == self.log.end_of(each) for each in inputs)
        return done and [task.state for task in process.rig.tasks.active.values()] == [TaskState.RUNNING] * len(TASKS)


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    """The system refuses to make a file of this process larger, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def run_rounds(seeds: Iterable[int], *, steps: int = STEPS) -> tuple[Counter[str], list[str]]:
    """Returns how often each kind of event happened, and each broken rule with its history, which is also printed."""
    met, broken = Counter[str](), []
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="random-faults-") as directory:
            one = RandomFaults(seed, Path(directory))
            try:
                one.run(steps)
            except AssertionError as error:
                broken.append(str(error))
                print(error, flush=True)
            met += one.met
    return met, broken


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills.random_faults", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="of the first round; the next one has the next seed (default: fresh)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="(default: %(default)s)")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    logging.disable(logging.CRITICAL)
    met, broken = run_rounds(range(seed, seed + options.rounds))
    print(f"{options.rounds} rounds from seed {seed}, {len(broken)} of them broke a rule: {dict(met)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
