"""A real Kafka broker of one node on loopback: formatted, started, killed and started again on the same files.

One process is broker and controller (KRaft). Ports are chosen by the system once and kept over restarts, so clients
find it again. A start is over when the broker answers on its port; the process's own words are in `broker.log`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.oracle import jars

_LONGEST_START_S = 60
_LONGEST_STOP_S = 30
_HEAP = "-Xmx512m"

DEFAULT_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "2000",  # after SIGKILL the controller lets the same broker back in only after this
    "broker.heartbeat.interval.ms": "500",
    "delete.topic.enable": "true",
    "num.partitions": "1",
    "transaction.partition.verification.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",  # what SIGKILL left open blocks its heirs
}


class Broker:
    """`directory`: its files. `properties`: of the broker, over those the tests have in common.

    `secured`: a security protocol, spoken on a second port, `secured_servers`; `listener.name.secured.*` configure it.
    `scram`: users that log in there by SCRAM, as `SCRAM-SHA-256=[name=...,password=...]`.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        secured: str | None = None,
        scram: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self._port, controller_port, self._secured_port = _free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self._class_path = jars.class_path()
        directory.mkdir(parents=True)
        clients = f"PLAINTEXT://127.0.0.1:{self._port}"
        if secured is not None:
            clients += f",SECURED://127.0.0.1:{self._secured_port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": clients,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:{secured or 'SSL'}",
            "log.dirs": str(directory / "data"),
            **DEFAULT_PROPERTIES,
            **(properties or {}),
        }
        (directory / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        users = [argument for user in scram for argument in ("--add-scram", user)]
        # one argument, since an id may begin with a dash
        files = (f"--cluster-id={cluster_id}", "-c", str(directory / "server.properties"))
        self._run("kafka.tools.StorageTool", "format", *files, *users)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def secured_servers(self) -> str:
        """Where `secured` is spoken."""
        return f"127.0.0.1:{self._secured_port}"

    def start(self) -> None:
        """On return the broker answers. Raises AssertionError with the end of its log when it does not."""
        assert self._process is None, "the broker runs already"
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self.directory / "server.properties")),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        give_up_at = time.monotonic() + _LONGEST_START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise AssertionError(f"the broker did not start:\n{self.last_words()}")
            time.sleep(0.05)  # nothing tells when another program listens

    def kill(self) -> None:
        """SIGKILL: what was acknowledged and only in the page cache survives, as it does a crash of the process."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def last_words(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "broker.log").read_text(errors="replace")[-4000:]
        return ""

    def _end(self, kind: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(kind)
        try:
            process.wait(_LONGEST_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_LONGEST_STOP_S)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
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
        options = [_HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self.directory}"]
        logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return [jars.java(), *options, *logging, "-cp", self._class_path, *arguments]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def require_jars() -> bool:
    """Whether missing jars are a failure rather than a reason to skip."""
    return os.environ.get("ASSIGNOR_REQUIRE_JARS") == "1"
