"""What setup.py has compiled decides as the same source does in Python, step by step."""

import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.clients.client_state import TaskLags
from assignor.configs import AssignmentConfigs
from assignor.java import order
from assignor.task_assignors.base import Placement, PlacementClient, PlacementProblem
from assignor.task_assignors.decisions import Decision, DecisionLog
from assignor.types import JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, ProcessId, TaskId
from tests.assignor.task_assignors.forms import MOVEMENT, form, pure_order
from tests.checkout import ROOT, VECTORS
from tests.compiled_modules import compiled_file, compiled_modules, is_older_than_its_source

END = 100_000
BEHIND = [LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 5, 11, 10_000, 10_001, END, JAVA_LONG_MAX]

NOTHING_COMPILED = """
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

of_sources = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

def only_sources(path):
    if not Path(path).is_relative_to(Path.cwd() / "assignor"):
        raise ImportError
    return of_sources(path)

sys.path_hooks.insert(0, only_sources)
from assignor_cli.program import main
from assignor.task_assignors import task_movement

assert task_movement.__file__.endswith(".py")
main()
"""

needs_compiled = pytest.mark.skipif(
    any(compiled_file(module) is None for module in compiled_modules()),
    reason="not compiled here: `make setup` compiles where there is a C compiler",
)


def placed(problem: PlacementProblem, *, pure: bool) -> tuple[Placement, list[Decision]]:
    log = DecisionLog()
    placement = form("high_availability", pure=pure).HighAvailabilityTaskAssignor().assign(problem, log)
    return placement, list(log)


def problem_of(draw: random.Random) -> PlacementProblem:
    """Clients of several capacities, in one of two cases with few hash codes, that have copies of the tasks of which
    some are queued for several clients, because they have several standbys.
    """
    count = draw.choice([1, 2, 3, 10, 40, 90])
    hash_codes = draw.choice([2, 2**31])
    processes = {ProcessId(number << 32, number ^ draw.randrange(hash_codes)): draw.random() for number in range(count)}
    capacities = draw.choice([[1], [1, 2], [1, 2, 3, 7, 1000]])
    tasks = tuple([TaskId(number % draw.choice([1, 3]), number) for number in range(draw.choice([1, 7, 60, 300]))])
    ends = dict.fromkeys(tasks, draw.choice([0, END]))
    copies, lags = draw.choice([1, 2, 3, 8]), draw.choice([[LATEST_OFFSET, 0], BEHIND])
    reported: dict[ProcessId, dict[TaskId, int]] = {process: {} for process in processes}
    few = draw.sample(list(processes), max(1, int(count * draw.choice([0.3, 0.9, 1.0]))))
    for task in tasks:
        for process in draw.sample(few, min(len(few), draw.randint(0, copies))):
            reported[process][task] = draw.choice(lags)
    shares_lags = draw.random() < 0.8
    return PlacementProblem(
        AssignmentConfigs(
            num_standby_replicas=draw.choice([0, 1, 1, 2, 5]),
            max_warmup_replicas=draw.choice([0, 1, 2, 1000]),
            acceptable_recovery_lag=draw.choice([0, 10, 10_000, JAVA_LONG_MAX]),
        ),
        tasks,
        tasks,
        {
            process: PlacementClient(
                process, draw.choice(capacities), TaskLags(own, ends) if shares_lags else TaskLags({**ends, **own})
            )
            for process, own in reported.items()
        },
    )


@needs_compiled
@given(seed=st.integers(0, 2**32))
def test_should_decide_as_the_source_does(seed: int) -> None:
    problem = problem_of(random.Random(seed))

    assert placed(problem, pure=False) == placed(problem, pure=True)


@needs_compiled
@given(
    fields=st.lists(st.tuples(*[st.integers(0, 99) | st.integers(-5, 2**66)] * 2, st.sampled_from([None] * 9 + ["t"]))),
    initial_capacity=st.sampled_from([1, 16, 64]),
    share=st.sampled_from([1, 8, 64]),
)
def test_should_order_tasks_by_bucket_as_the_source_does(
    fields: list[tuple[int, int, str | None]], initial_capacity: int, share: int
) -> None:
    """`share`: every so-manieth number, so that small tables are crowded."""
    tasks = [TaskId(subtopology, partition * share, name) for subtopology, partition, name in fields]
    spreads, of_source = order.spreads_of_tasks(tasks), pure_order().spreads_of_tasks(tasks)
    assert spreads == of_source
    if spreads is not None:
        found = order.uncrowded_order(spreads, initial_capacity)
        assert found == pure_order().uncrowded_order(spreads, initial_capacity)


@needs_compiled
def test_should_run_recorded_rebalances_again_with_nothing_compiled() -> None:
    files = [str(VECTORS / name) for name in ("fresh_rebalances.jsonl.gz", "recordings/threads2.jsonl.gz")]

    ended = subprocess.run(
        [sys.executable, "-c", NOTHING_COMPILED, "assign", "--check", *files], cwd=ROOT, capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_should_compile_all_that_moves_tasks() -> None:
    assert {f"assignor/task_assignors/{name}" for name in MOVEMENT} < {*compiled_modules()}


@pytest.mark.parametrize("module", compiled_modules())
def test_should_not_be_older_than_its_source(module: str) -> None:
    """Everywhere but in tests, imports find the compiled form first."""
    assert not is_older_than_its_source(module), (
        f"{module} was changed since it was compiled: `make setup` does it anew"
    )
