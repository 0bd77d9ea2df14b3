"""What a stranger does in the first hour, from the built wheel in an empty directory: nothing comes from the checkout.

Its steps are fixtures that follow each other, and so are the errors of an application that runs; each test looks
at one thing that was said. So the tests may run in any order, and each alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.stranger import WITHIN_S, Coordinator, Ended, Spark, Stranger
from tests.checkout import ROOT
from tests.package.background import Background
from tests.package.distributions import build
from tests.package.environments import TRIED, fresh_environment, interpreter, running_python
from tests.processes import processes_with

EXAMPLE = "count_words"
RECORDS = 100_000
OLD_RECORDS = 20_000
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
    with start_example(coordinator, spark) as application:
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
def second_run(plan: str, fed: Stranger, coordinator: Coordinator, spark: Spark) -> Run:
    """After a reset."""
    assert "count-words" in plan
    coordinator.runs("reset", *RESET, "--execute", "--bootstrap-server", fed.log())
    fed.on_log("topics", "delete", "word-counts")
    fed.on_log("topics", "create", "word-counts", "--partitions", str(PARTITIONS))
    with start_example(coordinator, spark) as application:
        return ended(fed, application, counts_from(fed, application))


def start_example(coordinator: Coordinator, spark: Spark) -> Background:
    on_spark = ["--master", spark.master, "--conf", "spark.executor.memory=512m"]
    return coordinator.starts_application(f"{EXAMPLE}:application", "--instances", str(INSTANCES), *on_spark)


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
        application.wait_for(rf"(count-words-p{number}-t0 on )", WITHIN_S)


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


SHOPS = """
from pathlib import Path

from streams_runtime import LONG, STRING, Application, StreamsBuilder, TimeWindowedSerde, TimeWindows

