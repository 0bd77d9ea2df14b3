"""Logs that a coordinator may open: its settings list them before it starts, and each test takes one."""

from pathlib import Path

from tests.spark_jobs.small_application import address

_LOGS = 16


class LogDirectories:
    """Directories in `parent` for one embedded log each."""

    def __init__(self, parent: Path) -> None:
        self._directories = [parent / f"log-{number}" for number in range(_LOGS)]
        self._next = iter(self._directories)

    @property
    def setting(self) -> dict[str, object]:
        return {"cluster.bootstrap.servers": ",".join(map(address, self._directories))}

    def take(self) -> Path:
        return next(self._next)
