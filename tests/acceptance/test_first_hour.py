"""What a stranger does in the first hour, from the built wheel in an empty directory: nothing comes from the checkout.

Its steps are fixtures that follow each other; each test looks at one thing that was said. So the tests may run in any
order, and each alone.
"""

import json
import os
import re
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.acceptance.stranger import WITHIN_S, Coordinator, Ended, Spark, Stranger
from tests.checkout import ROOT
from tests.package.background import Background
from tests.package.distributions import build
from tests.package.environments import TRIED, fresh_environment, interpreter, running_python

EXAMPLE = "count_words"
RECORDS = 40_000
OLD_RECORDS = 8_000
THIRTEEN_MONTHS_MS = 400 * 24 * 3_600_000
PARTITIONS = 4
INSTANCES = 2

pytestmark = [pytest.mark.long, pytest.mark.spark]


def any_python() -> Path:
    """The one that runs the tests, if it is declared: `test_pythons` tries the others."""
    return next(found for version in (running_python(), *TRIED) if (found := interpreter(version)))


NEEDS_EXTRA = {
    "serve": "coordinator",
    "groups list": "coordinator",
    "workers run count_words:application": "spark",
    "replay recordings --output out": "batch",
    "record --group orders": "kafka,streams",
    "reset --application-id words --bootstrap-server embedded:log": "streams",
    "topics list --bootstrap-server BROKER": "kafka",
}
"""Commands of the package without extras, and the one that each needs."""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """First he installs the package alone, and then all of it."""
    wheel, _ = build(tmp_path_factory.mktemp("wheel"))
    environment = fresh_environment(tmp_path_factory.mktemp("stranger"), any_python(), with_pip=True)
    environment.install_by_pip(f"assignor @ {wheel.as_uri()}")
    with socket.create_server(("127.0.0.1", 0)) as anybody:
        broker = f"127.0.0.1:{anybody.getsockname()[1]}"
        without_extras = {
            command: Ended.of(environment.run("assignor", *command.replace("BROKER", broker).split()))
            for command in NEEDS_EXTRA
        }
    extras = "all" if shutil.which("java") else "all,java"
    environment.install(f"assignor[{extras}] @ {wheel.as_uri()}")
    with ExitStack() as running:
        someone = Stranger(environment, running, without_extras)
        running.callback(someone.leaves)
        yield someone


# The first hour


@dataclass(frozen=True)
class Run:
    """One run of the example. `more`: records in the output topic beyond one for each word that was counted."""

    counts: dict[str, list[int]]
    more: int
    exit_code: int
    said: str


def json_lines(words: list[str], timestamp_ms: int) -> str:
    """Records as `assignor produce --json` takes them."""
    records = ({"key": str(n % 50), "value": word, "timestamp": timestamp_ms + n} for n, word in enumerate(words))
    return "".join(f"{json.dumps(record)}\n" for record in records)


WORDS = [f"word-{number * number % 997}" for number in range(RECORDS)]


@pytest.fixture(scope="module")
def fed(stranger: Stranger) -> Stranger:
    now_ms = int(time.time() * 1_000)
    stranger.on_log("topics", "create", "lines", "word-counts", "--partitions", str(PARTITIONS))
    old, new = WORDS[:OLD_RECORDS], WORDS[OLD_RECORDS:]
    for words, since_ms in ((old, now_ms - THIRTEEN_MONTHS_MS), (new, now_ms - RECORDS)):
        (stranger.home / "records.jsonl").write_text(json_lines(words, since_ms))
        stranger.on_log("produce", "lines", "records.jsonl", "--json")
    return stranger


@pytest.fixture(scope="module")
def coordinator(stranger: Stranger) -> Coordinator:
    return stranger.starts_coordinator("log", database="words")


@pytest.fixture(scope="module")
def spark(stranger: Stranger) -> Spark:
    return stranger.starts_spark(INSTANCES)


@pytest.fixture(scope="module")
def first_run(fed: Stranger, coordinator: Coordinator, spark: Spark) -> Run:
    """An executor is killed while it counts. Every count is a result, so that none can be missing without a word."""
    example, setting = (ROOT / "examples" / f"{EXAMPLE}.py").read_text(), '"processing.guarantee": "exactly_once_v2",'
    assert setting in example
    without_cache = example.replace(setting, f'{setting} "statestore.cache.max.bytes": 0,')
    (fed.home / f"{EXAMPLE}.py").write_text(without_cache)
    on_spark = ("--master", spark.master, "--conf", "spark.executor.memory=512m")
    with start_example(coordinator, *on_spark) as application:
        wait_for_instances(application)
        fed.consumes(application, "word-counts", 1)
        victim, *_ = spark.executors()
        os.kill(victim, signal.SIGKILL)
        lost = application.wait_for(r"instance (\d) was lost", WITHIN_S)
        counts = counts_from(fed, application)
        application.wait_for(rf"was lost(?s:.)*\n(count-words-p{lost}-t0) on ", WITHIN_S)  # Spark has started it again
        return ended(fed, application, counts)


