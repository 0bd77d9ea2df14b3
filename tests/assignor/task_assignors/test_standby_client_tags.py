"""Moves of standbys over tags, KIP-708. The other rules are in `small_groups/HighAvailabilityTaskAssignor.toml`."""

from assignor.configs import AssignmentConfigs
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.standby_assignors import ClientTagStandbyTaskAssignor
from assignor.task_assignors.working_state import WorkingState
from tests.assignor.task_assignors.high_availability_cases import client, problem


def test_should_allow_a_standby_to_move_only_where_all_tags_of_its_client_are() -> None:
    tags = [{"zone": "a"}, {"zone": "a"}, {"zone": "b"}, {"zone": "a", "cluster": "k1"}, {}]
    clients = [client(number, tags=each) for number, each in enumerate(tags, start=1)]
    state = WorkingState.of(problem(AssignmentConfigs(), clients, ""), DecisionLog())
    may_move = ClientTagStandbyTaskAssignor(state, ("zone",)).may_move
    everybody = range(len(clients))
    allowed = {(1 + source, 1 + other) for source in everybody for other in everybody if may_move(source, other)}
    to_itself = {(number, number) for number in range(1, 6)}
    # Client 4 has a tag more than 1 and 2, be it configured or not; client 5 has none that could be missed.
    assert allowed - to_itself == {(1, 2), (2, 1), (1, 4), (2, 4), (5, 1), (5, 2), (5, 3), (5, 4)}
