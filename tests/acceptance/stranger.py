"""Somebody who has never seen the checkout: an environment with the built wheel, an empty directory, what he started.

Everything he types is a command of his environment, and everything he knows is what it prints.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tests.package.background import Background
from tests.package.environments import FreshEnvironment
from tests.processes import children
from tests.spark_jobs.quick_java import OPTIONS

WITHIN_S = 300.0
EXECUTOR = "CoarseGrainedExecutorBackend"
_LOOKS_EVERY_S = 0.2
_DEPLOY = "org.apache.spark.deploy"
_LOOPBACK = ("--host", "127.0.0.1", "--webui-port", "0")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    exit_code: int
    printed: str
    said: str

    @classmethod
    def of(cls, command: subprocess.CompletedProcess[str]) -> Ended:
        return cls(command.returncode, command.stdout, command.stderr)


class Stranger:
    """`running`: ends what he leaves running. `without_extras`: how commands ended before extras were installed."""

    def __init__(self, environment: FreshEnvironment, running: ExitStack, without_extras: dict[str, Ended]) -> None:
        self.environment = environment
        self.home = environment.home
        self.without_extras = without_extras
        self._running = running
        self._started = 0

    def log(self, name: str = "log") -> str:
        return f"embedded:{self.home / name}"

    def start(self, *command: str, **variables: str) -> Background:
        self._started += 1
        said = self.home.parent / f"{self._started}-{Path(command[0]).name}.txt"
        return self._running.enter_context(Background(self.environment, *command, log=said, **OPTIONS, **variables))

    def tries(self, *command: str, stdin: str | None = None, **variables: str) -> Ended:
        return Ended.of(self.environment.run(*command, stdin=stdin, variables=variables))

    def runs(self, *command: str, stdin: str | None = None, **variables: str) -> str:
        """What it printed. It has to succeed."""
        ended = self.tries(*command, stdin=stdin, **variables)
        assert ended.exit_code == 0, f"{command}: {ended}"
        return ended.printed

    def on_log(self, *command: str, log: str = "log", stdin: str | None = None) -> str:
        return self.runs("assignor", *command, "--bootstrap-server", self.log(log), stdin=stdin)

    def records_of(self, *topics: str, log: str = "log") -> list[int]:
        """How many each has."""
        listed = json.loads(self.on_log("topics", "list", "--format", "json", log=log))
        counts: dict[str, int] = {each["topic"]: each["records"] for each in listed["topics"]}
        return [counts[topic] for topic in topics]

    def starts_coordinator(self, *logs: str, database: str, **variables: str) -> Coordinator:
        clusters = [word for log in logs for word in ("--cluster-bootstrap-servers", self.log(log))]
        database_url = f"sqlite:///{self.home / database}.sqlite3"
        serving = self.start("assignor", "serve", "--port", "0", "--database-url", database_url, *clusters, **variables)
        return Coordinator(self, serving, serving.wait_for(r"(http://127\.0\.0\.1:\d+)"), variables)

    def starts_spark(self, workers: int) -> Spark:
        """A standalone master and its workers, each of one core."""
        home = self.runs("python", "-c", "import pyspark; print(pyspark.__path__[0])").strip()
        spark_class, variables = f"{home}/bin/spark-class", {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": home}
        master = self.start(spark_class, f"{_DEPLOY}.master.Master", *_LOOPBACK, "--port", "0", **variables)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")
        size = ["--cores", "1", "--memory", "1g"]
        started = [
            self.start(
                spark_class,
                f"{_DEPLOY}.worker.Worker",
                *_LOOPBACK,
                *size,
                *("--work-dir", str(self.home.parent / f"work-{number}")),
                url,
                **variables,
            )
            for number in range(workers)
        ]
        for worker in started:
            worker.wait_for(r"(Successfully registered with master)")
        return Spark(url, started)

    def consumes(self, application: Background, topic: str, count: int) -> list[dict[str, Any]]:
        """So many records from the beginning on, as soon as they are there. The application has to run until then."""
        values = ["--value-deserializer", "long", "--format", "json"]
        wanted = ["--from-beginning", "--max-messages", str(count), *values, "--bootstrap-server", self.log()]
        with self.start("assignor", "consume", topic, *wanted) as consumer:
            deadline_s = monotonic() + WITHIN_S
            while consumer.process.poll() is None:
                assert application.process.poll() is None, application.said
                assert monotonic() < deadline_s, application.said
                sleep(_LOOKS_EVERY_S)
        assert consumer.process.returncode == 0, consumer.said
        return [json.loads(line) for line in consumer.said.splitlines() if line.startswith("{")]

    def leaves(self) -> None:
        """The installed gigabyte goes. What was said stays, for whoever looks at a failure."""
        self.environment.remove()
        shutil.rmtree(self.environment.scratch, ignore_errors=True)


@dataclass(frozen=True)
class Coordinator:
    """`variables`: of its environment, and of all who call it."""

    stranger: Stranger
    serving: Background
    url: str
    variables: dict[str, str]

    def starts_application(self, reference: str, *more: str) -> Background:
        return self.stranger.start(*self._command("workers", "run", reference, *more), **self.variables)

    def tries(self, *command: str) -> Ended:
        return self.stranger.tries(*self._command(*command), **self.variables)

    def runs(self, *command: str) -> str:
        return self.stranger.runs(*self._command(*command), **self.variables)

    def _command(self, *command: str) -> list[str]:
        return ["assignor", *command, "--coordinator", self.url]


@dataclass(frozen=True)
class Spark:
    master: str
    workers: list[Background]

    def executors(self) -> list[int]:
        """Their process ids."""
        return [
            pid
            for worker in self.workers
            for pid, command in children(worker.process.pid).items()
            if EXECUTOR in command
        ]
