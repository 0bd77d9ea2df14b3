"""A group over recorded rounds: which tasks went where each time."""

import pytest

from assignor.types import TaskId
from rebalance_analysis.history import group_history
from rebalance_analysis.history.group_history import Move
from rebalance_analysis.history.triggers import processes_of
from rebalance_analysis.presentation.history_documents import history_document
from rebalance_analysis.reading.task_owners import owners_in
from rebalance_analysis.rerun import run
from tests.rebalance_analysis.history.histories import past_rebalances, recorded, short
from tests.recorded import RECORDINGS, documents


def test_should_count_what_moved_was_held_back_and_handed_over() -> None:
    told = group_history(past_rebalances(recorded("wcflow"))).rebalances
    counted = [(len(each.moves), each.held_back, each.handed_over, each.warm_ups, each.processes) for each in told]
    assert counted == [
        (18, 0, 0, 0, 2),
        (0, 0, 0, 0, 2),
        (10, 10, 0, 1, 3),
        (0, 0, 10, 1, 3),
        (2, 2, 0, 1, 3),
        (0, 0, 2, 1, 3),
        (0, 2, 0, 1, 3),
        (0, 0, 2, 1, 3),
        (0, 2, 0, 1, 3),
        (0, 0, 2, 1, 3),
        (9, 3, 0, 0, 2),
        (0, 0, 3, 0, 2),
    ]
    assert {each.tasks for each in told} == {18}


def test_should_name_giver_and_receiver_of_each_move() -> None:
    history = group_history(past_rebalances(recorded("wcflow")))
    fifth = history.rebalances[4].moves
    assert [(str(move.task), short(move.giver), short(move.receiver), move.held_back) for move in fifth] == [
        ("0_4", "52a2381e", "83dd50fb", True),
        ("1_2", "83dd50fb", "52a2381e", True),
    ]
    assert history.moves == 10 + 2 + 9  # the 18 of the first round come out of nowhere


def test_should_compare_the_first_round_with_the_one_before_it() -> None:
    rounds = past_rebalances(recorded("threads2"))
    assert group_history(rounds[5:], before=rounds[4]).rebalances == group_history(rounds).rebalances[5:]


@pytest.mark.parametrize("name", RECORDINGS)
def test_should_follow_the_owners_in_the_recorded_bytes(name: str) -> None:
    """Moves put together are where every task is at the end, whoever led the group."""
    lines = documents(name)
    where: dict[TaskId, Move] = {}
    for each, line in zip(group_history(past_rebalances(lines)).rebalances, lines, strict=True):
        where.update({move.task: move for move in each.moves})
        recorded_owners = owners_in(line).active
        process_of = {member: process for process, view in processes_of(run(line)).items() for member in view.members}
        for task, (member,) in recorded_owners.items():
            assert where[task].receiver == process_of[member]


def test_should_be_told_as_json() -> None:
    document = history_document("smoke", group_history(past_rebalances(recorded("smoke"))))
    assert (document["group_id"], document["summary"]) == ("smoke", {"moves": 6})
    rounds = document["rounds"]
    assert isinstance(rounds, list)
    assert [each["generation_id"] for each in rounds] == [1, 2, 3, 4]
    assert rounds[2]["moves"][0] == {
        "task": "0_1",
        "from": "2230ea3e-4048-4d7d-bee0-e650940ec648",
        "to": "46f89fb6-f126-41fa-a98f-b46ec129e40f",
        "held_back": True,
    }


def test_should_have_nothing_to_say_of_no_rounds() -> None:
    assert group_history([]).rebalances == ()
