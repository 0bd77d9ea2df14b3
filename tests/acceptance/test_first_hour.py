"""What a stranger does in the first hour, from the built wheel in an empty directory: nothing comes from the checkout.

The tests of the story follow each other, and each goes on where the one before it ended. The errors stand beside it,
each with the line that it gives.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep, time

import httpx
import pytest

from tests.package.background import Background, children, kill
from tests.package.distributions import build
from tests.package.environments import FreshEnvironment, fresh_environment, interpreter

APPLICATION = """
from streams_runtime import LONG, STRING, Application, StreamsBuilder

builder = StreamsBuilder()
(
    builder.stream("lines", STRING, STRING)
    .flat_map_values(str.split)
    .group_by(lambda _key, word: word, key_serde=STRING, value_serde=STRING)
    .count(store="counts")
    .to_stream()
    .to("word-counts", key_serde=STRING, value_serde=LONG)
)
app = Application(
    builder.build(),
    {
        "application.id": "words",
        "bootstrap.servers": "LOG",
        "processing.guarantee": "exactly_once_v2",
        "num.standby.replicas": 1,
    },
)
"""

RECORDS = 100_000
OLD_RECORDS = 20_000
THIRTEEN_MONTHS_MS = 400 * 24 * 3_600_000
PARTITIONS = 4
WORKERS = 2
RESULT_WITHIN_S = 300.0
EXECUTOR = "CoarseGrainedExecutorBackend"

pytestmark = [pytest.mark.long, pytest.mark.spark]


class Stranger:
    """An environment with the wheel and all extras, an empty directory, and what was started there."""

    def __init__(self, environment: FreshEnvironment, logs: Path, running: ExitStack) -> None:
        self.environment = environment
        self.home = environment.home
        self.log = f"embedded:{self.home}/log"
        self._logs = logs
        self._running = running
        self.coordinator_url = ""
        self.master_url = ""
        self.spark_workers: list[Background] = []

    def start(self, name: str, *command: str, **variables: str) -> Background:
        log = self._logs / f"{name}.log"
        return self._running.enter_context(Background(self.environment, *command, log=log, **variables))

    def run(self, *command: str, stdin: str | None = None) -> str:
        """What it printed. It has to succeed."""
        ended = self.environment.run(*command, stdin=stdin)
        assert ended.returncode == 0, f"{command}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def on_log(self, *command: str) -> str:
        return self.run("assignor", *command, "--bootstrap-server", self.log)

    def refused(self, *command: str, stdin: str | None = None) -> tuple[int, str]:
        """Exit code, and all that a command without an answer said."""
        ended = self.environment.run(*command, stdin=stdin)
        assert ended.stdout == ""
        return ended.returncode, ended.stderr

    def start_coordinator(self) -> None:
        serve = ["serve", "--port", "0", "--cluster-bootstrap-servers", self.log]
        self.coordinator_url = self.start("coordinator", "assignor", *serve).wait_for(r"(http://127\.0\.0\.1:\d+)")

    def start_spark(self) -> None:
        home = self.run("python", "-c", "import pyspark; print(pyspark.__path__[0])").strip()
        spark_class, loopback = f"{home}/bin/spark-class", ["--host", "127.0.0.1", "--webui-port", "0"]
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": home}
        deploy = "org.apache.spark.deploy"
        master = self.start("master", spark_class, f"{deploy}.master.Master", *loopback, "--port", "0", **environment)
        self.master_url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        for number in range(WORKERS):
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._logs / f"work-{number}")]
            command = [f"{deploy}.worker.Worker", *loopback, *size, self.master_url]
            worker = self.start(f"worker-{number}", spark_class, *command, **environment)
            worker.wait_for(r"Successfully registered with master (\S+)")
            self.spark_workers.append(worker)

    def start_application(self, name: str) -> Background:
        command = ["workers", "run", "words:app", "--instances", str(WORKERS), "--coordinator", self.coordinator_url]
        spark = ["--master", self.master_url, "--conf", "spark.executor.memory=512m"]
        return self.start(name, "assignor", *command, *spark)

    def executors(self) -> list[int]:
        return [
            pid
            for worker in self.spark_workers
            for pid, command in children(worker.process.pid).items()
            if EXECUTOR in command
        ]

    def count_of(self, topic: str) -> int:
        """How many records it has."""
        listed = json.loads(self.on_log("topics", "list", "--format", "json"))
        counts: dict[str, int] = {each["topic"]: each["records"] for each in listed["topics"]}
        return counts[topic]

    def wait_for_results(self, application: Background, at_least: int) -> None:
        deadline_s = monotonic() + RESULT_WITHIN_S
        while self.count_of("word-counts") < at_least:
            assert application.process.poll() is None, application.said
            assert monotonic() < deadline_s, application.said
            sleep(1.0)

    def results(self) -> dict[str, list[int]]:
        """Every word with each of its counts, in order."""
        values = ["--value-deserializer", "long", "--format", "json"]
        printed = self.on_log("consume", "word-counts", "--from-beginning", "--until-end", *values)
        found: dict[str, list[int]] = {}
        for record in map(json.loads, printed.splitlines()):
            found.setdefault(record["key"], []).append(record["value"])
        return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture(scope="module")
def stranger(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    extras = "all" if shutil.which("java") else "all,java"
    directory = tmp_path_factory.mktemp("stranger")
    environment = fresh_environment(directory, any_python(), f"assignor[{extras}] @ {wheel.as_uri()}")
    (environment.home / "words.py").write_text(APPLICATION.replace("LOG", f"embedded:{environment.home}/log"))
    with ExitStack() as running:
        running.callback(environment.remove)
        yield Stranger(environment, directory, running)


def any_python() -> Path:
    return next(found for version in ("3.12", "3.13", "3.11") if (found := interpreter(version)))


def lines(count: int, timestamp_ms: int) -> tuple[str, Counter[str]]:
    """Records as `assignor produce --json` takes them, and how often each word is in them."""
    words = [f"word-{number * number % 997}" for number in range(count)]
    records = ({"key": str(n % 50), "value": word, "timestamp": timestamp_ms + n} for n, word in enumerate(words))
    return "".join(f"{json.dumps(record)}\n" for record in records), Counter(words)


class TestStory:
    """In this order."""

    def test_should_be_installed_without_the_checkout(self, stranger: Stranger) -> None:
        where = stranger.run("python", "-c", "import assignor, coordinator_api; print(assignor.__file__)")

        assert Path(where.strip()).is_relative_to(stranger.environment.bin.parent)
        assert re.match(r"assignor \d+\.\d+\.\d+", stranger.run("assignor", "--version"))

    def test_should_take_records_of_today_and_of_thirteen_months_ago(self, stranger: Stranger) -> None:
        now_ms = int(time() * 1_000)
        old, _ = lines(OLD_RECORDS, now_ms - THIRTEEN_MONTHS_MS)
        new, _ = lines(RECORDS - OLD_RECORDS, now_ms - RECORDS)

        stranger.on_log("topics", "create", "lines", "word-counts", "--partitions", str(PARTITIONS))
        for records in (old, new):
            (stranger.home / "records.jsonl").write_text(records)
            stranger.on_log("produce", "lines", "records.jsonl", "--json")

        (row,) = [line for line in stranger.on_log("topics", "list").splitlines() if line.startswith("lines ")]
        assert row.split() == ["lines", str(PARTITIONS), str(RECORDS)]

    def test_should_count_every_word_although_an_executor_is_killed(self, stranger: Stranger) -> None:
        stranger.start_coordinator()
        stranger.start_spark()
        with stranger.start_application("first-run") as application:
            stranger.wait_for_results(application, at_least=1)
            other_topology_is_refused(stranger)
            victim, *_ = stranger.executors()
            kill(victim)
            stranger.wait_for_results(application, at_least=RECORDS)
            assert stranger.results() == every_count()
            application.interrupt()
            assert "Traceback" not in application.said

    def test_should_count_again_after_a_reset(self, stranger: Stranger) -> None:
        reset = ["reset", "--application-id", "words", "--coordinator", stranger.coordinator_url]
        assert "nothing is changed" in stranger.on_log(*reset)
        stranger.on_log(*reset, "--execute")
        stranger.on_log("topics", "delete", "word-counts")
        stranger.on_log("topics", "create", "word-counts", "--partitions", str(PARTITIONS))

        with stranger.start_application("second-run") as application:
            stranger.wait_for_results(application, at_least=RECORDS)
            assert stranger.results() == every_count()
            application.interrupt()


class TestErrors:
    """One line that says what, where and what to do. 1: the answer is no. 2: the command or its input is wrong."""

    @pytest.fixture(scope="class", autouse=True)
    def place(self, stranger: Stranger) -> None:
        """What the story leaves, also when it was not told before."""
        if not stranger.coordinator_url:
            stranger.start_coordinator()
        topics = ["lines", "word-counts", "--partitions", str(PARTITIONS)]
        stranger.on_log("topics", "create", *topics, "--if-not-exists")
        stranger.run("assignor", "produce", "lines", "--bootstrap-server", stranger.log, stdin="word-1\n" * 10_000)

    @pytest.fixture(scope="class")
    def base(self, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshEnvironment]:
        environment = fresh_environment(tmp_path_factory.mktemp("base"), any_python(), f"assignor @ {wheel.as_uri()}")
        yield environment
        environment.remove()

    @pytest.mark.parametrize(
        "command, extra",
        [
            ("serve", "coordinator"),
            ("groups list", "coordinator"),
            ("workers run words:app", "spark"),
            ("replay recordings --output out", "batch"),
            ("record --group orders", "kafka,streams"),
            ("reset --application-id words --bootstrap-server embedded:log", "streams"),
        ],
    )
    def test_should_say_which_extra_a_command_needs(self, base: FreshEnvironment, command: str, extra: str) -> None:
        ended = base.run("assignor", *command.split())

        line = rf"error: assignor [a-z]+ needs an extra that is not installed: pip install 'assignor\[{extra}\]'\n"
        assert re.fullmatch(line, ended.stderr)
        assert (ended.returncode, ended.stdout) == (2, "")

    def test_should_name_the_extra_for_kafka(self, base: FreshEnvironment) -> None:
        with socket.create_server(("127.0.0.1", 0)) as anybody:
            address = f"127.0.0.1:{anybody.getsockname()[1]}"
            ended = base.run("assignor", "topics", "list", "--bootstrap-server", address)

        assert "its client is not installed: pip install 'assignor[kafka]'" in ended.stderr
        assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)

    @pytest.mark.parametrize(
        "exit_code, command, line",
        [
            (
                1,
                "consume word-count --bootstrap-server LOG",
                "error: there is no topic word-count at LOG; did you mean word-counts? "
                "If not, make it with `assignor topics create word-count`",
            ),
            (
                1,
                "topics create lines --bootstrap-server LOG",
                "error: topic lines exists, with 4 partitions; --if-not-exists leaves it as it is",
            ),
            (
                2,
                "topics list --bootstrap-server embedded:HOME/nowhere",
                "error: there is no directory HOME/nowhere; `assignor topics create` makes it, and a log in it",
            ),
            (
                2,
                "groups list --coordinator http://127.0.0.1:1",
                "error: no coordinator answers at http://127.0.0.1:1 ([Errno 111] Connection refused): "
                "start one with `assignor serve`, or name it by --coordinator",
            ),
            (2, "explain garbage", "error: garbage:1: is not UTF-8 text: invalid start byte at byte 1"),
            (
                2,
                "workers run nowhere:app",
                "error: nowhere:app: there is no module nowhere in HOME or on the path",
            ),
            (2, "serve --port 80800", "error: port: Input should be less than or equal to 65535, not '80800'"),
        ],
    )
    def test_should_say_in_one_line_what_to_do(
        self, stranger: Stranger, exit_code: int, command: str, line: str
    ) -> None:
        (stranger.home / "garbage").write_bytes(b"\x00\xff\xfe{not a recording\n")
        places = {"LOG": stranger.log, "HOME": str(stranger.home)}
        for name, place in places.items():
            command, line = command.replace(name, place), line.replace(name, place)

        assert stranger.refused("assignor", *command.split()) == (exit_code, f"{line}\n")

    def test_should_end_quietly_when_nobody_reads_on(self, stranger: Stranger) -> None:
        consume = f"assignor consume lines --from-beginning --until-end --bootstrap-server {stranger.log}"

        ended = stranger.environment.run("sh", "-c", f"{consume} | head -1")

        assert ended.stdout.startswith("word-")
        assert "Traceback" not in ended.stderr
        assert "BrokenPipe" not in ended.stderr

    @pytest.mark.parametrize("path", ["/", "/docs", "/version", "/openapi.json"])
    def test_should_answer_a_browser(self, stranger: Stranger, path: str) -> None:
        answer = httpx.get(f"{stranger.coordinator_url}{path}", trust_env=False)

        assert answer.status_code == 200


def other_topology_is_refused(stranger: Stranger) -> None:
    """While the first one runs, which goes on."""
    (stranger.home / "other.py").write_text((stranger.home / "words.py").read_text().replace('"lines"', '"others"'))

    exit_code, said = stranger.refused(
        "assignor", "workers", "run", "other:app", "--master", "local[1]", "--coordinator", stranger.coordinator_url
    )

    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert exit_code in (1, 2), said
    assert "which run another topology: subtopology 0 reads lines, in the new one others" in line, said
    assert "give it another application.id" in line, said
    assert "Traceback" not in said


def every_count() -> dict[str, list[int]]:
    """Each word counted from 1 to its number: none is missing, and none is there twice."""
    words = lines(OLD_RECORDS, 0)[1] + lines(RECORDS - OLD_RECORDS, 0)[1]
    return {word: list(range(1, count + 1)) for word, count in words.items()}
