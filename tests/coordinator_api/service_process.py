"""A real `assignor serve` in a process of its own, on a free loopback port and a real SQLite file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import httpx

START_TIMEOUT_S = 120
PROGRAM = (sys.executable, "-c", "from assignor.commands import main; main()")
_ADDRESS = re.compile(r"listens on (http://\S+)")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of the service, plus `extra`."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ASSIGNOR_")}
    return {**plain, **(extra or {})}


class ServiceProcess:
    """Started by `start`; `kill` is `kill -9`. `url` is where it listens. `program`: the command before its flags."""

    def __init__(
        self,
        directory: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self.directory = directory
        self._program = program
        self._flags = flags
        self._environment = clean_environment(environment)
        self.url = ""
        self.log: list[str] = []

    def start(self) -> Self:
        """Returns once it listens. Raises AssertionError with its log when it does not."""
        self.process = subprocess.Popen(
            (*self._program, "serve", "--port", "0", *self._flags),
            cwd=self.directory,
            env=self._environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        listening = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(listening,), daemon=True)
        self._reader.start()
        listening.wait(START_TIMEOUT_S)
        assert self.url, f"the service did not start: {self.log}"
        return self

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, timeout=60, headers=headers, trust_env=False)

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

    def _read(self, listening: threading.Event) -> None:
        assert self.process.stderr is not None
        self.url = ""
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            address = _ADDRESS.search(line)
            if address is not None:
                self.url = address[1]
                listening.set()
        listening.set()
        self.process.stderr.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
