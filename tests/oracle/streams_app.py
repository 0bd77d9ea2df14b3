"""One instance of our Java Kafka Streams application: a JVM of its own that is told what to do and says what it did.

What it says on stdout are events, one JSON object a line (see StreamsApp.java); every wait here is for one of them.
What Kafka Streams logs is in `directory/stderr.log`: at INFO what its assignor and its group membership say,
else warnings.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.known import known
from tests.oracle import jars

SOURCE = jars.HERE / "StreamsApp.java"
LONGEST_WAIT_S = 60.0

_TOLD_IN_LOG = (
    "org.apache.kafka.streams.processor.internals.assignment",
    "org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor",
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator",  # why it joins again
)
_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",  # what the JVM itself has to say would stand among the events
)
_DEFAULT_CONFIGS = {
    "num.stream.threads": "1",
    "statestore.cache.max.bytes": "0",
    "commit.interval.ms": "100",
    "poll.ms": "50",
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "200",
}
NO_CONFIGS: Mapping[str, str] = {}
"""As `defaults`: Kafka Streams' own."""
_END_OF_STDERR = 4000

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InstanceTasks:
    """Task ids of all threads, sorted; a warm-up is a standby to the one who holds it."""

    active: tuple[str, ...]
    standby: tuple[str, ...]


