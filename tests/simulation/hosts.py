"""The host of one process of the schedule: its machine, its link, and the processes that it has started one after the
other. One that ended is started again by whoever looks after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams_runtime.common.errors import LockError
from tests.simulation.clocks import MachineClock
from tests.simulation.disk import Machine
from tests.simulation.fate import Point
from tests.simulation.faults import Fault
from tests.simulation.network import Link
from tests.simulation.process import SimulatedProcess
from tests.simulation.schedule import ProcessPlan
from tests.simulation.windows import Windows

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedGroup, World

AGAIN_MS = 1_000
"""When a process that ended by itself is started again."""

DECLARED_MS = 100


class Host:
    """`process`: the last one that was started. `older`: those that may live on beside it."""

    def __init__(self, world: World, plan: ProcessPlan, group: SimulatedGroup) -> None:
        name = f"process {plan.number}"
        self.world = world
        self.plan = plan
        self.number = plan.number
        self.group = group
        self.link = Link(world.timeline, name, world.struck)
        self.windows = Windows(world.timeline, name, world.struck)
        self.process: SimulatedProcess | None = None
        self.older: list[SimulatedProcess] = []
        self.dying: Fault | None = None
        self._starts = self._machines = 0
        self._due = self._back_ms = 0
        self._new_machine()
        self.start_after(plan.start_ms)

    @property
    def started(self) -> list[SimulatedProcess]:
        """All that it has started and not given up; some may be over."""
        return [*self.older, self.process] if self.process is not None else self.older

    @property
    def processes(self) -> list[SimulatedProcess]:
        """All that are not over."""
        return [one for one in self.started if not one.has_ended]

    @property
    def living(self) -> SimulatedProcess | None:
        """The present one, if it has members."""
        return self.process if self.process is not None and self.process.living else None

    def start_after(self, delay_ms: float) -> None:
        """Unless something else is decided before."""
        self._due += 1
        due = self._due
        self.world.timeline.after(delay_ms, lambda: self._start(due))

    def starts_anew_elsewhere(self) -> None:
        """On another machine, while the process that was there goes on."""
        if self.process is not None:
            self.older.append(self.process)
        self._new_machine()
        self.process = None
        self.start_after(0)

    def closes(self, back_after_ms: int) -> None:
        """In good order, and is started again after a while."""
        assert self.process is not None
        self._back_ms = self.world.timeline.now_ms + back_after_ms
        self.process.close()

    def dies_at(self, point: Point, fault: Fault) -> None:
        """Its process does, when it comes there."""
        if self.living is not None:
            self.dying = fault
            self.living.members[0].thread.process.fate.dies_at(point)

    def died_at_a_point(self, process: SimulatedProcess) -> None:
        fault = self.dying
        if process is self.process and fault is not None:
            self.world.struck(fault)
            self._back_ms = self.world.timeline.now_ms + fault.for_ms

    def process_ended(self, process: SimulatedProcess) -> None:
        if process is self.process:
            self.start_after(max(AGAIN_MS, self._back_ms - self.world.timeline.now_ms))

    def heal(self) -> None:
        self.link.windows.heal()
        self.machine.disk.windows.heal()
        if self.dying is not None and self.living is not None:
            self.living.members[0].thread.process.fate.lives_on()
        self.windows.heal()
        for process in self.processes:
            process.heal()
        if self.living is None:
            self.start_after(0)

    def _start(self, due: int) -> None:
        if due != self._due or self.living is not None:
            return
        if not self.group.operator.has_declared:  # who deploys it, declares it first
            self.start_after(DECLARED_MS)
            return
        if self.group.is_told_to_stop or (self.process is not None and not self.process.has_ended):
            self.start_after(AGAIN_MS)
            return
        self._starts += 1
        self.dying = None
        try:
            self.process = SimulatedProcess(self, self._starts)
        except (LockError, OSError) as error:  # it does not come up
            self.world.timeline.say("process {} does not start: {}", self.number, error)
            self.start_after(AGAIN_MS)
            return
        self.world.timeline.say("{} starts, {} members", self.process, self.plan.threads)

    def _new_machine(self) -> None:
        self._machines += 1
        name = f"host-{self.number}-{self._machines}"
        self.machine = Machine(name, Windows(self.world.timeline, f"the disk of {name}", self.world.struck))
        self.clock = MachineClock(self.world.timeline, name)
