"""Freshly drawn chains of the DSL, run by Kafka's TopologyTestDriver and by that of this project."""

import logging
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.dsl_vectors.cases import Case
from tests.dsl_vectors.judging import Verdict, judge
from tests.oracle.differential_run import DifferentialRun, cases_of_this_run, fresh_cases
from tests.oracle.generated_dsl_chains import dsl_chain
from tests.oracle.oracle import DSL_TOPOLOGIES, Line
from tests.told import Tell

pytestmark = pytest.mark.java

_MEMORY = Path("/dev/shm")
"""As in DslTopologies.java. On a disk, most of the time would be spent on opening and closing RocksDB."""

_ASKED_AHEAD = 100

_UNOPTIMIZED = "Found a null keyChangingChild node"
"""Kafka fails to optimize a topology in which one repartition topic would replace several of one branch, as
`repartitioning.py` describes. Such a chain is compared without the optimization.
"""


@pytest.fixture
def stores_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    if _MEMORY.is_dir():
        monkeypatch.setattr(tempfile, "tempdir", str(_MEMORY))


@pytest.fixture
def no_logs() -> Iterator[None]:
    """Some chains fail on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_should_answer_what_kafka_does_in_fresh_chains(
    oracle_jars: str, tell: Tell, stores_in_memory: None, no_logs: None
) -> None:
    with fresh_cases("dsl chains", tell, DSL_TOPOLOGIES) as fresh:
        for line in _answered(fresh, cases_of_this_run()):
            _compare(fresh, line)


def _answered(fresh: DifferentialRun, cases: int) -> Iterator[Line]:
    """Each chain with the answer of one release, of each in turn. The releases answer at the same time, ahead of the
    caller.
    """
    releases = list(fresh.kafka)
    threads = [ThreadPoolExecutor(1) for _ in releases]

    def asked(number: int) -> Line:
        chain, release = dsl_chain(fresh.seed, number), releases[number % len(releases)]
        answered = fresh.ask(release, chain)
        if _UNOPTIMIZED in (answered["output"].get("error", {}).get("message") or ""):
            del chain["configs"]["topology.optimization"]
            answered = fresh.ask(release, chain | {"unoptimized": True})
        return answered

    waiting: deque[Future[Line]] = deque()
    try:
        for number in range(cases + _ASKED_AHEAD):
            if number < cases:
                waiting.append(threads[number % len(releases)].submit(asked, number))
            if number >= _ASKED_AHEAD:
                yield waiting.popleft().result()
    finally:
        for thread in threads:
            thread.shutdown(cancel_futures=True)


def _compare(fresh: DifferentialRun, line: Line) -> None:
    """A line that differs is kept in the form that `python -m tests.dsl_vectors` reads."""
    written = {**line, **line["output"]}
    del written["output"]
    figures = fresh.figures_of(line)
    figures.compared += 1
    fresh.features["operators"] += len(line["topology"])
    fresh.features["chains that end in an error"] += "error" in written
    fresh.features["chains that Kafka fails to optimize"] += "unoptimized" in line
    try:
        judgement = judge(Case(written))
    except Exception as error:  # whatever it is, the other chains are still of interest
        fresh.failed(written, f"raised {type(error).__name__}: {error}")
        return
    fresh.features.update(judgement.reasons)
    if judgement.verdict in (Verdict.DIFFERENT, Verdict.NOT_KNOWN):
        fresh.failed(written, "; ".join(judgement.differences or judgement.reasons))
