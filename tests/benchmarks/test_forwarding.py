"""`forwarding` measures each way to a group's owner, and says what follows from it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.forwarding import running as forwarding
from benchmarks.forwarding.running import Cost, conclusion
from benchmarks.group_load.latencies import Percentiles
from tests.benchmarks.test_benchmarks import rows
from tests.coordinator_api.store.postgresql import programs


def test_should_conclude_from_which_call_on_it_is_cheaper_to_be_sent_on() -> None:
    def cost(p50: float, owner_us: float, asked_us: float) -> Cost:
        return Cost(Percentiles(100, p50, p50, p50), owner_us, asked_us)

    costs = {
        forwarding.DIRECT: cost(1.0, 200, 0),
        forwarding.FIRST: cost(5.0, 200, 500),
        forwarding.FOLLOWING: cost(1.0, 200, 0),
        forwarding.PASSED_ON: cost(3.0, 200, 600),
        forwarding.PASSED_ON_CHEAPLY: cost(2.0, 200, 200),
    }
    said = conclusion(costs)
    assert "passed on takes 3.0 times as long (p50) and 4.0 times the CPU each time" in said
    assert "sent on 5.0 times as long (p50) and 3.5 times the CPU the first time" in said
    assert "from a member's call 3 on" in said


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
@pytest.mark.skipif(programs() is None, reason="no PostgreSQL on this machine")
def test_should_print_what_each_way_to_the_owner_costs() -> None:
    console = Console(file=io.StringIO(), width=160)
    forwarding.run(console, quick=True)
    assert isinstance(console.file, io.StringIO)
    found = rows(console.file.getvalue())
    assert {calls for calls, *_ in found.values()} == {forwarding.QUICK.calls}
    assert len(found) == 5
