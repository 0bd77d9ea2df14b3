"""One Kafka process on loopback and its files: started, killed and started again, whatever its part in a cluster.

A start is over when the process answers on its clients' port; its own words are in `broker.log`.
"""

import contextlib
import signal
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.known import known
from tests.oracle import jars
from tests.running_program import RunningProgram
from tests.waiting import wait_until

_LONGEST_START_S = 60
_LONGEST_STOP_S = 30

DEFAULTS = Path(__file__).with_name("broker.properties")
"""Properties of every broker. In a properties file the last value of a key counts."""


class KafkaNode:
    """`port`: where clients are answered. `settings`: all of its server.properties. `heap_mb`: of its JVM.

    `starts_fast`: its JVM compiles quickly rather than well, which suits tests; a benchmark wants the opposite.
    `release`: the Kafka release that runs. `loggers`: names of Kafka's loggers that also write their INFO lines to its
    log.
    """

    def __init__(
        self,
        directory: Path,
        port: int,
        settings: Mapping[str, str],
        heap_mb: int,
        *,
        release: str = jars.DEFAULT_RELEASE,
        starts_fast: bool = True,
        loggers: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.port = port
        self._heap_mb = heap_mb
        self._starts_fast = starts_fast
        self._loggers = tuple(loggers)
        self._process: RunningProgram | None = None
        self._class_path = jars.class_path(release)
        directory.mkdir(parents=True)
        own = {"log.dirs": str(directory / "data"), **settings}
        self._properties = directory / "server.properties"
        self._properties.write_text(DEFAULTS.read_text() + "".join(f"{key}={value}\n" for key, value in own.items()))

    def format(self, cluster_id: str, scram: Sequence[str] = ()) -> None:
        """Its files, once, before the first start. `scram`: users, as `SCRAM-SHA-256=[name=...,password=...]`."""
        users = [argument for user in scram for argument in ("--add-scram", user)]
        # one argument, since an id may begin with a dash
        files = (f"--cluster-id={cluster_id}", "-c", str(self._properties))
        self._run("kafka.tools.StorageTool", "format", *files, *users)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return known(self._process).pid

    def launch(self) -> None:
        """The process; it is not there for clients yet."""
        assert self._process is None, "the broker runs already"
        command = self._command("kafka.Kafka", str(self._properties))
        self._process = RunningProgram(command, self.directory / "broker.log", own_session=True)

    def wait_until_it_answers(self) -> None:
        """Raises AssertionError with the end of its log when it does not."""
        process = known(self._process)
        # nothing tells when another program listens
        wait_until(self._answers, self.last_words, _LONGEST_START_S, alive=lambda: process.is_running)

    def start(self) -> None:
        self.launch()
        self.wait_until_it_answers()

    def kill(self) -> None:
        """SIGKILL: what was acknowledged and only in the page cache survives, as it does a crash of the process."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def log(self) -> str:
        """All that its processes have written."""
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "broker.log").read_text(errors="replace")
        return ""

    def last_words(self) -> str:
        return self.log()[-4000:]

    def _end(self, kind: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.signal(kind)
        with contextlib.suppress(subprocess.TimeoutExpired):  # then it is killed
            process.wait(_LONGEST_STOP_S)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(*arguments), capture_output=True, text=True, timeout=_LONGEST_START_S, check=False
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        options = [
            f"-Xmx{self._heap_mb}m",
            *(("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1") if self._starts_fast else ("-XX:+UseG1GC",)),
            f"-Djava.io.tmpdir={self.directory}",
        ]
        logging = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *(f"-Dorg.slf4j.simpleLogger.log.{name}=info" for name in self._loggers),
        ]
        return [jars.java(), *options, *logging, "-cp", self._class_path, *arguments]


def new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
