"""Runs a coordinator in a child process: `assignor serve` with a SQLite file. The coordinator can be killed and started
again. The coordinator ends when its parent process ends, even if the parent is killed.
"""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

import httpx

from assignor.errors import Unavailable
from coordinator_client.access.tls import client_context
from operating_system.private_files import make_private_directory, private_opener
from operating_system.processes import with_advice

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
POLL_INTERVAL_S = 0.05
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
_PROGRAM = """
import os, signal, sys, threading

def end_with_the_parent():
    while os.read(0, 1024):  # not sys.stdin: a thread in one of its calls makes Python abort at its end
        pass
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_parent, daemon=True).start()
from assignor_cli.app import main
main()
"""
"""The Python program of the child process. The child's stdin is a pipe from the parent. If the parent ends, even by
SIGKILL, the kernel closes the pipe. When the child reads the end of its stdin, it exits.
"""


class CoordinatorNotStarted(Unavailable):
    """The coordinator could not be started. The error message ends with the last output of the coordinator."""


class CoordinatorProcess:
    """A coordinator in a child process, with an address on loopback. The first `start` chooses a free port. Further
    calls of `start` use the same port and database.

    `directory`: the directory of the coordinator's database and log file. `settings`: settings of the coordinator by
    their dotted names, such as group.initial.rebalance.delay.ms. As a context manager, the object starts the
    coordinator on entry and stops it on exit.
    """

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        self._directory = directory
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: IO[bytes] | None = None
        self._port = 0
        self._earlier_output_bytes = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def log_file(self) -> Path:
        return self._directory / "coordinator.log"

    def start(self) -> None:
        """Starts the process and waits until the coordinator is ready. Raises CoordinatorNotStarted."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Starts the process without waiting until the coordinator is ready. The caller has to call `wait_until_ready`
        next. Raises CoordinatorNotStarted.
        """
        assert self._process is None, "it runs already"
        try:
            make_private_directory(self._directory)
            self._earlier_output_bytes = self.log_file.stat().st_size if self.log_file.exists() else 0
            with open(self.log_file, "ab", opener=private_opener) as log:
                self._process = self._spawn(log)
        except OSError as error:
            raise CoordinatorNotStarted(
                f"the coordinator in {self._directory} could not be started: {with_advice(error)}"
            ) from error

    def wait_until_ready(self) -> None:
        """Waits until the coordinator is ready. Raises CoordinatorNotStarted if the process ends, or if it is not ready
        within a minute.
        """
        assert self._process is not None, "launch it first"
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.stop()
                raise CoordinatorNotStarted(
                    f"the coordinator did not start; its log, {self.log_file}, ends with:\n{self._output()[-4000:]}"
                )
            time.sleep(POLL_INTERVAL_S)

    def kill(self) -> None:
        """Kills the process with SIGKILL, and waits until it has ended."""
        assert self._process is not None, "start it first"
        self._process.kill()
        self._process.wait()
        self._ended()

    def stop(self) -> None:
        """Ends the process with SIGTERM, or with SIGKILL if it has not ended after 15 s. `stop` does nothing if the
        process does not run.
        """
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ended()

    def _ended(self) -> None:
        self._process = None
        if self._lifeline is not None:
            self._lifeline.close()

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _PROGRAM, *self._arguments()]
        # The child has its own process group, so that Ctrl-C in the terminal ends only the parent. The parent
        # then drains the group through the coordinator, and stops the coordinator.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0)  # noqa: S603
        self._lifeline = process.stdin
        return process

    def _arguments(self) -> list[str]:
        database = f"sqlite:///{self._directory / 'coordinator.sqlite3'}"
        arguments = ["serve", "--database-url", database, "--host", LOOPBACK, "--port", str(self._port)]
        for name, value in self._settings.items():
            arguments += ["--" + name.replace(".", "-"), str(value)]
        return arguments

    def _answers(self) -> bool:
        if self._port == 0:
            address = _ADDRESS.search(self._output())
            if address is None or address[1] == "0":
                return False
            self._port = int(address[1])
        try:
            tls = client_context(self.url, httpx.create_ssl_context)
            return httpx.get(f"{self.url}/readyz", timeout=2.0, trust_env=False, verify=tls).is_success
        except httpx.TransportError:
            return False

    def _output(self) -> str:
        return self.log_file.read_bytes()[self._earlier_output_bytes :].decode("utf-8", "replace")
