"""The program of a process that `assignor workers run --local` starts. The program runs one instance of an application,
which it imports by its import path.

    python -m spark_jobs.workers.local_instance '{"app": "wordcount:app", "number": 0, ...}'

- All output and log lines of the application go to stderr. When the instance has ended, the process writes one line of
  JSON to stdout.
- SIGTERM drains the instance. If the parent process ends, the kernel closes the stdin pipe, and the instance then
  drains itself, too. So no instance continues to run without its parent.
- Exit codes: 0 if the instance ended without error, 1 if it ended with an error, 143 if a signal made it leave the
  group. Any other exit code means that the instance could not start.
"""

import json
import logging
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from assignor.errors import AssignorFault
from coordinator_client.calls import read_token
from spark_jobs.ownership.executor_identity import LOOPBACK, ExecutorIdentity
from spark_jobs.workers.member_process import InstanceSettings, run_instance
from streams_runtime.instance.application import load_application

EXIT_ERROR = 1
EXIT_LEFT = 128 + signal.SIGTERM
_EXIT_NOT_STARTED = 2
_OF_SETTINGS = ("host", "coordinator_url", "threads", "state_dir", "log_dir", "token_file")


@dataclass(frozen=True, slots=True)
class LocalInstance:
    """The argument of a process that runs an instance. `number`: the number of the instance on its host. `attempt`: the
    number of earlier attempts to run this instance. `InstanceSettings` describes the other fields. If the field
    `token_file` is None, the process reads the token from its environment.
    """

    app: str
    host: str | None
    number: int
    attempt: int
    coordinator_url: str
    threads: int | None
    state_dir: str | None
    log_dir: str | None
    token_file: str | None

    @classmethod
    def of(cls, app: str, settings: InstanceSettings) -> Self:
        """Makes the argument for the first instance. `app`: the import path of the application."""
        return cls(app, number=0, attempt=0, **{name: getattr(settings, name) for name in _OF_SETTINGS})

    def arguments(self) -> list[str]:
        """Returns the arguments of the Python interpreter for a process that runs this instance.

        The argument -P keeps the working directory out of sys.path. Without -P, a file such as calendar.py beside the
        application would replace a module of the standard library. `load_application` finds the application in the
        working directory, even with -P.
        """
        return ["-P", "-u", "-m", __name__, json.dumps(asdict(self))]

    def settings(self) -> InstanceSettings:
        """Loads the application and makes the settings of the instance. Raises InputError if the application cannot be
        loaded.
        """
        token = read_token(None if self.token_file is None else Path(self.token_file))
        given = {name: getattr(self, name) for name in _OF_SETTINGS}
        return InstanceSettings(load_application(self.app), token=token, **given)


def main(argument: str) -> int:
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_leave_with_parent, name="parent-watch", daemon=True).start()
    instance = LocalInstance(**json.loads(argument))
    leaving = threading.Event()
    try:
        settings = instance.settings()
        # basicConfig has no effect if the application has configured logging
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("httpx").setLevel(logging.WARNING)  # httpx would log each heartbeat request
        executor = ExecutorIdentity("", None, instance.host or LOOPBACK)
        end = run_instance(settings, instance.number, instance.attempt, executor, leaving.set)
    except AssignorFault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return _EXIT_NOT_STARTED
    os.write(report, json.dumps(asdict(end)).encode() + b"\n")
    if leaving.is_set():
        return EXIT_LEFT
    return 0 if end.is_good else EXIT_ERROR


def _leave_with_parent() -> None:
    while os.read(0, 1024):  # use os.read(0), because Python aborts at its exit if a thread reads sys.stdin
        pass
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # The parent no longer reads the pipes, so a write to stdout or stderr would fail without this step.
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