MINUTE_MS = 60_000
builder = StreamsBuilder()
shops = [builder.stream(shop, STRING, LONG) for shop in ("north", "south", "west")]
sales = shops[0].merge(shops[1]).merge(shops[2]).group_by_key(key_serde=STRING, value_serde=LONG)
sums = sales.windowed_by(TimeWindows(MINUTE_MS, grace_ms=60_000)).reduce(int.__add__, store="sums")
sums.to_stream().to("sums", key_serde=TimeWindowedSerde(STRING, MINUTE_MS), value_serde=LONG)
app = Application(
    builder.build(),
    {
        "application.id": "shops",
        "bootstrap.servers": f"embedded:{Path.cwd() / 'shops'}",
        "state.dir": Path.cwd() / "state",
    },
)
"""
TOKEN = "a-token-for-tests"
NORTH, SOUTH = 300, 200
"""Old records, which the log deletes before anybody has read them."""
IN_TIME, LATE = 10, 7
BODY = """
import json, other
from streams_runtime.application import group_body
print(json.dumps(group_body(other.app)))
"""


def sales(count: int, minutes: int) -> str:
    """One sale every ten minutes, forward or back from the same one."""
    first_ms = 1_700_000_000_000
    records = ({"key": "tea", "value": 1, "timestamp": first_ms + n * minutes * 60_000} for n in range(count))
    return "".join(f"{json.dumps(record)}\n" for record in records)


@dataclass
class Shops:
    """An application whose records are deleted unread, or come too late, and all that was said of it meanwhile."""

    coordinator: Coordinator
    driver: Background
    described: dict[str, str] = field(default_factory=dict)
    listed: str = ""
    twice: Ended | None = None
    other: Ended | None = None
    refused: dict[str, Any] = field(default_factory=dict)
    unauthorized: int = 0
    metrics: str = ""
    exit_code: int = 0

    @property
    def lines(self) -> list[str]:
        return self.driver.said.splitlines()

    def description(self, moment: str) -> str:
        """In one line, however wide the terminal was."""
        return " ".join(self.described[moment].split())


@pytest.fixture(scope="module")
def guarded(stranger: Stranger) -> Coordinator:
    """A coordinator with a token."""
    for name in ("north", "south"):
        stranger.on_log("topics", "create", name, "--config", "retention.ms=86400000", log="shops")
    stranger.on_log("topics", "create", "sums", "east", log="shops")
    (stranger.home / "shops.py").write_text(SHOPS)
    (stranger.home / "other.py").write_text(SHOPS.replace('"west"', '"east"'))
    (stranger.home / "starting.py").write_text(SHOPS.replace('"shops"', '"starting"'))
    return stranger.starts_coordinator("shops", database="shops", ASSIGNOR_AUTH_TOKEN=TOKEN)


@pytest.fixture(scope="module")
def shops(stranger: Stranger, guarded: Coordinator) -> Shops:
    def produce(topic: str, records: str) -> None:
        stranger.on_log("produce", topic, "--json", "--value-serializer", "long", log="shops", stdin=records)

    produce("north", sales(NORTH, 10))
    produce("south", sales(SOUTH, 10))
    begin = ["reset", "--application-id", "shops", "--input-topic", "north", "--execute"]
    guarded.runs(*begin, "--bootstrap-server", stranger.log("shops"))  # so it has a position: the first record
    local = ["--master", "local[1]"]
    with guarded.starts_application("shops:app", *local) as driver:
        seen = Shops(guarded, driver)
        driver.wait_for(r"(what to do: Source topics are missing)", WITHIN_S)
        seen.described["topic missing"] = guarded.runs("groups", "describe", "shops")
        seen.listed = guarded.runs("groups", "list")
        with guarded.starts_application("shops:app", *local) as twice:
            until(lambda: stranger.records_of("north", "south", log="shops") == [0, 0])
            stranger.on_log("topics", "create", "west", log="shops")
            produce("west", sales(IN_TIME, 10) + sales(LATE, -10))
            for notice in ("PASSED_OVER", "DROPPED"):
                driver.wait_for(rf"(RECORDS_{notice} .*\n)", WITHIN_S)
            seen.described["records lost"] = guarded.runs("groups", "describe", "shops")
            seen.unauthorized, seen.metrics = metrics_of(guarded)
            seen.other = guarded.tries("workers", "run", "other:app", *local)
            exit_code = twice.process.wait(WITHIN_S)
            seen.twice = Ended(exit_code, "", twice.said)
        body = json.loads(stranger.runs("python", "-c", BODY))
        seen.refused = put(guarded, body)
        assert put(guarded, body, replace="true")["revision"] == 2
        seen.exit_code = driver.process.wait(WITHIN_S)
    return seen


def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def metrics_of(coordinator: Coordinator) -> tuple[int, str]:
    """Of the only instance: the status without a token, and the page with it."""
    described = json.loads(coordinator.runs("groups", "describe", "shops", "--format", "json"))
    (member,) = described["members"]
    url = f"http://{member['user_endpoint']}/metrics"
    with httpx.Client(trust_env=False) as browser:
        with_token = browser.get(url, headers={"Authorization": f"Bearer {TOKEN}"})
        return browser.get(url).status_code, with_token.text


def put(coordinator: Coordinator, body: object, **query: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.put(f"{coordinator.url}/v1/groups/shops", json=body, headers=headers, params=query, trust_env=False)
    document: dict[str, Any] = answer.json()
    return document


class TestRunningApplication:
    def test_should_not_look_healthy_when_an_input_topic_is_missing(self, shops: Shops, stranger: Stranger) -> None:
        log = stranger.log("shops")
        to_do = f"Source topics are missing on {log}: west. Create them; the coordinator then starts a rebalance."

        assert "shops: waits for topics, generation 1, 1 thread, 0 of 0 tasks running" in shops.lines
        assert f"what to do: {to_do}" in shops.lines
        assert not any("Stable" in line and "0 of 0" in line for line in shops.lines)
        described = shops.description("topic missing")
        assert described.startswith("shops: waits for topics, generation 1, ")
        assert "state: Stable, but nothing is processed" in described
        assert f"what to do: {to_do}".replace(" ", "") in described.replace(" ", "")
        assert re.search(r"^shops +waits for topics ", shops.listed, re.M)

    def test_should_tell_how_many_records_were_deleted_before_they_were_read(self, shops: Shops) -> None:
        told = (
            f"north-0: {NORTH} records were deleted before this group read them: the log starts at {NORTH}, "
            f"the group was at 0; south-0: {SOUTH} records were deleted before this group read any; "
            f"it begins at offset {SOUTH}"
        )

        assert any(re.fullmatch(rf"RECORDS_PASSED_OVER {NORTH + SOUTH} on .*: {told}", line) for line in shops.lines)
        assert f"RECORDS_PASSED_OVER: {told} (" in shops.description("records lost")
        for topic, count in (("north", NORTH), ("south", SOUTH)):
            assert metric(shops, "streams_passed_over_records_total", topic=topic) == count

    def test_should_tell_how_many_records_came_too_late(self, shops: Shops) -> None:
        told = (
            rf"late for a closed window, KSTREAM-REDUCE-\d+: {LATE} "
            r"\(up to \d:\d\d:\d\d after the window and its grace of 0:01:00\)"
        )

        assert any(re.fullmatch(rf"RECORDS_DROPPED {LATE} on .*: {told}", line) for line in shops.lines)
        assert re.search(rf"RECORDS_DROPPED: {told} \(", shops.description("records lost"))
        assert metric(shops, "streams_dropped_records_total", reason="late") == LATE

    def test_should_serve_queries_on_loopback_to_those_with_the_token(self, shops: Shops) -> None:
        (instance,) = set(re.findall(r"^shops-p0-t0 on (.*):\d+: running; active 0_0$", shops.driver.said, re.M))

        assert instance == "127.0.0.1"
        assert shops.unauthorized == httpx.codes.UNAUTHORIZED

    def test_should_refuse_an_instance_that_runs_already(self, shops: Shops) -> None:
        assert shops.twice == Ended(
            2,
            "",
            "the group has shops-p0-t0 already: waiting until it leaves\n"
            "error: shops: its instances run already, started by another program (shops-p0-t0): stop that one first, "
            "or give this application another application.id\n",
        )

    def test_should_refuse_another_topology_under_living_members(self, shops: Shops) -> None:
        assert shops.other is not None
        line = f"error: INCONSISTENT_GROUP_PROTOCOL (409): {shops.refused['detail']}\n"

        assert (shops.other.exit_code, shops.other.printed, shops.other.said) == (1, "", line)
        assert shops.refused["status"] == httpx.codes.CONFLICT
        assert re.fullmatch(
            "group shops: it has 1 member, which runs another topology: subtopology 0 reads west, in the new one east. "
            "If this is another application, give it another application.id. If it is the next version, drain the "
            r"group first, or replace the topology under living members \(PUT with \?replace=true, `assignor workers "
            r"run --replace`\), which ends those that cannot run it. What the group runs was declared at \d{4}-\S+ "
            rf"\S+Z by auth\.token, assignor/\S+ \(.*, process {shops.driver.process.pid}\) at 127.0.0.1",
            shops.refused["detail"],
        )

    def test_should_say_who_replaced_the_topology_and_when(self, shops: Shops) -> None:
        assert shops.exit_code == 1
        (end,) = [line for line in shops.lines if line.startswith("instance 0: error; ")]
        assert "revision 2, declared at 20" in end
        assert "by auth.token, python-httpx/" in end
        assert "Traceback" not in shops.driver.said


def metric(shops: Shops, name: str, **labels: str) -> float:
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    (value,) = [
        float(line.rpartition(" ")[2])
        for line in shops.metrics.splitlines()
        if line.startswith(f"{name}{{") and all(label in line for label in wanted)
    ]
    return value


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_should_leave_nothing_behind_when_spark_has_not_started_yet(
    stranger: Stranger, guarded: Coordinator, number: signal.Signals
) -> None:
    mark = f"spark.test.mark={stranger.home}-{number}"
    with guarded.starts_application("starting:app", "--master", "local[1]", "--conf", mark) as driver:
        driver.wait_for(r"(starting Spark on local\[1\]\n)")
        until(lambda: driver.process.poll() is not None or processes_with(mark) > {driver.process.pid})
        driver.process.send_signal(number)
        exit_code = driver.process.wait(WITHIN_S)

    assert (exit_code, driver.said) == (
        128 + number,
        "starting Spark on local[1]\ninterrupted; Spark is stopped\n",
    )
    until(lambda: not processes_with(mark))


def test_should_end_without_a_word_when_nobody_reads_on(guarded: Coordinator, stranger: Stranger) -> None:
    stranger.on_log("topics", "create", "many", log="shops")
    stranger.on_log("produce", "many", log="shops", stdin="word\n" * 20_000)  # more than a pipe holds
    consume = f"assignor consume many --from-beginning --until-end --bootstrap-server {stranger.log('shops')}"

    piped = stranger.tries("sh", "-c", f"{{ {consume}; echo $? > exit_code; }} | head -1")

    assert piped == Ended(0, "word\n", "")
    assert (stranger.home / "exit_code").read_text() == "141\n"


NOBODY = "http://127.0.0.1:1"
REFUSED = "[Errno 111] Connection refused"
LINES = [
    (
        1,
        "consume sum --bootstrap-server LOG",
        "error: there is no topic sum at LOG; did you mean sums? If not, make it with `assignor topics create sum`",
    ),
    (
        1,
        "topics create sums --bootstrap-server LOG",
        "error: topic sums exists, with 1 partition; --if-not-exists leaves it as it is",
    ),
    (
        2,
        "topics list --bootstrap-server embedded:HOME/nowhere",
        "error: there is no directory HOME/nowhere; `assignor topics create` makes it, and a log in it",
    ),
    (
        2,
        "topics create more --config retention.m=1 --bootstrap-server LOG",
        "error: --config: a topic has no config 'retention.m'; did you mean retention.ms?",
    ),
    (
        2,
        f"groups list --coordinator {NOBODY}",
        f"error: no coordinator answers at {NOBODY} ({REFUSED}): start one with `assignor serve`, or name it by "
        "--coordinator",
    ),
    (
        2,
        f"workers run shops:app --wait-for-coordinator 0 --coordinator {NOBODY}",
        f"error: no coordinator answers at {NOBODY} (PUT /v1/groups/shops: ConnectError: {REFUSED}): start one with "
        "`assignor serve`, or name it by --coordinator",
    ),
    (
        2,
        "topics list --bootstrap-server 127.0.0.1:1",
        "error: no broker listens at 127.0.0.1:1 (Connection refused): check --bootstrap-server, and that the broker "
        "runs",
    ),
    (
        2,
        "workers run starting:app --master spark://127.0.0.1:1 --coordinator URL --token-file token",
        "starting Spark on spark://127.0.0.1:1\n"
        "error: no Spark master answers at 127.0.0.1:1 (Connection refused): is --master spark://127.0.0.1:1 right?",
    ),
    (
        2,
        "groups list --coordinator URL",
        "error: URL: SASL_AUTHENTICATION_FAILED: send Authorization: Bearer <token>; a command takes it from "
        "--token-file or ASSIGNOR_AUTH_TOKEN",
    ),
    (
        2,
        "workers run starting:app --coordinator URL",
        "error: SASL_AUTHENTICATION_FAILED (401): send Authorization: Bearer <token>; a command takes it from "
        "--token-file or ASSIGNOR_AUTH_TOKEN",
    ),
    (
        1,
        "groups describe nobody --coordinator URL --token-file token",
        "error: GROUP_ID_NOT_FOUND: there is no group nobody: declare it by PUT",
    ),
    (
        1,
        "reset --application-id nobody --bootstrap-server LOG --coordinator URL --token-file token",
        "error: nobody has no committed offsets and no internal topics at LOG",
    ),
    (2, "explain garbage", "error: garbage:1: is not UTF-8 text: invalid start byte at byte 1"),
    (2, "assign garbage", "error: garbage:1: is not UTF-8 text: invalid start byte at byte 1"),
    (
        2,
        "produce sums garbage --json --bootstrap-server LOG",
        "error: garbage, line 1 is not UTF-8 text (byte 0xff at position 2); what came before line 1 is written (0 "
        "records): correct the line, and go on with --from-line 1",
    ),
    (2, "workers run nowhere:app", "error: nowhere:app: there is no module nowhere in HOME or on the path"),
    (
        2,
        "workers run typo:app",
        "error: typo:app: configs: unknown config 'num.standby.replica'; did you mean 'num.standby.replicas'?",
    ),
    (
        2,
        "serve --config typo.toml",
        "error: typo.toml: unknown setting 'group.max.sise'; did you mean 'group.max.size'?",
    ),
    (2, "serve --port 80800", "error: port: Input should be less than or equal to 65535, not '80800'"),
]
"""Exit code, command, and what it says. In capitals: what is elsewhere in each run."""


@pytest.mark.parametrize("exit_code, command, line", LINES, ids=[command for _, command, _ in LINES])
def test_should_say_in_one_line_what_to_do(
    stranger: Stranger, guarded: Coordinator, exit_code: int, command: str, line: str
) -> None:
    (stranger.home / "garbage").write_bytes(b"\x00\xff\xfe{not a recording\n")
    (stranger.home / "token").write_text(f"{TOKEN}\n")
    (stranger.home / "typo.toml").write_text('"group.max.sise" = 3\n')
    (stranger.home / "typo.py").write_text(SHOPS.replace('"state.dir"', '"num.standby.replica"'))
    places = {"LOG": stranger.log("shops"), "HOME": str(stranger.home), "URL": guarded.url}
    for name, place in places.items():
        command, line = command.replace(name, place), line.replace(name, place)

    assert stranger.tries("assignor", *command.split()) == Ended(exit_code, "", f"{line}\n")
