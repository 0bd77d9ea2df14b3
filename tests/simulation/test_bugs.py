"""Each bug can be switched on, and leaves production code as it was."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.coordinator_api.lease.table import LeaseTable
from tests.examples import every_other_long
from tests.simulation.bug import Bug
from tests.simulation.bugs import BUGS, named
from tests.simulation.finding import broken_by_seed, find
from tests.simulation.running import FAILS_WITH

CHEAP = (
    "acknowledgement of an older generation",
    "drain forgotten after a crash",
    "pause not heard",
    "handed out before it was given up",
    "polled counts as processed",
    "lease without an end",
    "nobody is ever over",
)
FEW_SEEDS = 12
NAMED = (
    "retry joins twice",
    "acknowledgement of an older generation",
    "drain forgotten after a crash",
    "timer forgotten after a restart",
    "checkpoint ahead of the flush",
    "offset committed by a fenced task",
    "lease counted from the answer",
    "write in another epoch",
)
"""Without these, nobody would call it a simulation of this protocol."""


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
        is_sql = patch.owner is LeaseTable  # stands for what the database is asked
        assert is_sql or module.__name__.split(".")[0] in ("assignor", "coordinator_api", "streams_runtime")


@pytest.mark.parametrize("name", every_other_long(CHEAP))
def test_should_be_found_within_few_seeds(name: str) -> None:
    found = find(named(name), 1, FEW_SEEDS, broken_by_seed)
    assert found.is_always, f"not within {FEW_SEEDS} seeds"
    assert not any(rule.startswith(FAILS_WITH) for rule in found.rules), "a rule has to say so"


def test_should_name_only_known_bugs_as_those_that_have_to_be_found() -> None:
    assert {each.name for each in BUGS} >= {*CHEAP, *NAMED}
