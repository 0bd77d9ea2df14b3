"""Ranking from reported lags alone must say what Kafka's full sets of all clients say."""

from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_state import TaskLags, is_caught_up
from assignor.configs import AssignmentConfigs
from assignor.task_assignors.base import PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.task_movement import LagRanking, rank_by_lag
from assignor.task_assignors.working_state import WorkingState
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId

TASK = TaskId(0, 0)
lags = st.sampled_from([LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 5, 10, 11, 500, JAVA_LONG_MAX])
acceptable_lags = st.sampled_from([0, 10, JAVA_LONG_MAX])


def ranking(reported: list[int | None], unreported: int, acceptable: int, shared: bool) -> LagRanking:
    """One task. `shared`: as the pipeline has it, one map for all; else every client reports all of its lags."""
    end_offsets = {TASK: unreported}
    clients = {}
    for number, lag in enumerate(reported):
        own = {} if lag is None else {TASK: lag}
        task_lags = TaskLags(own, end_offsets) if shared else TaskLags({TASK: unreported, **own})
        clients[ProcessId(0, number)] = PlacementClient(ProcessId(0, number), 1, task_lags)
    problem = PlacementProblem(AssignmentConfigs(), (TASK,), (TASK,), clients)
    return rank_by_lag(WorkingState.of(problem, DecisionLog()), acceptable)


@given(
    reported=st.lists(st.none() | lags, min_size=1, max_size=8),
    unreported=lags,
    acceptable=acceptable_lags,
    shared=st.booleans(),
)
def test_should_rank_clients_as_if_all_lags_had_been_written_out(
    reported: list[int | None], unreported: int, acceptable: int, shared: bool
) -> None:
    ranked = ranking(reported, unreported, acceptable, shared)
    all_lags = [unreported if lag is None else lag for lag in reported]
    everybody = range(len(all_lags))
    by_lag = sorted(everybody, key=lambda client: (all_lags[client], client))
    caught_up = [client for client in everybody if is_caught_up(all_lags[client], acceptable)]

    assert [ranked.lag(0, client) for client in everybody] == all_lags
    assert ranked.caught_up_clients(0) == caught_up
    assert [client for client in everybody if ranked.is_caught_up(0, client)] == caught_up
    assert [list(ranked.ahead_of(0, client)) for client in everybody] == [
        by_lag[: by_lag.index(client)] for client in everybody
    ]
    assert [ranked.nearest_ahead_of(0, client) for client in everybody] == [
        None if by_lag[0] == client else by_lag[0] for client in everybody
    ]
    assert [ranked.is_behind_another(0, client) for client in everybody] == [
        client not in caught_up and min(all_lags) < all_lags[client] for client in everybody
    ]
