"""The program of one process of `assignor workers run --local`: one instance, by the import path of its application.

    python -m spark_jobs.workers.local_instance '{"app": "wordcount:app", "number": 0, ...}'

- All that the application prints and logs goes to stderr. stdout gets one line, as JSON, when the instance has ended.
- SIGTERM drains the instance. The end of the process that started it does, too: that one holds the other end of stdin,
  which the kernel closes however it ends, so no instance outlives it for longer than a drain.
- Exit codes: 0 when the instance ended well, 1 when it ended with an error, 143 when a signal made it leave. Everything
  else is a failure to start.
"""

from __future__ import annotations

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
    """What the process needs. `number`: of the instance on its host; `attempt`: how many times it has failed before.
    The rest is as in `InstanceSettings`; without a `token_file`, the token is in the environment.
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
        """The first instance of an application that is named by `app`."""
        return cls(app, number=0, attempt=0, **{name: getattr(settings, name) for name in _OF_SETTINGS})

    def arguments(self) -> list[str]:
        """Of the Python interpreter, for a process that runs this instance.

        -P: a calendar.py beside the application must not replace the module of the standard library. The application
        is found in the working directory all the same (`load_application`).
        """
        return ["-P", "-u", "-m", __name__, json.dumps(asdict(self))]

    def settings(self) -> InstanceSettings:
        """Raises InputError."""
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
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")  # unless the application has
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each heartbeat
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
    while os.read(0, 1024):  # not sys.stdin: a thread in one of its calls makes Python abort at its end
        pass
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # nobody reads them: a write would fail
        os.dup2(nowhere, stream)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
