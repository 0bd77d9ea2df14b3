"""The model finds what is impossible in a history, and accepts what merely looks strange."""

import pytest

from tests.history.calls import History
from tests.history.histories import GROUP, Case, cases
from tests.history.model import PROMISES, judged

CASES = cases()


def broken(of: History) -> dict[str, list[str]]:
    """Promise to the places of the lines of its shortest contradiction."""
    return {
        each.promise: [line.where for line in shortest.lines]
        for each in judged(of)
        if (shortest := each.shortest) is not None
    }


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_should_find_a_broken_promise_with_its_shortest_witness(case: Case) -> None:
    found = broken(case.history)
    assert found == {} if case.broken_by is None else found[case.name] == case.broken_by


def test_should_break_every_promise_in_some_history() -> None:
    assert {case.name for case in CASES if case.broken_by is not None} == {promise.name for promise in PROMISES}


def test_should_name_the_group_of_a_contradiction() -> None:
    shortest = next(each.shortest for each in judged(CASES[1].history) if each.shortest is not None)

    assert shortest.group == GROUP
