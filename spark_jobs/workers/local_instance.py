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

from assignor.errors import AssignorFault
from coordinator_client.calls import read_token, token_file_of
from spark_jobs.workers.executor_identity import ExecutorIdentity
from spark_jobs.workers.member_process import InstanceSettings, run_instance
from streams_runtime.application import load_application

EXIT_ERROR = 1
EXIT_LEFT = 128 + signal.SIGTERM
_EXIT_NOT_STARTED = 2


@dataclass(frozen=True, slots=True)
class LocalInstance:
    """What the process needs. `number`: of the instance on its host; `attempt`: how many times it has failed before.

    `state_dir`, `log_dir`: absolute. `token_file`: as on the command line; without it, the token is in the environment.
    """

    app: str
    host: str
    number: int
    attempt: int
    coordinator_url: str
    threads: int | None
    state_dir: str
    log_dir: str | None
    token_file: str | None

    def arguments(self) -> list[str]:
        """Of the Python interpreter, for a process that runs this instance.

        -P: a calendar.py beside the application must not replace the module of the standard library. The application
        is found in the working directory all the same (`load_application`).
        """
        return ["-P", "-u", "-m", __name__, json.dumps(asdict(self))]

    def settings(self) -> InstanceSettings:
        """Raises InputError."""
        named_file = None if self.token_file is None else Path(self.token_file)
        token_file = token_file_of(named_file)
        return InstanceSettings(
            load_application(self.app),
            self.coordinator_url,
            self.threads,
            self.state_dir,
            self.log_dir,
            read_token(named_file),
            None if token_file is None else str(token_file),
            self.host,
        )


def main(argument: str) -> int:
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_leave_with_parent, name="parent-watch", daemon=True).start()
    instance = LocalInstance(**json.loads(argument))
    has_left = False

    def note_leaving() -> None:
        nonlocal has_left
        has_left = True

    try:
        settings = instance.settings()
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")  # unless the application has
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each heartbeat
        executor = ExecutorIdentity("", None, instance.host)
        end = run_instance(settings, instance.number, instance.attempt, executor, note_leaving)
    except AssignorFault as fault:
        print(f"error: {fault}", file=sys.stderr)
        return _EXIT_NOT_STARTED
    os.write(report, json.dumps(asdict(end)).encode() + b"\n")
    if has_left:
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
