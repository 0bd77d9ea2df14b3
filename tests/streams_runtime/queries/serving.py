"""A real instance with its query endpoint; run as a program it is one in a process of its own, to be killed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from assignor.types import HostInfo
from streams_runtime import Application, CoordinatorClient, InstanceOptions, StreamsInstance
from tests.streams_runtime.logs.processes import RunningProgram, say
from tests.streams_runtime.word_counting import TIMEOUT_S, counting_application

SESSION_TIMEOUT_MS = 1_000


@contextmanager
def serving(
    application: Application, coordinator: CoordinatorClient | str, options: InstanceOptions | None = None
) -> Iterator[tuple[HostInfo, StreamsInstance]]:
    """Started when entered, drained at the end; gives its endpoint and the instance."""
    options = replace(options or InstanceOptions(), serve_at="127.0.0.1:0")
    instance = StreamsInstance(application, coordinator, options)
    instance.start()
    try:
        assert instance.endpoint is not None
        yield instance.endpoint, instance
    finally:
        instance.close(TIMEOUT_S)


class InstanceProcess(RunningProgram):
    """An instance in another process, which serves when this is made. `endpoint`: host:port."""

    def __init__(self, application_id: str, log: Path, state_dir: Path, coordinator_url: str) -> None:
        super().__init__(__name__, application_id, log, state_dir, coordinator_url)
        self.endpoint = self.line()

    def end(self) -> None:
        """Drain it, if it lives; wait for its end."""
        self.process.communicate(timeout=TIMEOUT_S)


def fast_application(application_id: str, log: Path, state_dir: Path) -> Application:
    return counting_application(
        application_id, log, state_dir, guarantee="exactly_once_v2", session_timeout_ms=SESSION_TIMEOUT_MS
    )


def main() -> None:
    application_id, log, state_dir, coordinator_url = sys.argv[1:]
    with serving(fast_application(application_id, Path(log), Path(state_dir)), coordinator_url) as (endpoint, _):
        say(endpoint)
        sys.stdin.read()


if __name__ == "__main__":
    main()
