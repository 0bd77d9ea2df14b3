"""What each kind of fault does to the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_api.group.events import DecideHeldRebalance, Drain, Event, RequestRebalance, SetInstanceDrain, SetLever
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.outcome import Accepted, Rejected
from streams_runtime.membership.member_events import CloseAsked, RejoinAsked
from tests.coordinator_api.group.declarations import declared
from tests.simulation.cluster import WORDS
from tests.simulation.fate import Point
from tests.simulation.faults import LASTING_MS, Fault, Kind, Of
from tests.simulation.wire import Answer

if TYPE_CHECKING:
    from tests.simulation.database import Session
    from tests.simulation.hosts import Host
    from tests.simulation.places import Place
    from tests.simulation.world import SimulatedGroup, World

_OF_LINK = (Kind.LOSS, Kind.DELAY, Kind.DUPLICATES, Kind.REORDER, Kind.CUT_OFF, Kind.UNHEARD, Kind.DEAF)
_OF_DATABASE = (
    Kind.SLOW_COMMITS,
    Kind.FAILED_COMMITS,
    Kind.UNKNOWN_COMMITS,
    Kind.DATABASE_FULL,
    Kind.DATABASE_AWAY,
)
_POINTS = {
    Kind.DIES_BEFORE_COMMIT: Point.BEFORE_COMMIT,
    Kind.DIES_AFTER_COMMIT: Point.AFTER_COMMIT,
    Kind.DIES_WRITING: Point.DISK_WRITE,
    Kind.DIES_FLUSHING: Point.STORE_FLUSH,
}
_LEVERS = {
    Kind.HELD: LeverName.HOLD,
    Kind.PAUSED: LeverName.PAUSE,
    Kind.GRACE: LeverName.REJOIN_GRACE,
    Kind.PROMOTION: LeverName.PROMOTION,
}
DECIDE_EVERY_MS = 300


def happen(world: World, fault: Fault) -> None:
    """Those that strike later, when something comes upon them, say so then."""
    world.timeline.say(">>> {}", fault.text())
    if fault.kind.of is Of.GROUP:
        _to_group(world, world.groups[fault.target], fault)
    elif fault.kind.of is Of.ALL:
        _to_all(world, fault)
    elif fault.kind.of is Of.COORDINATOR:
        _to_coordinator(world, world.places[fault.target - 1], fault)
    else:
        _to_process(world, world.hosts[fault.target], fault)


def _to_process(world: World, host: Host, fault: Fault) -> None:
    kind, process = fault.kind, host.living
    if kind in _OF_LINK:
        host.link.windows.open(fault)
        return
    if kind in _POINTS:
        host.dies_at(_POINTS[kind], fault)
        return
    if kind in (Kind.DISK_FULL, Kind.DISK_SLOW):
        host.machine.disk.windows.open(fault)
        return
    if kind is Kind.SLOW:
        host.windows.open(fault)
        return
    if kind is Kind.CLOCK:
        world.struck(fault)
        host.clock.jump(fault.amount)
        return
    if process is None:
        return
    match kind:
        case Kind.BROKEN:
            if process.break_connection():
                world.struck(fault)
            return
        case Kind.DRAINED:
            _drain(world, host, fault)
            return
        case Kind.MIGRATED:
            tasks = sorted(task for member in process.living for task in member.running)
            if tasks:
                world.struck(fault)
                host.group.cluster.fence(world.timeline.chance(f"fences of process {host.number}").choice(tasks))
            return
    world.struck(fault)
    member = world.timeline.chance(f"members of process {host.number}").choice(process.living)
    match kind:
        case Kind.FROZEN:
            process.freeze(fault.for_ms)
        case Kind.KILLED | Kind.POWER_LOST:
            process.kill(machine_fails=kind is Kind.POWER_LOST)
            host.start_after(fault.for_ms)
        case Kind.STORES_DAMAGED:
            process.machine.disk.damages_stores = True
            process.kill(machine_fails=True)
            process.machine.disk.damages_stores = False
            host.start_after(fault.for_ms)
        case Kind.RESTARTED:
            host.closes(fault.for_ms)
        case Kind.SUCCEEDED:
            process.cut_off(fault.for_ms)
            host.starts_anew_elsewhere()
        case Kind.THREAD_ENDED:
            member.happens(CloseAsked())
        case Kind.REJOIN:
            member.happens(RejoinAsked())
        case _:
            raise AssertionError(kind)


def _drain(world: World, host: Host, fault: Fault) -> None:
    assert host.process is not None
    operator, process_id = host.group.operator, str(host.process.process_id)

    def answered(answer: Answer) -> None:
        if isinstance(answer, Accepted):
            world.struck(fault)
            _ends(world, fault, lambda: operator.ask(SetInstanceDrain(False, process_id, None)))

    operator.ask(SetInstanceDrain(True, process_id, None, "ann"), answered)


def _to_all(world: World, fault: Fault) -> None:
    kind, database = fault.kind, world.database
    if kind in _OF_DATABASE:
        database.windows.open(fault)
        return
    if kind is Kind.OVERLOAD:
        world.coordinator_windows.open(fault)
        return

    def dies(session: Session) -> None:
        world.struck(fault)
        for place in world.places:
            for one in list(place.coordinators):
                if one.session is session:
                    place.kill(one, fault.for_ms if one is place.coordinator else None)

    match kind:
        case Kind.ALL_BROKEN:
            world.struck(fault)
            for host in world.hosts.values():
                for process in host.processes:
                    process.break_connection()
        case Kind.KILLED_BEFORE_COMMIT:
            database.dies_before_commit = dies
        case Kind.KILLED_AFTER_COMMIT:
            database.dies_after_commit = dies
        case _:
            raise AssertionError(kind)


def _to_coordinator(world: World, place: Place, fault: Fault) -> None:
    kind, coordinator = fault.kind, place.coordinator
    if kind is Kind.COORDINATOR_CLOCK:
        world.struck(fault)
        place.machine.jump(fault.amount)
        return
    if coordinator is None:
        return
    if kind in (Kind.COORDINATOR_CUT, Kind.COORDINATOR_SLOW):
        place.reach.open(fault)
        return
    world.struck(fault)
    match kind:
        case Kind.COORDINATOR_KILLED:
            place.kill(coordinator, fault.for_ms)
        case Kind.COORDINATOR_FROZEN:
            coordinator.freeze(fault.for_ms)
        case Kind.COORDINATOR_STOPPED:
            place.stop(coordinator, fault.for_ms)
        case Kind.TAKEN_OVER:
            place.take_over(coordinator, fault)
        case _:
            raise AssertionError(kind)


def _to_group(world: World, group: SimulatedGroup, fault: Fault) -> None:
    kind, operator = fault.kind, group.operator
    match kind:
        case Kind.SLOW_LEADER:
            group.windows.open(fault)
        case Kind.LOG_AWAY | Kind.LOG_SLOW | Kind.LOG_SILENT:
            group.cluster.log.windows.open(fault)
        case Kind.HEAVIER:
            _weigh(world, group, fault)
        case Kind.FAILED_REBALANCE:
            group.failing = fault
        case Kind.APPROVED | Kind.DISCARDED:
            _decide(world, group, fault)
        case Kind.HELD | Kind.PAUSED | Kind.GRACE | Kind.PROMOTION:
            name = _LEVERS[kind]
            on = SetLever(name, True, "ann", value_ms=fault.amount)
            _pull(world, group, fault, on, SetLever(name, False, "ann"))
        case Kind.ASKED:
            _pull(world, group, fault, RequestRebalance(), None)
        case Kind.REDECLARED:
            world.struck(fault)
            operator.ask(declared(f"v{world.timeline.fresh()}", WORDS))
        case Kind.TOLD_TO_STOP:
            group.is_told_to_stop = True
            _pull(world, group, fault, Drain(), None)
            _ends(world, fault, lambda: world.go_on(group))
        case _:
            raise AssertionError(kind)


def _weigh(world: World, group: SimulatedGroup, fault: Fault) -> None:
    """It strikes once another group has moved because of it."""
    world.database.weigh(group.group_id, fault.amount)
    group.weighed = fault

    def over() -> None:
        if group.weighed is fault:
            group.weighed = None
            world.database.weigh(group.group_id, 0)

    world.timeline.after(fault.for_ms, over)


def _pull(world: World, group: SimulatedGroup, fault: Fault, event: Event, ended_by: Event | None) -> None:
    def answered(answer: Answer) -> None:
        if not isinstance(answer, Rejected):
            world.struck(fault)
            if ended_by is not None:
                _ends(world, fault, lambda: group.operator.ask(ended_by))

    group.operator.ask(event, answered)


def _decide(world: World, group: SimulatedGroup, fault: Fault) -> None:
    """Look now and then whether a rebalance waits."""
    until_ms = world.timeline.now_ms + fault.for_ms
    approves = fault.kind is Kind.APPROVED

    def answered(answer: Answer) -> None:
        if not isinstance(answer, Rejected):
            world.struck(fault)

    def look() -> None:
        if world.timeline.now_ms >= until_ms or world.is_quiet:
            return
        image = world.image_of(group.group_id)
        if image.held is not None and not group.operator.is_asking:
            group.operator.ask(DecideHeldRebalance(approves, image.generation_id, "bob", "because"), answered)
        world.timeline.after(DECIDE_EVERY_MS, look)

    look()


def _ends(world: World, fault: Fault, end: object) -> None:
    """What an operator has set for a while: not after the faults have ended."""
    if fault.for_ms >= LASTING_MS:
        return

    def act() -> None:
        if not world.is_quiet:
            assert callable(end)
            end()

    world.timeline.after(fault.for_ms, act)
