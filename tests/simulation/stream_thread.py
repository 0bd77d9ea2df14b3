"""A stream thread in simulated time: the real `StreamThread` with all that is inside it, on a simulated log and disk.

Nothing runs by itself. Whoever has it gives it orders and passes, each of which happens at one moment of simulated
time, and asks it when it wants the next one. Its thread is never started, and its member is what the caller makes of
the errors that are raised. A pass that had to wait, for a slow disk or a log, says so in `took_ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

from assignor.types import ProcessId, TaskId, TopicPartition
from streams_runtime.common.clock import Clock
from streams_runtime.common.errors import TaskMigrated
from streams_runtime.common.metrics import TaskMetrics, ThreadMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.common.states import TaskState, TaskType
from streams_runtime.instance.housekeeping import LOG_INTERVAL_MS, HousekeepingTimes
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.instance.stream_thread import StreamThread
from streams_runtime.instance.task_creation import TaskCreator
from streams_runtime.instance.tasks import AnyTask, Tasks
from streams_runtime.instance.thread_listener import ThreadListener
from streams_runtime.instance.thread_work import ThreadSetting
from streams_runtime.logs.base import Log
from streams_runtime.membership.member_events import CloseTasks, MemberEnd, Order
from streams_runtime.membership.rebalance_mailbox import RebalanceMailbox
from streams_runtime.processors.graph import ProcessorGraph
from streams_runtime.tasks.state_directory import PROCESS_FILE_NAME, StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from tests.simulation.clocks import Pauses, ThreadClock
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.disk import Machine
from tests.simulation.fate import Fate, ProcessKilled
from tests.simulation.log import LogView, SimulatedConsumer
from tests.simulation.simulated_store import on_disk, stored_offset

CHECKPOINT_DELTA = 20
"""Standbys write a checkpoint when they have moved by more than this, so that a short history has some."""

RETRY_MS = 100
"""How long a thread waits that waits for something of which nobody tells it."""


_NO_TASKS: frozenset[TaskId] = frozenset()
_PROCESSES = (TaskState.RESTORING, TaskState.RUNNING)


@dataclass(frozen=True, slots=True)
class _Caller:
    """Who holds a lock of a task's directory."""

    name: str


class _Silent:
    """Metrics of a thread. Counters of Prometheus would cost more than the threads."""

    processed_records = dropped_records = passed_over_records = 0

    def task(self, _task: object) -> TaskMetrics:
        return cast(TaskMetrics, self)

    def nothing(self, *_: Any, **__: Any) -> None: ...

    @property
    def polls(self) -> Self:
        return self

    commits = punctuations = polls

    inc = processed = task_processed = restored = restoring = standby_lags = nothing
    tasks = buffered = close = dropped = passed_over = windows_missing = windows_at_risk = store_rebuilt = nothing


SILENT_METRICS = cast(ThreadMetrics, _Silent())


class SimulatedProcess:
    """What the threads of one process share: their state directory, their fate, and the housekeeping.

    Raises LockError when another process of the same application on the machine has not ended.
    """

    def __init__(self, cluster: SimulatedCluster, machine: Machine, process_id: ProcessId, clock: Clock) -> None:
        self.process_id = process_id
        self.fate = Fate()
        self.pauses = Pauses()
        self.notices = NoticeBoard(clock)
        self.threads: list[SimulatedStreamThread] = []
        self.caller = self._housekeeper = _Caller("housekeeping")
        self.is_over = False  # what its end did to the disk is done
        self._clock = clock
        configs = cluster.application.configs
        self._cleanup_delay_ms = configs.state_cleanup_delay_ms
        self._times = HousekeepingTimes(self._cleanup_delay_ms, LOG_INTERVAL_MS)
        self._housekeeping_ms = clock.monotonic_ms() + self._times.pause_ms
        self.view = machine.view(cluster.group_id, self.fate, clock, self.pauses)
        application_directory = machine.state_dir / cluster.group_id
        self.view.make_directory(application_directory)
        file = application_directory / PROCESS_FILE_NAME  # a process draws an id where it finds none
        text = f'{{"processId": "{process_id}"}}'
        if not self.view.exists(file) or self.view.read(file).decode() != text:
            self.view.write_whole(file, text.encode(), written_as=f"{PROCESS_FILE_NAME}.tmp", synced=True)
        self.directory = StateDirectory(
            machine.state_dir,
            cluster.group_id,
            clock,
            files=self.view,
            calling_thread=lambda: self.caller,
            read_offset=partial(stored_offset, self.view, cluster.group_id),
        )
        try:
            self.directory.belong_to(cluster.group_id)
        except BaseException:
            self.directory.close()
            raise

    @property
    def has_ended(self) -> bool:
        """All of its threads have."""
        return bool(self.threads) and all(thread.has_ended for thread in self.threads)

    def end_without_threads(self) -> None:
        if self.has_ended and not self.fate.is_dead:
            self.directory.close()

    def keep_house(self) -> None:
        """What a thread of its own does in a real process: delete obsolete state, when it is time."""
        if self._clock.monotonic_ms() < self._housekeeping_ms:
            return
        clean = self._times.passed()
        self._housekeeping_ms = self._clock.monotonic_ms() + self._times.pause_ms
        if clean:
            self.caller, self.pauses.acting = self._housekeeper, None
            self.view.is_cleaning = True
            try:
                self.directory.clean_obsolete(self._cleanup_delay_ms)
            finally:
                self.view.is_cleaning = False


