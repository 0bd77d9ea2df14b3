"""A real coordinator with small applications that go wrong, and what it shows about each of them.

The sentences stand in one table of the documentation. A `…` in the table stands for any text.
"""

import re
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from bs4 import BeautifulSoup

from assignor.types import TopicPartition
from spark_jobs.workers.member_process import InstanceSettings
from streams_runtime import STRING, Application, StreamsBuilder, StreamsInstance, Topology
from streams_runtime.instance.application import group_body
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.logs.base import Log, NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests import warm_program
from tests.acceptance.instance_processes import InstanceProcess
from tests.coordinator_api.service_process import clean_environment
from tests.docs.pages import read
from tests.waiting import wait_until

PAGE = "docs/how-to/find-out-what-is-wrong.md"
PARTITIONS = 2
CLOSE_TIMEOUT_S = 30.0
SHOWN_WITHIN_S = 10.0
"""What is wrong is shown within this time, from the first sign of it that the coordinator gets."""

_ROW = re.compile(
    r"^\| (?P<fault>[^|]+) \| `(?P<code>[A-Z_]+)` \| (?P<sentence>[^|]+) \| (?P<action>[^|]+) \|$", re.MULTILINE
)


class Row(NamedTuple):
    """One row of the table: the fault, the code of its reason, the sentence, and what to do."""

    fault: str
    code: str
    sentence: str
    action: str


def rows() -> dict[str, Row]:
    return {found["fault"]: Row(*found.groups()) for found in _ROW.finditer(read(PAGE))}


def plain(text: str) -> str:
    """Without spaces and backquotes, because the terminal and the page break and mark the words in their own ways."""
    return "".join(text.split()).replace("`", "")


def pattern_of(cell: str) -> re.Pattern[str]:
    return re.compile(".+?".join(re.escape(plain(part)) for part in cell.split("…")))


def passed_on(topic: str, function: Callable[[str], object] = str) -> Topology:
    """The values of `topic`, as `function` makes them."""
    builder = StreamsBuilder()
    values = builder.stream(topic, STRING, STRING).map_values(lambda value: str(function(value)))
    values.to(f"{topic}-out", key_serde=STRING, value_serde=STRING)
    return builder.build()


