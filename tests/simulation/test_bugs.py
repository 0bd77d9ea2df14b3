"""Each bug can be switched on, and leaves production code as it was."""

import pytest

from tests.examples import every_other_long
from tests.simulation.bug import BUGS, Bug
from tests.simulation.finding import broken_by_seed, find, named
from tests.simulation.running import FAILS_WITH

CHEAP = (
    "acknowledgement of an older generation",
    "drain forgotten after a crash",
    "checkpoint ahead of the flush",
    "pause not heard",
    "polled counts as processed",
    "handed out before it was given up",
    "nobody is ever over",
    "lease without an end",
)
FEW_SEEDS = 12


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_should_be_in_production_code_while_it_is_switched_on_and_gone_afterwards(bug: Bug) -> None:
    def attributes() -> list[object]:
        return [vars(owner)[each.attribute] for each, owner in places]

    places = [(each, owner) for each in bug.changes for owner in each.owners()]
    right = attributes()
    with bug.switched_on():
        wrong = attributes()
    assert not any(one is other for one, other in zip(right, wrong, strict=True))
    assert all(one is other for one, other in zip(right, attributes(), strict=True))
    for each in bug.changes:
        is_sql = each.module == "tests.coordinator_api.lease.table"  # stands for what the database is asked
        assert is_sql or each.module.split(".")[0] in ("assignor", "coordinator_api", "streams_runtime")


@pytest.mark.parametrize("name", every_other_long(CHEAP))
def test_should_be_found_within_few_seeds(name: str) -> None:
    found = find(named(name), 1, FEW_SEEDS, broken_by_seed)
    assert found.is_always, f"not within {FEW_SEEDS} seeds"
    assert not any(rule.startswith(FAILS_WITH) for rule in found.rules), "a rule has to say so"
