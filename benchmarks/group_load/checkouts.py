"""Coordinators that are compared: of this checkout or of another one, on SQLite or on PostgreSQL."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.group_load.service import ServiceUnderLoad
from tests.coordinator_api.store.postgresql import Postgresql

OURS = Path(__file__).resolve().parents[2]
_WHERE = "import coordinator_api; print(coordinator_api.__file__)"
_PATH = "PYTHONPATH"


class NoCheckout(Exception):
    """Its code would not be what runs."""


class CheckoutUnderLoad(ServiceUnderLoad):
    """The coordinator of a checkout, whatever code this process runs."""

    def __init__(self, checkout: Path, directory: Path, settings: Mapping[str, object]) -> None:
        super().__init__(directory, settings)
        self._checkout = checkout

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        with _code_of(self._checkout):
            return super()._spawn(log)


@dataclass(frozen=True, slots=True)
class Contender:
    """`checkout`: whose code runs, with this interpreter. `database`: a server that runs, None for a file of SQLite."""

    name: str
    checkout: Path = OURS
    database: Postgresql | None = None

    def service(self, directory: Path, settings: Mapping[str, object]) -> CheckoutUnderLoad:
        """Not started, with a database of its own."""
        place = {} if self.database is None else {"database.url": self.database.new_database()}
        return CheckoutUnderLoad(self.checkout, directory, {**settings, **place})

    @property
    def other_processes(self) -> tuple[int, ...]:
        """That work for it, besides those of its coordinator."""
        return () if self.database is None else (self.database.pid,)


def check(checkout: Path) -> None:
    """Raises NoCheckout when it is not the code in there that would run."""
    if not (checkout / "coordinator_api").is_dir():
        raise NoCheckout(f"{checkout} is no checkout of this project: it has no directory coordinator_api")
    with _code_of(checkout):
        found = subprocess.run([sys.executable, "-c", _WHERE], capture_output=True, text=True, check=True)  # noqa: S603
    if not Path(found.stdout.strip()).is_relative_to(checkout):
        raise NoCheckout(f"with {_PATH}={checkout}, Python takes {found.stdout.strip()}")


@contextmanager
def _code_of(checkout: Path) -> Iterator[None]:
    """What is started within the block runs the code of this checkout, as do the processes that it starts itself."""
    before = os.environ.get(_PATH)
    os.environ[_PATH] = str(checkout)
    try:
        with chdir(checkout):  # `python -c` looks there first
            yield
    finally:
        if before is None:
            del os.environ[_PATH]
        else:
            os.environ[_PATH] = before
