"""A real PostgreSQL of the machine, on a free port of loopback, with its data in a directory of its own."""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from tests.processes import children

_USER = "postgres"
"""It never runs as root."""

WITHIN_S = 60.0


def programs() -> Path | None:
    """Where `initdb` and `pg_ctl` are: on the PATH, or where Debian puts them."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    usable = os.getuid() != 0 or any(each.pw_name == _USER for each in pwd.getpwall())
    return next((each for each in found if (each / "pg_ctl").exists()), None) if usable else None


class Postgresql:
    """Runs while it is entered. `url`: its database, as `database.url` takes it. `durable`: what it has committed is on
    the disk, as it is by default; tests are faster without.
    """

    def __init__(self, bin: Path, *, durable: bool = False) -> None:
        self._bin = bin
        self._fsync = "on" if durable else "off"
        self._as: dict[str, str] = {"user": _USER} if os.getuid() == 0 else {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._server_url = f"postgresql://coordinator@127.0.0.1:{self.port}"
        self.url = f"{self._server_url}/postgres"
        self._names = (f"test_{number}" for number in itertools.count())

    def __enter__(self) -> Self:
        self._make_place()
        self._initialise()
        self.start()
        return self

    def _make_place(self) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # its user cannot enter pytest's directories
        if self._as:
            shutil.chown(self._place, _USER)

    def _initialise(self, *flags: str) -> None:
        self._run("initdb", "--auth=trust", "--username=coordinator", "--no-sync", f"--pgdata={self.data}", *flags)

    def __exit__(self, *_: object) -> None:
        self._stop("immediate")
        shutil.rmtree(self._place)

    @property
    def data(self) -> Path:
        return self._place / "data"

    @property
    def pid(self) -> int:
        """Of the process above all others."""
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def processes(self) -> list[int]:
        """The server and all that it has started; none when it does not run. They lead process groups of their own."""
        with suppress(OSError, ValueError):
            main = self.pid
            if Path(f"/proc/{main}/cwd").resolve() == self.data.resolve():
                return [main, *children(main)]
        return []

    def start(self) -> None:
        options = f"-p {self.port} -k {self._place} -c listen_addresses=127.0.0.1 -c fsync={self._fsync}"
        self._run("pg_ctl", "start", "--wait", f"--pgdata={self.data}", f"--log={self._place}/log", "-o", options)

    def new_database(self) -> str:
        """The URL of one more, which is empty."""
        name = next(self._names)
        self.value(f"CREATE DATABASE {name}")
        return f"{self._server_url}/{name}"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Within the block, its processes stand still: it takes connections and bytes, and answers to nothing."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def freeze(self) -> None:
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        """The server first, which starts no more processes then, and twice, for those that it was starting."""
        for _ in range(2):
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, number)

    def set_password(self, password: str) -> None:
        """From now on its server asks everybody for it who connects over TCP, and nobody on its Unix socket."""
        self.value(f"ALTER ROLE coordinator PASSWORD '{password}'")
        (self.data / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
        self.reload()

    def reload(self) -> None:
        self._run("pg_ctl", "reload", f"--pgdata={self.data}")

    def stop(self) -> None:
        """Breaks every connection."""
        self._stop("fast")

    def _stop(self, mode: str) -> None:
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}", f"--pgdata={self.data}")

    def value(self, query: str) -> str:
        """What a query says that has one row of one column. Raises ConnectionError."""
        database = f"host={self._place} port={self.port} user=coordinator dbname=postgres connect_timeout=10"
        command = [str(self._bin / "psql"), database, "--no-psqlrc", "--tuples-only", "--no-align", "-c", query]
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, cwd=self._place, timeout=WITHIN_S, **self._as
            )  # type: ignore[call-overload]
        except subprocess.TimeoutExpired as error:
            raise ConnectionError(f"no answer within {WITHIN_S:.0f} s") from error
        if ended.returncode != 0:
            raise ConnectionError(ended.stderr.strip())
        return str(ended.stdout.strip())

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), *arguments]
        # a server that goes on must not hold a pipe of ours
        with (self._place / "commands.log").open("ab") as said:
            ended = subprocess.run(command, cwd=self._place, stdout=said, stderr=said, **self._as)  # type: ignore[call-overload]
        assert ended.returncode == 0, (self._place / "commands.log").read_text()
