"""Each bug can be switched on, and leaves production code as it was."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.simulation.bug import Bug
from tests.simulation.bugs import BUGS


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_should_be_in_production_code_while_it_is_switched_on_and_gone_afterwards(bug: Bug) -> None:
    def attributes() -> list[object]:
        return [vars(patch.owner)[patch.attribute] for patch in bug.patches]

    right = attributes()
    with bug.switched_on():
        wrong = attributes()
    assert not any(one is other for one, other in zip(right, wrong, strict=True))
    assert all(one is other for one, other in zip(right, attributes(), strict=True))
    for patch in bug.patches:
        module = patch.owner if inspect.ismodule(patch.owner) else importlib.import_module(patch.owner.__module__)
        assert module.__name__.split(".")[0] in ("assignor", "coordinator_api", "streams_runtime")


def test_should_leave_production_code_as_it_was_when_the_block_fails() -> None:
    bug = BUGS[0]
    before = [vars(patch.owner)[patch.attribute] for patch in bug.patches]
    with pytest.raises(AssertionError, match="found"), bug.switched_on():
        raise AssertionError("found")
    assert before == [vars(patch.owner)[patch.attribute] for patch in bug.patches]


def test_should_name_each_bug_once_in_one_line() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 26
    assert all(bug.line.endswith(".") and "\n" not in bug.line for bug in BUGS)
