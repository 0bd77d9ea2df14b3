"""Somebody who has never seen the checkout: an environment with the built wheel, an empty directory, and a shell in it.

The port of the coordinator distinguishes the stranger's programs from those of other tests.
"""

import re
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.package.environments import FreshEnvironment
from tests.running_program import RunningProgram
from tests.spark_jobs.quick_java import OPTIONS

_ASKS_A_COORDINATOR = re.compile(r"^(assignor (?:groups \w+|rebalances \w+|explain|reset|workers run))\b", re.MULTILINE)


@dataclass
class Stranger:
    """`running`: ends all that the stranger leaves running."""

    environment: FreshEnvironment
    running: ExitStack
    port: int
    _exports: str = ""
    _started: list[RunningProgram] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.environment.home

    @property
    def coordinator(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def tries(self, code: str) -> subprocess.CompletedProcess[str]:
        """Runs commands to their end. Later commands see the variables that these commands export."""
        command = f"{self._exports}\n{self._typed(code)}"
        self._exports += "".join(f"{line}\n" for line in code.splitlines() if line.startswith("export "))
        return self.environment.run("bash", "-e", "-c", command, variables=OPTIONS | {"COLUMNS": "200"})

    def runs(self, code: str) -> str:
        """Returns what the commands print. They have to succeed."""
        ended = self.tries(code)
        assert ended.returncode == 0, f"{code}: {ended}"
        return ended.stdout

    def starts(self, code: str) -> RunningProgram:
        """Runs a command in a terminal of its own."""
        log = self.home.parent / f"terminal-{len(self._started)}.log"
        command = ("bash", "-e", "-c", f"{self._exports}\nexec {self._typed(code)}")
        self._started.append(self.environment.start(*command, log=log, variables=OPTIONS, own_session=True))
        return self.running.enter_context(self._started[-1])

    def _typed(self, code: str) -> str:
        """The commands, with the port of this stranger's coordinator."""
        code = code.replace("assignor serve", f"assignor serve --port {self.port}")
        code = code.replace("[w]orkers run", f"[w]orkers run --coordinator {self.coordinator}")
        return _ASKS_A_COORDINATOR.sub(rf"\1 --coordinator {self.coordinator}", code)
