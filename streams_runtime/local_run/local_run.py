"""Runs an application where it is written: for the first try, for an example, for a notebook, for a test.

    with LocalRun(app) as run:
        run.wait_until_caught_up()

The coordinator is `assignor serve`, in a process of its own on loopback, from `pip install 'assignor[coordinator]'`.
Instances run in threads of this process. State is where `state.dir` says; nothing else stays. For more than one
machine, start the coordinator yourself and use `assignor workers run` or `StreamsInstance`. Source: `KafkaStreams`,
which finds its leader among its own instances and needs no coordinator.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from assignor.errors import AssignorFault, InputError
from assignor.types import TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.states import InstanceState
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.application import Application, group_body
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.local_run.coordinator_process import LOOPBACK, CoordinatorProcess
from streams_runtime.logs.base import Log
from streams_runtime.logs.opening import kafka_servers, open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient

POLL_INTERVAL_S = 0.1
_AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
"""All instances are started together, by one process: no need to wait for more of them."""
_START_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 30.0
_ENDED = (InstanceState.NOT_RUNNING, InstanceState.ERROR)


class NotFinished(AssignorFault):
    """The application did not come far enough in time. The message says how far it came."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Committed offsets and end offsets, summed over the topics, and for the first topic alone."""

    done: int
    there: int
    first_done: int
    first_there: int

    @property
    def share(self) -> float:
        """The done share of the first topic, from 0 to 1."""
        return self.first_done / self.first_there if self.first_there else 0.0

    @property
    def is_complete(self) -> bool:
        return self.there > 0 and self.done == self.there