class SimulatedStreamThread:
    """`process`: made by the first thread of it that does not find a living one on the machine.

    `took_ms`: how long the last order or pass took; there is nothing to do before. `wants_rejoin`: it would have its
    member ask for a rebalance; the caller sets it back. `has_ended`: it does nothing more. `when_woken`: called when
    there is something to read.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        machine: Machine,
        process_id: ProcessId,
        name: str,
        clock: Clock,
        is_group_paused: Callable[[], bool],
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.wants_rejoin = False
        self.has_ended = False
        self.when_woken: Callable[[], None] = lambda: None
        self.process = _process_of(cluster, machine, process_id, clock)
        self._is_group_paused = is_group_paused
        self._clock = ThreadClock(clock)
        self._caller = _Caller(name)
        self._member = _Member(self)
        self._lost: str | None = None
        self._act()
        view = LogView(cluster.log, self.process.fate, self.process.pauses)
        configs = cluster.application.configs
        self._thread = StreamThread(
            ThreadSetting(
                name=name,
                application=cluster.application,
                log=cast(Log, view),
                directory=self.process.directory,
                membership=cast(Any, self._member),
                member=cast(Any, None),
                subscriptions=cast(Any, None),
                transactional_id=f"{cluster.group_id}-{process_id}-{name}" if configs.exactly_once else None,
                clock=self._clock,
                listener=ThreadListener(),
                restore_listener=SilentRestoreListener(),
                metrics=SILENT_METRICS,
                notices=self.process.notices,
                state_changed=lambda: None,
                is_group_paused=is_group_paused,
            )
        )
        self._work = self._thread._work
        self._work.publish = _nobody_looks  # type: ignore[method-assign, assignment]
        self._tasks: Tasks = self._work._tasks
        manager = self._work.manager
        manager._creator = _Creator(*(getattr(manager._creator, each) for each in TaskCreator.__slots__))
        self._input = cast(SimulatedConsumer, self._work._consumer)
        self._changelogs = cast(SimulatedConsumer, self._work._restore_consumer)
        self.process.threads.append(self)
        cluster.threads.append(self)

    # --- what it is told

    def carry_out(self, order: Order) -> None:
        """Raises as `run_pass`. After CloseTasks it has ended, in good order."""
        errors: list[BaseException | None] = []

        def obey() -> None:
            self._mailbox.hand_over(order, errors.append)
            self._thread._carry_out_orders()

        self._do(obey)
        if isinstance(order, CloseTasks):
            self._do(self._end)

    def run_pass(self) -> None:
        """Raises TaskMigrated when others have its tasks: it has dropped them. Raises StreamsRuntimeError when it ends,
        uncleanly and for good. Raises ProcessKilled when its process was told to die here: it is dead then.
        """
        self._do(self._pass)

    def offset_sums(self) -> dict[TaskId, int]:
        return {} if self.has_ended else self._work.manager.offset_sums()

    def crash(self, *, machine_fails: bool = True) -> None:
        """The whole process is killed. `machine_fails`: what was not synced may be lost or torn; else only what stores
        had in memory.
        """
        process, cluster = self.process, self.cluster
        process.fate.is_dead = True
        for thread in process.threads:
            if thread in cluster.threads:
                cluster.threads.remove(thread)
            thread.has_ended = True
        if not process.is_over:
            process.is_over = True
            process.view.crash(cluster.chance(f"crash of {self.name}"), machine_fails=machine_fails)

    # --- what it has, and when it wants to go on

    @property
    def running(self) -> frozenset[TaskId]:
        """Active tasks that may process: their input is claimed."""
        if self.has_ended:
            return frozenset()
        active = self._tasks.active
        if not active:
            return _NO_TASKS
        return frozenset([task.id for task in active.values() if task.state in _PROCESSES])

    @property
    def processed(self) -> dict[TaskId, int]:
        """How many records of each task, since it was assigned."""
        return dict(self._work._executor.processed)

    @property
    def took_ms(self) -> int:
        return self._clock.ahead_ms

    @property
    def is_busy(self) -> bool:
        """It wants another pass at once."""
        if self.has_ended:
            return False
        tasks, work = self._tasks, self._work
        if self._input.has_news() or self._changelogs.has_news():
            return True
        if any(task.buffered_records for task in tasks.running) and not self._is_group_paused():
            return True
        if work.restoration.waits_for_lock or work.restoration.waits_for_log or work._reader._registered:
            return False
        standbys_wait = tasks.updating and not work._reader.updates_standbys
        return bool(tasks.to_initialise or tasks.restoring or standbys_wait)

    def next_pass_ms(self) -> int | None:
        """When it wants a pass although it is not busy, by its monotonic clock; None for never."""
        if self.has_ended:
            return None
        tasks, work = self._tasks, self._work
        due: list[int] = []
        if tasks.to_initialise or tasks.restoring or work._reader._registered:
            due.append(self._clock.monotonic_ms() + RETRY_MS)
        held: list[AnyTask] = [*tasks.running, *tasks.updating]
        if any(task.commit_needed() for task in held):
            due.append(work._last_commit_ms + work._configs.effective_commit_interval_ms)
        return max(min(due), self._clock.monotonic_ms()) if due else None

    def something_was_written(self) -> None:
        """To the log. The cluster calls it."""
        if not self.has_ended and (self._input.has_news() or self._changelogs.has_news()):
            self.when_woken()

    # --- for checks

    def check_stores(self) -> None:
        """A standby is what the changelog says up to where it has come. Raises AssertionError."""
        if self.has_ended:
            return
        for task in self._tasks.updating:
            offsets = task.changelog_offsets()
            for name, store in task.stores.items():
                offset = offsets[TopicPartition(self.cluster.changelogs[name], task.id.partition)]
                held = on_disk(store).content
                self.cluster.check_store(task.id, name, held, offset, f"the standby in {self.name}")

    # --- inside

    @property
    def _mailbox(self) -> RebalanceMailbox:
        return self._thread._mailbox

    def _act(self) -> None:
        self.process.caller, self.process.pauses.acting = self._caller, self._clock

    def _pass(self) -> None:
        self.process.keep_house()
        self._act()
        self._thread._run_pass()

    def _do(self, what: Callable[[], None]) -> None:
        if self.has_ended:
            return
        self._act()
        self._lost = None
        try:
            what()
        except ProcessKilled:
            self.crash()
            raise
        except Exception as error:
            self._thread.error = error
            self._end()
            raise
        if self._lost is not None:
            raise TaskMigrated(self._lost)

    def _end(self) -> None:
        """As the real thread does at the end of `_run`."""
        try:
            self._thread._shut_down()
        except ProcessKilled:
            self.crash()
            raise
        finally:
            self.has_ended = True
            if self in self.cluster.threads:
                self.cluster.threads.remove(self)
            self.process.end_without_threads()

    def tasks_were_lost(self, reason: str) -> None:
        self._lost = reason


def _nobody_looks(_mailbox: RebalanceMailbox) -> None:
    """No other thread reads what a thread publishes; whoever has it asks for its offsets when they are wanted."""


class _Member:
    """Stands where the thread has its process's membership and its member: what it says is kept for the caller."""

    has_ended = False
    failure: BaseException | None = None
    end: MemberEnd | None = None

    def __init__(self, thread: SimulatedStreamThread) -> None:
        self._thread = thread

    def member(self, *_: Any, **__: Any) -> _Member:
        return self

    def ask_to_close(self, *, failure: Exception | None) -> None: ...

    def wait(self, _timeout_s: float | None = None) -> bool:
        return True

    def request_shutdown(self, _failure: Exception | None) -> None: ...

    def request_rejoin(self) -> None:
        self._thread.wants_rejoin = True

    def tasks_were_lost(self, reason: str) -> None:
        self._thread.tasks_were_lost(reason)


class _Creator(TaskCreator):
    """Has standbys write checkpoints sooner."""

    def _state(self, task: TaskId, task_type: TaskType, graph: ProcessorGraph) -> StateManager:
        state = super()._state(task, task_type, graph)
        state.checkpoint.delta = CHECKPOINT_DELTA
        return state


def _process_of(cluster: SimulatedCluster, machine: Machine, process_id: ProcessId, clock: Clock) -> SimulatedProcess:
    known = cluster.processes.get(process_id)
    if known is None or known.fate.is_dead or known.has_ended:
        known = cluster.processes[process_id] = SimulatedProcess(cluster, machine, process_id, clock)
    return known
