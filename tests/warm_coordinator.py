"""The coordinator that members' tests run against: `CoordinatorProcess`, started from what is imported already."""

import os
import subprocess
from typing import IO, cast

from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from tests.checkout import ROOT
from tests.warm_program import WarmProgram


class WarmCoordinator(CoordinatorProcess):
    """Differs in nothing but how its process comes to be."""

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        program = WarmProgram(
            self._arguments(), cwd=ROOT, environment=os.environ, stdout=log.fileno(), stderr=log.fileno()
        )
        return cast("subprocess.Popen[bytes]", program)
