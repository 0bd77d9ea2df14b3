"""Makes the forecast of a placement problem. Only the task assignor runs. Each process is modelled as one thread that
has the capacity of the process.

A placement problem has no subscription bytes. So this module models the steps of the assignment pipeline that need such
bytes. The modelled steps hold a task back until its present owner has revoked it. While a task is held back, its future
owner keeps the state of the task open as a standby (KIP-429).
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, replace

from assignor.clients.client_state import compute_task_lags
from assignor.errors import InputError, RebalanceNotPlaced
from assignor.recording import RecordedPlacement
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from rebalance_analysis.rerun import LoadOwn, RerunPlacement, run_recorded
from rebalance_analysis.simulate.group_members import Decided, HandedOut, Members, Past, first_members
from rebalance_analysis.simulate.model import ForecastModel
from rebalance_analysis.simulate.modelled_thread import ModelledThread, rates_of

MAX_THREADS = 1_000_000
"""The largest number of threads that all clients together may have. Without this limit, a short line could request
billions of threads, and measuring their loads would take too long.
"""


@dataclass(eq=False)
class PlacementLeader:
    _recorded: RecordedPlacement
    _model: ForecastModel
    _load_own: LoadOwn | None
    as_recorded: InitVar[RecordedPlacement]

    def __post_init__(self, as_recorded: RecordedPlacement) -> None:
        self._past = _past(self._recorded.problem, as_recorded.problem)

    def recorded_rebalance(self) -> tuple[Decided, Members]:
        problem = self._recorded.problem
        if sum(client.capacity for client in problem.clients.values()) > MAX_THREADS:
            raise InputError(f"have more than {MAX_THREADS:,} stream threads together", "clients")
        threads = [
            ModelledThread(str(process), process, rates_of(self._model, process, client.capacity))
            for process, client in problem.clients.items()
        ]
        active = {str(process): sorted(_active(client)) for process, client in problem.clients.items()}
        members = first_members(problem, threads, active, {}, _recorded_ends(problem), self._model, self._past)
        return self._decide(problem, members, 0), members

    def next_rebalance(self, members: Members, now_ms: int) -> Decided:
        recorded = self._recorded.problem
        sums = members.offset_sums(now_ms)
        ends = members.ends.ends(now_ms)
        clients: dict[ProcessId, PlacementClient] = {}
        for process, client in recorded.clients.items():
            thread, reported = members.threads[str(process)], sums[str(process)]
            active, lags = frozenset(thread.active), compute_task_lags(reported, ends)
            standby = frozenset(reported) - active
            clients[process] = replace(client, lags=lags, previous_active=active, previous_standby=standby)
        problem = replace(recorded, clients=clients)
        try:
            return self._decide(problem, members, now_ms)
        except InputError as error:
            raise RebalanceNotPlaced(str(error)) from error

    def _decide(self, problem: PlacementProblem, members: Members, now_ms: int) -> Decided:
        rerun = run_recorded(replace(self._recorded, problem=problem, output=None), self._load_own)
        assert isinstance(rerun, RerunPlacement)
        placement = rerun.placement
        owners = {task: thread.process for task, thread in members.owners().items()}
        handed_out: dict[str, HandedOut] = {}
        held_back: set[TaskId] = set()
        for process, placed in placement.clients.items():
            waiting = {task for task in placed.active if owners.get(task, process) != process}
            kept_open = {task for task in waiting & problem.clients[process].previous_standby if task in members.ends}
            handed_out[str(process)] = HandedOut(
                tuple(sorted(placed.active - waiting)), tuple(sorted(placed.standby | kept_open))
            )
            held_back |= waiting
        probing_at_ms = now_ms + problem.configs.probing_rebalance_interval_ms
        return Decided(
            problem,
            placement,
            handed_out,
            frozenset(held_back),
            rejoin=bool(held_back),
            probing_at_ms=probing_at_ms if placement.probing_rebalance_needed else None,
        )


def _past(problem: PlacementProblem, as_recorded: PlacementProblem) -> Past:
    gone = [client for process, client in as_recorded.clients.items() if process not in problem.clients]
    return Past(as_recorded.configs, frozenset(task for client in gone for task in _active(client)))


def _active(client: PlacementClient) -> frozenset[TaskId]:
    running = [task for task, lag in client.lags.reported.items() if lag == LATEST_OFFSET]
    return client.previous_active.union(running)


def _recorded_ends(problem: PlacementProblem) -> Mapping[TaskId, int]:
    """Estimates the end-offset sums from the lags. The lag of a client without state is the whole changelog."""
    ends: dict[TaskId, int] = {}
    for task in problem.stateful_tasks:
        lags = [client.lags.lag_for(task) for client in problem.clients.values() if task in client.lags]
        ends[task] = max(0, *lags) if lags else 0
    return ends