class StreamsInstance:
    """`directory`: its files, its state among them, kept over restarts. `configs`: of Kafka Streams, and `app.…`.

    `defaults`: what the tests set where `configs` say nothing: short times and no cache. `process_id`: to have instead
    of one that is drawn, so that placements, which go by its order, come out the same. `release`: of Kafka Streams.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        directory: Path,
        *,
        topology: str = "words",
        configs: Mapping[str, str] | None = None,
        process_id: str | None = None,
        defaults: Mapping[str, str] = _DEFAULT_CONFIGS,
        release: str = jars.DEFAULT_RELEASE,
    ) -> None:
        self.application_id = application_id
        self.directory = directory
        self.events: list[Event] = []
        """Since the last start; appended by the thread that reads them."""
        self._event_arrived = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        state = directory / "state"
        (state / application_id).mkdir(parents=True, exist_ok=True)
        if process_id is not None:
            file = state / application_id / "kafka-streams-process-metadata"
            file.write_text(json.dumps({"processId": process_id}))
        self._release = release
        self._configs = {
            "application.id": application_id,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(state),
            "app.topology": topology,
            **defaults,
            **(configs or {}),
        }

    @property
    def pid(self) -> int:
        return known(self._process).pid

    @property
    def state(self) -> str:
        """The last one it told; empty before the first."""
        states = [event["state"] for event in list(self.events) if event["event"] == "state"]
        return states[-1] if states else ""

    @property
    def exceptions(self) -> list[Event]:
        return [event for event in list(self.events) if event["event"] == "exception"]

    def start(self) -> StreamsInstance:
        """Start its JVM, on the state it had; events begin anew. Does not wait until it has joined."""
        assert self._process is None, "the instance runs already"
        properties = self.directory / "instance.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._configs.items()))
        events: list[Event] = []
        self.events = events
        with (self.directory / "stderr.log").open("ab") as stderr:
            self._process = subprocess.Popen(
                [*_command(self.directory, self._release), str(properties)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                bufsize=1,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process, events), daemon=True)
        self._reader.start()
        return self

    def tasks(self) -> InstanceTasks:
        """As last told; nothing before the first."""
        told = [event for event in list(self.events) if event["event"] == "tasks"]
        threads = told[-1]["threads"].values() if told else ()
        active = sorted(task for thread in threads for task in thread["active"])
        return InstanceTasks(tuple(active), tuple(sorted(task for thread in threads for task in thread["standby"])))

    def wait_for_state(self, state: str, timeout_s: float = LONGEST_WAIT_S) -> None:
        """Until it is in this state; `RUNNING`: every thread has restored its active tasks."""
        self.wait_until(lambda: self.state == state, f"state {state}", timeout_s)

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float = LONGEST_WAIT_S) -> None:
        """Look again after each event. Raises AssertionError, with the end of its log, when time is up or it died."""
        deadline = time.monotonic() + timeout_s
        with self._event_arrived:
            while not holds():
                left = deadline - time.monotonic()
                assert left > 0, f"{self._name()}: no {what} within {timeout_s:g} s; {self.last_words()}"
                assert self._alive(), f"{self._name()}: ended before {what}; {self.last_words()}"
                self._event_arrived.wait(min(left, 0.5))

    def lags(self, timeout_s: float = LONGEST_WAIT_S) -> dict[str, dict[int, int]]:
        """Store to partition to records behind its changelog, of all its tasks; asked for now."""
        seen = len(self.events)
        self._send_command("lags")
        self.wait_until(lambda: any(event["event"] == "lags" for event in self.events[seen:]), "lags", timeout_s)
        answer = next(event for event in self.events[seen:] if event["event"] == "lags")
        return {
            store: {int(partition): lag for partition, lag in lags.items()} for store, lags in answer["stores"].items()
        }

    def add_thread(self) -> None:
        """One thread more, which joins as a member of its own; lost with the next start."""
        self._send_command("add-thread")

    def close(self) -> None:
        """As `KafkaStreams.close()`: it ends, and stays a member of its group until its session times out."""
        self._end("close")

    def leave(self) -> None:
        """It ends, and leaves its group, also when it is a static member."""
        self._end("leave")

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._ended()

    def last_words(self) -> str:
        """Its last events and the end of its log."""
        events = "\n".join(json.dumps(event) for event in list(self.events)[-12:])
        return f"events:\n{events}\nlog:\n{self.log()[-_END_OF_STDERR:]}"

    def log(self) -> str:
        """All that was logged since the first start."""
        return (self.directory / "stderr.log").read_text(errors="replace")

    def _read(self, process: subprocess.Popen[str], events: list[Event]) -> None:
        for line in known(process.stdout):
            event = json.loads(line)
            with self._event_arrived:
                events.append(event)
                self._event_arrived.notify_all()
        with self._event_arrived:
            self._event_arrived.notify_all()

    def _send_command(self, command: str) -> None:
        commands = known(known(self._process).stdin)
        commands.write(f"{command}\n")
        commands.flush()

    def _end(self, command: str) -> None:
        if self._process is None:
            return
        try:
            self._send_command(command)
            self.wait_until(lambda: any(event["event"] == "closed" for event in self.events), "end")
        except BaseException:
            self.kill()
            raise
        self._ended()

    def _ended(self) -> None:
        process, self._process = known(self._process), None
        process.wait(LONGEST_WAIT_S)
        known(self._reader).join(LONGEST_WAIT_S)
        known(process.stdout).close()
        with contextlib.suppress(BrokenPipeError):  # what a process did not read before it was killed
            known(process.stdin).close()

    def _alive(self) -> bool:
        return self._process is not None and (
            self._process.poll() is None or bool(self._reader and self._reader.is_alive())
        )

    def _name(self) -> str:
        return f"instance {self.directory.name} of {self.application_id}"


def topology_description(
    topology: str, directory: Path, configs: Mapping[str, str] | None = None, release: str = jars.DEFAULT_RELEASE
) -> str:
    """What `Topology#describe` says of it. `directory`: for its file."""
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory / f"{topology}.properties"
    settings = {"app.topology": topology, **(configs or {}), "app.describe": "true"}
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    done = subprocess.run(
        [*_command(directory, release), str(properties)],
        capture_output=True,
        text=True,
        timeout=LONGEST_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _command(directory: Path, release: str) -> list[str]:
    logging = {
        "defaultLogLevel": "warn",
        "showDateTime": "true",
        "dateTimeFormat": "yyyy-MM-dd HH:mm:ss,SSS",
        **{f"log.{name}": "info" for name in _TOLD_IN_LOG},
    }
    options = [*_JVM, f"-Djava.io.tmpdir={directory}", "-Djava.net.preferIPv4Stack=true"]
    options += [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in logging.items()]
    return [jars.java(), *options, "-cp", jars.compiled(SOURCE, release=release), SOURCE.stem]