@pytest.fixture(scope="module")
def plan(first_run: Run, coordinator: Coordinator) -> str:
    """What a reset would do."""
    assert first_run.exit_code == 0
    return coordinator.runs("reset", *RESET, "--bootstrap-server", coordinator.stranger.log())


RESET = ("--application-id", "count-words", *(f"--state-dir=state/instance-{number}" for number in range(INSTANCES)))


@pytest.fixture(scope="module")
def second_run(plan: str, fed: Stranger, coordinator: Coordinator) -> Run:
    """After a reset, and without Spark."""
    assert "count-words" in plan
    coordinator.runs("reset", *RESET, "--execute", "--bootstrap-server", fed.log())
    fed.on_log("topics", "delete", "word-counts")
    fed.on_log("topics", "create", "word-counts", "--partitions", str(PARTITIONS))
    with start_example(coordinator, "--local") as application:
        return ended(fed, application, counts_from(fed, application))


def start_example(coordinator: Coordinator, *where: str) -> Background:
    return coordinator.starts_application(f"{EXAMPLE}:application", "--instances", str(INSTANCES), *where)


def counts_from(stranger: Stranger, application: Background) -> dict[str, list[int]]:
    """As soon as there is one for each record."""
    counts: dict[str, list[int]] = {}
    for record in stranger.consumes(application, "word-counts", RECORDS):
        counts.setdefault(record["key"], []).append(record["value"])
    return counts


def ended(stranger: Stranger, application: Background, counts: dict[str, list[int]]) -> Run:
    """The application is interrupted."""
    wait_for_instances(application)  # one that has only begun to start may end later than the driver waits
    exit_code = application.interrupt()
    (there,) = stranger.records_of("word-counts")
    return Run(counts, there - RECORDS, exit_code, application.said)


def wait_for_instances(application: Background) -> None:
    for number in range(INSTANCES):
        # the name has its host where there is no Spark
        application.wait_for(rf"(count-words(?:-\S+)?-p{number}-t0 on )", WITHIN_S)


def every_count() -> dict[str, list[int]]:
    """Each word counted from 1 to its number: none is missing, and none is there twice."""
    return {word: list(range(1, count + 1)) for word, count in Counter(WORDS).items()}


class TestFirstHour:
    def test_should_be_installed_without_the_checkout(self, stranger: Stranger) -> None:
        where = stranger.runs("python", "-c", "import assignor, coordinator_api; print(assignor.__file__)")

        assert Path(where.strip()).is_relative_to(stranger.environment.bin.parent)
        assert re.fullmatch(r"assignor \d+\.\d+\.\d+ \(Python .*\)\n", stranger.runs("assignor", "--version"))

    def test_should_keep_records_of_today_and_of_thirteen_months_ago(self, fed: Stranger) -> None:
        (row,) = [line for line in fed.on_log("topics", "list").splitlines() if line.startswith("lines ")]

        assert row.split() == ["lines", str(PARTITIONS), str(RECORDS)]

    def test_should_count_every_word_although_an_executor_is_killed(self, first_run: Run) -> None:
        assert first_run.counts == every_count()
        assert first_run.more == 0

    def test_should_say_which_instance_was_lost_and_end_in_good_order(self, first_run: Run) -> None:
        assert re.search(r"^instance \d was lost with executor \d on .*; Spark starts it again$", first_run.said, re.M)
        assert "stopping: instances commit, checkpoint and leave\n" in first_run.said
        assert first_run.exit_code == 0
        assert "Traceback" not in first_run.said

    def test_should_say_what_a_reset_would_do_first(self, plan: str) -> None:
        assert plan.startswith("count-words: a reset would do this; nothing is changed\n")
        assert plan.endswith("--execute does it.\n")
        assert re.search(r"^offset +lines-0 +\d+ -> 0$", plan, re.M)
        assert re.search(r"^topic +count-words-counts-changelog +deleted$", plan, re.M)

    def test_should_count_all_of_it_again_after_the_reset(self, second_run: Run) -> None:
        assert second_run.counts == every_count()
        assert (second_run.more, second_run.exit_code) == (0, 0)

    @pytest.mark.parametrize("path", ["/", "/docs", "/version", "/openapi.json"])
    def test_should_answer_a_browser(self, coordinator: Coordinator, path: str) -> None:
        assert httpx.get(f"{coordinator.url}{path}", trust_env=False).status_code == 200


# Errors. Each says in one line what, where and what to do. 1: the answer is no. 2: the command or its input is wrong.


class TestWithoutExtras:
    @pytest.mark.parametrize("command", NEEDS_EXTRA)
    def test_should_say_which_extra_a_command_needs(self, stranger: Stranger, command: str) -> None:
        ended = stranger.without_extras[command]

        what = "needs an extra that is not installed"
        if "BROKER" in command:
            what = "is a Kafka cluster, and its client is not installed"
        assert re.fullmatch(rf"error: .*{what}: pip install 'assignor\[{NEEDS_EXTRA[command]}\]'.*\n", ended.said), (
            ended.said
        )
        assert (ended.exit_code, ended.printed) == (2, "")