class ProgressMeter:
    """Measures the progress of an application by its commits: records done of records written, for chosen topics.

    `topics`: those that the application reads, with the one that feeds the others first.
    """

    def __init__(self, log: Log, application_id: str, topics: Sequence[str]) -> None:
        self._log = log
        self._application_id = application_id
        self._topics = tuple(topics)

    def now(self) -> Progress:
        """Reads the end offsets after the commits, so that records written by a commit never look complete."""
        known = self._log.topics()
        partitions = [
            [TopicPartition(topic, number) for number in range(known[topic].partitions)]
            for topic in self._topics
            if topic in known
        ]
        every = [partition for of_topic in partitions for partition in of_topic]
        committed = self._log.committed_offsets(self._application_id, every)
        ends = self._log.end_offsets(every)

        def done(of: Sequence[TopicPartition]) -> int:
            return sum(committed[each].offset for each in of if each in committed)

        first = partitions[0] if partitions else []
        return Progress(done(every), sum(ends.values()), done(first), sum(ends[each] for each in first))

    def wait(self, wanted: Callable[[Progress], bool], timeout_s: float, tell: Callable[[Progress], None]) -> Progress:
        """Wait until `wanted` holds. `tell` receives each progress that was read. Raises NotFinished."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            seen = self.now()
            tell(seen)
            if wanted(seen):
                return seen
            if time.monotonic() > deadline_s:
                raise NotFinished(f"only {seen.done} of {seen.there} records are done after {timeout_s:g} s")
            time.sleep(POLL_INTERVAL_S)


class LocalRun:
    """Starts when it is entered, and drains when it is left: all that was processed is committed.

    `instances`: each has `num.stream.threads` threads, and below `state.dir` a directory of its own. `coordinator`: the
    URL of one that runs already, or several, separated by commas; without it one is started, and ended, here. Raises
    InputError, LogError, StreamsRuntimeError, CoordinatorNotStarted.
    """

    def __init__(self, application: Application, *, instances: int = 1, coordinator: str | None = None) -> None:
        if instances < 1:
            raise InputError(f"must be at least 1, not {instances}", "instances")
        check_endpoint(application.configs, instances)
        if coordinator is None and find_spec("coordinator_api") is None:
            raise InputError("there is no coordinator in this environment: pip install 'assignor[coordinator]'", "")
        self.application = application
        self.instances: tuple[StreamsInstance, ...] = ()
        self.endpoints: tuple[str, ...] = ()
        """Where each instance answers queries. `GET {endpoint}/v1/stores` lists its stores.

        The host and port are those of `application.server`; without it, a free port on loopback.
        """
        self.coordinator_url = coordinator or ""
        self._count = instances
        self._log: Log | None = None
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        configs = self.application.configs
        servers = configs.bootstrap_servers
        with ExitStack() as opened:
            self._log = opened.enter_context(closing(open_log(servers, configs.log_properties)))
            self._check_topics(self._log)
            if not self.coordinator_url:
                # an error of the clean-up would hide the one that it comes of
                kept = tempfile.TemporaryDirectory(prefix="assignor-", ignore_cleanup_errors=True)
                directory = Path(opened.enter_context(kept))
                settings = {**_AT_ONCE, "cluster.bootstrap.servers": kafka_servers(servers) or servers}
                self.coordinator_url = opened.enter_context(CoordinatorProcess(directory, settings)).url
            client = opened.enter_context(closing(CoordinatorClient(self.coordinator_url)))
            client.declare(self.application.id, group_body(self.application))
            options = InstanceOptions(serve_at=configs.application_server or f"{LOOPBACK}:0")
            started = []
            for number in range(self._count):
                instance = StreamsInstance(self._of_instance(number), self.coordinator_url, options)
                opened.callback(instance.close, _CLOSE_TIMEOUT_S)
                instance.start()
                started.append(instance)
            self.instances = tuple(started)
            scheme = "http" if configs.endpoint_tls is None else "https"
            self.endpoints = tuple(f"{scheme}://{instance.endpoint}" for instance in started)
            self._closing = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def wait_until_running(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Until every instance runs all of its tasks. Raises StreamsRuntimeError."""
        for instance in self.instances:
            if not instance.wait_until_running(timeout_s):
                self._check()
                raise StreamsRuntimeError(f"{self.application.id} does not run after {timeout_s:g} s: {instance.state}")

    def wait_until_caught_up(
        self, timeout_s: float = _START_TIMEOUT_S, tell: Callable[[Progress], None] = lambda _progress: None
    ) -> Progress:
        """Until every record of every topic that the application reads, those in between included, is committed.

        `tell` receives each progress that was read. Raises StreamsRuntimeError when an instance ended, NotFinished.
        """

        def looked(progress: Progress) -> None:
            self._check()
            tell(progress)

        assert self._log is not None, "enter it first"
        topology = self.application.group_topology()
        topics = sorted({topic for each in topology.subtopologies for topic in each.source_topics})
        return ProgressMeter(self._log, self.application.id, topics).wait(_everything_is_done, timeout_s, looked)

    def _check_topics(self, log: Log) -> None:
        """Elsewhere a group waits for its topics. Here the application would seem to have caught up with nothing."""
        subtopologies = self.application.group_topology().subtopologies
        reads = {topic for each in subtopologies for topic in each.source_topics}
        writes = {topic for each in subtopologies for topic in each.sink_topics}
        made_by_the_group = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
        uses = dict.fromkeys(writes, "which the topology writes") | dict.fromkeys(reads, "which the topology reads")
        missing = [
            f"{topic}, {use}"
            for topic, use in sorted(uses.items())
            if topic not in made_by_the_group and not log.partitions_of(topic)
        ]
        if missing:
            raise InputError(f"the log has no topic {'; '.join(missing)}; create it first", self.application.id)

    def _of_instance(self, number: int) -> Application:
        configs = self.application.configs
        directory = Path(configs.state_dir) / f"instance-{number}"
        return replace(self.application, configs=replace(configs, state_dir=directory))

    def _check(self) -> None:
        for instance in self.instances:
            if instance.state in _ENDED:
                reasons = "; ".join(f"{type(error).__name__}: {error}" for error in instance.errors)
                raise StreamsRuntimeError(f"an instance of {self.application.id} ended: {reasons or instance.state}")


def check_endpoint(configs: StreamsConfig, instances: int) -> None:
    """Raises InputError when this many instances of one machine cannot all answer queries."""
    address = configs.application_server
    if instances > 1 and address is not None and not address.endswith(":0"):
        raise InputError(
            f"{instances} instances cannot all answer at {address}: give port 0, which takes a free one for each",
            "application.server",
        )


def _everything_is_done(progress: Progress) -> bool:
    return progress.done == progress.there
