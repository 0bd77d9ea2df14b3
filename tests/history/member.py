"""A process of members: a real instance of the application, which writes down its calls and its tasks.

It can be killed, frozen, told to leave, and started again in the same state directory. Each start is another life.
"""

import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.workers.leaving_signals import LeavingSignals
from streams_runtime import StreamsInstance
from streams_runtime.common.states import InstanceState
from streams_runtime.instance.instance_resources import InstanceOptions
from tests import warm_program
from tests.history.recorder import RecordedClient, Recorder, listeners
from tests.history.word_counts import word_count

FAILED = 3
LEAVE_TIMEOUT_S = 60.0
_LOCK_WAIT_MS = 60_000
_OUTPUT_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """`url`: where it calls. `servers`: of its log. `is_static`: its threads are static members.

    `directory`: of the run.
    """

    name: str
    group: str
    url: str
    servers: str
    directory: Path
    is_static: bool

    @property
    def output(self) -> Path:
        return self.directory / f"{self.name}.log"


class MemberProcess:
    """`life`: how often it was started."""

    def __init__(self, settings: MemberSettings) -> None:
        self.settings = settings
        self.life = 0

    def start(self) -> None:
        self.life += 1
        self._process = warm_program.CONTEXT.Process(target=_run, args=(self.settings, self.life), daemon=True)
        self._process.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; a negative signal when that ended it."""
        return self._process.exitcode

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.join()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def leave(self) -> None:
        """Tell it to commit, to leave and to end; wait until it has. Killed when it does not end."""
        self._process.terminate()
        self._process.join(LEAVE_TIMEOUT_S)
        if self._process.exitcode is None:
            self.kill()

    def said_last(self) -> str:
        """The end of its output."""
        output = self.settings.output
        return output.read_text(errors="replace")[-_OUTPUT_BYTES:] if output.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None, "it was started"
        if self._process.exitcode is None:
            os.kill(self._process.pid, number)


def _run(settings: MemberSettings, life: int) -> None:
    warm_program.end_with_the_tests()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its members
    _speak_into(settings.output)
    with LeavingSignals() as signals:
        has_failed = work(settings, life, signals)
    os._exit(FAILED if has_failed else 0)


def work(settings: MemberSettings, life: int, signals: LeavingSignals) -> bool:
    """Until a signal tells it to leave, or the group does; whether it has failed. Its errors go to stderr."""
    recorder = Recorder(settings.directory, f"{settings.name}.{life}")
    application = word_count(settings.group, settings.servers, settings.directory / "state" / settings.name)
    with RecordedClient(settings.url, recorder) as client:
        instance = StreamsInstance(
            application,
            client,
            InstanceOptions(
                thread_name=lambda index: f"{settings.name}-t{index}",
                thread_listener=listeners(recorder, settings.group),
                incarnation=life if settings.is_static else None,
                lock_wait_ms=_LOCK_WAIT_MS,
                owns_process=True,
            ),
        )

        def tell_end() -> None:
            instance.wait()
            signals.wake()

        instance.start()
        threading.Thread(target=tell_end, daemon=True).start()
        signals.wait()
        instance.close(LEAVE_TIMEOUT_S)
        for error in instance.errors:
            print(f"{settings.name}.{life} failed: {error!r}", file=sys.stderr, flush=True)
        return instance.state is InstanceState.ERROR


def _speak_into(file: Path) -> None:
    with file.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
