"""Runs an application on one machine with its own coordinator, for a first try, a notebook or a test. Example:

    with LocalRun(app) as run:
        run.wait_until_caught_up()

The coordinator is `assignor serve` in a child process, with an address on loopback. The coordinator needs `pip install
'assignor[coordinator]'`. Instances run in threads of this process. After the run, the directory `state.dir` contains
the application's state. Other files are deleted after the run. For several machines, start a coordinator yourself, and
use `assignor workers run` or `StreamsInstance`. Source: `KafkaStreams`, which needs no separate coordinator, because
its leader is one of its instances.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from assignor.errors import AssignorFault, InputError
from assignor.topology.source_patterns import expanded
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
"""The settings of the coordinator. The first rebalance does not wait for more members, because one process starts all
instances at the same time.
"""
_START_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 30.0
_ENDED = (InstanceState.NOT_RUNNING, InstanceState.ERROR)


class NotFinished(AssignorFault):
    """The application did not process all records within the time-out. The error message states the application's
    progress.
    """


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an application. The field `done` is the sum of all committed offsets. The field `there` is the
    sum of all end offsets. The field `first_done` is the sum of the first topic's committed offsets. The field
    `first_there` is the sum of the first topic's end offsets.
    """

    done: int
    there: int
    first_done: int
    first_there: int

    @property
    def share(self) -> float:
        """The committed fraction of the first topic's records, from 0 to 1."""
        return self.first_done / self.first_there if self.first_there else 0.0

    @property
    def is_complete(self) -> bool:
        return self.there > 0 and self.done == self.there


class ProgressMeter:
    """Measures the progress of an application: compares its committed offsets with the end offsets of its topics.

    `topics`: the topics that the application reads. The first topic has to be an input topic, because `Progress.share`
    shows the progress in the first topic.
    """

    def __init__(self, log: Log, application_id: str, topics: Sequence[str]) -> None:
        self._log = log
        self._application_id = application_id
        self._topics = tuple(topics)

    def now(self) -> Progress:
        """Returns the present progress.

        The committed offsets are read before the end offsets. The application may commit between the two reads, or new
        records may arrive. So the result may be lower than the real progress, but is never higher.
        """
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

    def wait(
        self, wanted: Callable[[Progress], bool], timeout_s: float, on_progress: Callable[[Progress], None]
    ) -> Progress:
        """Measures the progress until the function `wanted` returns True for the measured progress. `on_progress`: a
        function that is called after each measurement. Raises NotFinished.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            seen = self.now()
            on_progress(seen)
            if wanted(seen):
                return seen
            if time.monotonic() > deadline_s:
                raise NotFinished(f"only {seen.done} of {seen.there} records are done after {timeout_s:g} s")
            time.sleep(POLL_INTERVAL_S)


class LocalRun:
    """A context manager that runs an application. A `LocalRun` starts the application on entry. On exit, a `LocalRun`
    commits all processed records and stops the application.

    `instances`: the number of instances. Each instance has `num.stream.threads` stream threads, and its own directory
    below `state.dir`. `coordinator`: the URL of a running coordinator, or several URLs separated by commas. If
    `coordinator` is None, a coordinator is started on entry and stopped on exit. Raises InputError, LogError,
    StreamsRuntimeError, CoordinatorNotStarted.
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
        """The addresses at which the instances answer queries. `GET {endpoint}/v1/stores` lists the stores of one
        instance.

        The config `application.server` sets the address. If this config is not given, each instance uses a free port on
        loopback.
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
                # an error during the deletion of the directory is ignored, because it would hide the error that ended
                # the run
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

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def wait_until_running(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Waits until every instance runs all its tasks. Raises StreamsRuntimeError."""
        for instance in self.instances:
            if not instance.wait_until_running(timeout_s):
                self._check()
                raise StreamsRuntimeError(f"{self.application.id} does not run after {timeout_s:g} s: {instance.state}")

    def wait_until_caught_up(
        self, timeout_s: float = _START_TIMEOUT_S, on_progress: Callable[[Progress], None] = lambda _progress: None
    ) -> Progress:
        """Waits until the application has committed all records of all topics that it reads, including internal topics.

        `on_progress`: a function that is called after each measurement of the progress. Raises StreamsRuntimeError if
        an instance has ended, and NotFinished after the time-out.
        """

        def looked(progress: Progress) -> None:
            self._check()
            on_progress(progress)

        assert self._log is not None, "enter it first"
        now = expanded(self.application.group_topology(), self.application.id, self._log.topics())
        topics = sorted(now.topology.source_topics)
        return ProgressMeter(self._log, self.application.id, topics).wait(
            lambda now: now.done == now.there, timeout_s, looked
        )

    def _check_topics(self, log: Log) -> None:
        """Raises InputError if topics are missing. Without this check, the group would wait until the topics exist. It
        would also look as if all records were processed, because a missing topic has no records.
        """
        subtopologies = self.application.group_topology().subtopologies
        reads = {topic for each in subtopologies for topic in each.source_topics}.union(
            self.application.global_topics()
        )
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
    """Raises InputError if the configs give several instances the same port for queries."""
    address = configs.application_server
    if instances > 1 and address is not None and not address.endswith(":0"):
        raise InputError(
            f"{instances} instances cannot all answer at {address}: give port 0, which takes a free one for each",
            "application.server",
        )
