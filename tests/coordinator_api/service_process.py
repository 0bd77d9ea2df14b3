"""A real `assignor serve` in a process of its own, on a free loopback port and a real SQLite file."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import httpx

from tests import warm_program
from tests.no_tls import NO_TLS

START_TIMEOUT_S = 120
_ADDRESS = re.compile(r"listens on (https?://\S+)")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of the service, plus `extra`."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ASSIGNOR_")}
    return {**plain, **(extra or {})}


def run_command(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`assignor` with these arguments, started in `directory`, until it ends."""
    return warm_program.run(arguments, cwd=directory, environment=clean_environment())


class ServiceProcess:
    """Started by `start`; `kill` is `kill -9`. `url` is where it listens. `ignored`: signals that it finds ignored.

    `open_files`: its soft limit of open files when it starts.
    """

    def __init__(
        self,
        directory: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        ignored: tuple[signal.Signals, ...] = (),
        open_files: int | None = None,
    ) -> None:
        self.directory = directory
        self._open_files = open_files
        self._ignored = ignored
        self._flags = flags
        self._environment = clean_environment(environment)
        self.url = ""
        self.log: list[str] = []
        self._logged = threading.Condition()

    def start(self) -> Self:
        """Returns once it listens. Raises AssertionError with its log when it does not."""
        said, stderr = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            self.process = warm_program.WarmProgram(
                ("serve", "--port", "0", *self._flags),
                cwd=self.directory,
                environment=self._environment,
                stdout=nowhere,
                stderr=stderr,
                ignored=self._ignored,
                open_files=self._open_files,
            )
        finally:
            os.close(stderr)
            os.close(nowhere)
        listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(said, listening), daemon=True)
        self._reader.start()
        listening.wait(START_TIMEOUT_S)
        assert self.url, f"the service did not start: {self.log}"
        return self

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, timeout=60, headers=headers, trust_env=False, verify=NO_TLS)

    def kill(self) -> None:
        """As a power cut does it: nothing is finished, nothing is said."""
        self.process.send_signal(signal.SIGKILL)
        self._ended()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Gracefully; gives the exit code."""
        self.process.send_signal(number)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(START_TIMEOUT_S)
        self._reader.join(START_TIMEOUT_S)
        return code

    def logged(self, is_wanted: Callable[[str], bool], count: int) -> list[str]:
        """The lines of the log that are wanted, as soon as there are `count` of them."""
        with self._logged:
            self._logged.wait_for(lambda: sum(map(is_wanted, self.log)) >= count, START_TIMEOUT_S)
            return list(filter(is_wanted, self.log))

    def _read(self, said: int, listening: threading.Event) -> None:
        self.url = ""
        with os.fdopen(said, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with self._logged:
                    self.log.append(line.rstrip("\n"))
                    self._logged.notify_all()
                address = _ADDRESS.search(line)
                if address is not None:
                    self.url = address[1]
                    listening.set()
        listening.set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