@dataclass(eq=False)
class Stage:
    """Applications on one coordinator and one log. `url`: of the coordinator. `servers`: of the log. `token`: an
    admin's, if the coordinator requires tokens.
    """

    url: str
    servers: str
    directory: Path
    token: str | None = None
    log: Log = field(init=False)
    client: CoordinatorClient = field(init=False)

    def __post_init__(self) -> None:
        self._closing = ExitStack()
        self.log = open_log(self.servers)
        self._closing.callback(self.log.close)
        self.client = self._closing.enter_context(CoordinatorClient(self.url, token=self.token))
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        self.http = self._closing.enter_context(
            httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=CLOSE_TIMEOUT_S)
        )

    def close(self) -> None:
        self._closing.close()

    def application(self, name: str, topology: Topology, **configs: object) -> Application:
        """Declared, with the topics `<name>` and `<name>-out`. `configs`: dotted names with underscores for dots."""
        application = self.undeclared(name, topology, **configs)
        self.create(name, f"{name}-out")
        self.client.declare(name, group_body(application))
        return application

    def undeclared(self, name: str, topology: Topology, **configs: object) -> Application:
        named = {
            "application.id": name,
            "bootstrap.servers": self.servers,
            "state.dir": str(self.directory / name),
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
            "commit.interval.ms": 100,
            **{key.replace("_", "."): value for key, value in configs.items()},
        }
        return Application(topology, named)

    def create(self, *topics: str, partitions: int = PARTITIONS) -> None:
        self.log.create_topics(NewTopic(topic, partitions, {"retention.ms": "-1"}) for topic in topics)

    def feed(self, topic: str, values: Iterable[bytes], timestamp_ms: int | None = None, partition: int = 0) -> None:
        producer = self.log.producer()
        at_ms = round(time.time() * 1_000) if timestamp_ms is None else timestamp_ms
        for value in values:
            producer.send(TopicPartition(topic, partition), b"a", value, at_ms)
        producer.flush()
        producer.close()

    def start(
        self, application: Application, options: InstanceOptions | None = None, *, paused: bool = False
    ) -> StreamsInstance:
        """An instance in this process, which is closed with the stage."""
        instance = StreamsInstance(application, self.url, options)
        self._closing.callback(instance.close, CLOSE_TIMEOUT_S)
        if paused:
            instance.pause()
        instance.start()
        return instance

    def start_process(self, application: Application, token: str | None = None) -> InstanceProcess:
        """An instance in a process of its own, which is killed with the stage."""
        process = InstanceProcess(InstanceSettings(application, self.url, threads=1, token=token), 0)
        self._closing.callback(process.end)
        return process

    def group(self, name: str) -> dict[str, Any]:
        answered = self.http.get(f"/v1/groups/{name}")
        answered.raise_for_status()
        group: dict[str, Any] = answered.json()
        return group

    def wait_until_runs(self, name: str, members: int = 1) -> None:
        """Until the group is stable with this number of members, and an active task of each member runs."""

        def runs() -> bool:
            group = self.group(name)
            active = [copy for copy in group["tasks"] if copy["role"] == "active"]
            is_running = all(copy["lag"] in (None, -2) for copy in active)
            fetched = all(each["fetched"] for each in group["members"])
            is_full = len(group["members"]) == members and active and fetched
            return bool(group["state"] == "Stable" and is_full and is_running)

        wait_until(runs, lambda: self.group(name))

    def reason(self, name: str, row: Row, within_s: float = SHOWN_WITHIN_S) -> dict[str, Any]:
        """The reason of the row, as soon as the group has it with its sentence and with what to do."""
        sentence, action = pattern_of(row.sentence), pattern_of(row.action)

        def found() -> dict[str, Any] | None:
            for each in self.group(name)["health"]["reasons"]:
                if each["code"] == row.code and sentence.fullmatch(plain(each["text"])):
                    return each if action.fullmatch(plain(each["action"] or "")) else None
            return None

        return wait_until(found, lambda: (row, self.group(name)["health"]), within_s) or {}

    def assert_shown(self, name: str, row: Row, within_s: float = SHOWN_WITHIN_S) -> dict[str, Any]:
        """The sentence stands in the list, in the description, on both pages and in the metrics. Returns the reason."""
        reason = self.reason(name, row, within_s)
        sentence, action = pattern_of(row.sentence), pattern_of(row.action)
        described = plain(self._command("describe", name))
        assert sentence.search(described), (row, described)
        assert action.search(described), (row, described)
        listed = plain(next(line for line in self._command("list").splitlines() if line.startswith(f"{name} ")))
        assert sentence.search(listed), (row, listed)
        for page, element in (("/ui/groups", f"#group-{name}"), (f"/ui/groups/{name}", ".reasons")):
            # the group that a page shows may be a second old
            is_shown = partial(self._is_on, page, element, sentence, action)
            wait_until(is_shown, f"{row} on {page}", SHOWN_WITHIN_S)
        metrics = self.http.get("/metrics").text
        assert f'assignor_groups_by_reason{{reason="{row.code}"}}' in metrics
        assert f'assignor_group_health_reason{{group="{name}",reason="{row.code}"}}' in metrics
        return reason

    def _is_on(self, page: str, element: str, *patterns: re.Pattern[str]) -> bool:
        found = BeautifulSoup(self.http.get(page).text, "html.parser").select_one(element)
        text = "" if found is None else plain(found.get_text())
        return all(pattern.search(text) for pattern in patterns)

    def _command(self, *arguments: str) -> str:
        environment = clean_environment({} if self.token is None else {"ASSIGNOR_AUTH_TOKEN": self.token})
        command = ("groups", *arguments, "--coordinator", self.url, "-o", "wide")
        ended = warm_program.run(command, cwd=self.directory, environment=environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout
