"""What tests of every folder may ask for, the order in which they run, and how many cases Hypothesis makes up."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import groupby
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import run_order
from tests.oracle import jars
from tests.oracle.broker import Broker, require_jars
from tests.process_state import HANDLED, LogSettings, ThreadSignals, log_settings, signals_of_this_thread
from tests.told import PROPERTY, Tell, told

# A run in the background of a shell finds SIGINT ignored, and so would all programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)

# Who runs pytest without make may have it set. Each process that shares the work, and the hundreds that tests start,
# would compile anew what the first of them has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Text is as wide as COLUMNS says, and tests compare it: the shell that runs them has no say.
os.environ.pop("COLUMNS", None)

# `--hypothesis-profile` chooses one. A test that needs fewer or more than the others takes a share: `tests.examples`.
# None fails because the machine is busy: no deadline, and no complaint that cases are slow to make.
for _name, _examples in {"quick": 20, "ci": 25, "soak": 500}.items():
    hypothesis.settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        print_blob=True,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("ci")


def pytest_xdist_auto_num_workers() -> int | None:
    """Two processes more than there are cores: many tests wait half of their time for processes that they started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else cores + 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects no garbage while test modules are imported. Their objects live until the end, and visiting them again
    and again costs a fifth of the time. Afterwards they are frozen, so that no garbage collection visits them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: run_order.phase(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Whatever `--dist` says: units go out in the order in which they were collected."""
    return run_order.UnitScheduling(config, log)


_STATE_BEFORE = pytest.StashKey[tuple[ThreadSignals, LogSettings]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    item.stash[_STATE_BEFORE] = signals_of_this_thread(), log_settings()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fails a test that changes signals for the tests after it. Log settings are put back without a word: a command
    that runs in the test's process silences the logs of libraries, as it should.
    """
    yield
    signals, log = item.stash[_STATE_BEFORE]
    log.restore()
    if changed := signals.restore():
        pytest.fail(changed, pytrace=False)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What `async def` tests and fixtures run on."""
    return "asyncio"


@pytest.fixture(scope="session")
def oracle_jars() -> str:
    """The class path of every Kafka release; a test that asks for them is skipped, with the reason, where one cannot be
    had.
    """
    try:
        return os.pathsep.join(map(jars.class_path, jars.RELEASES))
    except jars.JarsUnavailable as reason:
        if require_jars():
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka_broker(oracle_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests; a test that kills or configures one starts its own."""
    broker = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def own_broker(oracle_jars: str, tmp_path: Path) -> Iterator[Broker]:
    """One for this test, which may kill it, and start it again."""
    broker = Broker(tmp_path / "broker", controller_apart=True)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """For what a reader of the run should see, also when it passed."""
    return lambda text: record_property(PROPERTY, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    texts = told([report for reports in terminalreporter.stats.values() for report in reports])
    if texts:
        terminalreporter.section("what the tests say")
    for test, of_test in groupby(texts, key=lambda each: each[0]):
        terminalreporter.write_line(f"-- {test}")
        for _, text in of_test:
            terminalreporter.write_line(text)
