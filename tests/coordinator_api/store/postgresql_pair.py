"""A real PostgreSQL of two servers: what the primary has committed, the standby has too, and can take its place.

What is committed is on both before anybody is told so (`synchronous_standby_names`). When there is no standby, the
primary goes on without, as failover managers do it; it waits for the next one as soon as that has caught up. Nobody may
promote a standby that has not caught up: `failover` waits for that before it kills the primary.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from benchmarks.storage_faults.faults import small_disk
from tests.coordinator_api.store.postgresql import WITHIN_S, Postgresql
from tests.waiting import wait_until

DISK_BYTES = 320 * 1024 * 1024
_POLL_S = 0.05
_OWN_SETTINGS = "pair.conf"
_SETTINGS = f"""
include_if_exists = '{_OWN_SETTINGS}'
hot_standby = on
max_wal_size = 48MB
min_wal_size = 8MB
wal_keep_size = 32MB
checkpoint_timeout = 30s
shared_buffers = 32MB
"""
_FILLED_AT_ONCE = 64 * 1024


class PairServer(Postgresql):
    """One of the two. Its data is on a small disk of its own, where that can be mounted."""

    def __init__(self, bin: Path, *, on_small_disk: bool) -> None:
        super().__init__(bin)
        self._on_small_disk = on_small_disk
        self._mounted = ExitStack()

    def __enter__(self) -> Self:
        """Makes its directory only."""
        self._make_place()
        if self._on_small_disk:
            self.data.mkdir()
            try:
                self._mounted.enter_context(small_disk(self.data, DISK_BYTES))
            except (OSError, subprocess.CalledProcessError):
                self._on_small_disk = False
            else:
                self._give(self.data)
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        self.kill()
        self._mounted.close()
        shutil.rmtree(self._place)

    @property
    def has_small_disk(self) -> bool:
        return self._on_small_disk

    def begin_as_primary(self) -> None:
        self._initialise("--wal-segsize=4")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
        self.waits_for_standby(False)
        self.start()

    def begin_as_standby_of(self, primary: PairServer) -> None:
        """With a copy of all that the primary has."""
        for entry in self.data.iterdir() if self.data.exists() else ():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        source = f"host=127.0.0.1 port={primary.port} user=coordinator application_name=standby"
        self._run(
            "pg_basebackup", f"--pgdata={self.data}", "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
            "--wal-method=stream", f"--dbname={source}",
        )  # fmt: skip
        self.start()

    def waits_for_standby(self, does: bool) -> None:
        """Whether a commit waits until a standby has it. Takes effect with the next start or `reload`."""
        (self.data / _OWN_SETTINGS).write_text(f"synchronous_standby_names = '{'*' if does else ''}'\n")
        self._give(self.data / _OWN_SETTINGS)

    def promote(self) -> None:
        """It takes writes once this returns."""
        self._run("pg_ctl", "promote", "--wait", f"--pgdata={self.data}")

    def restart(self, mode: str = "fast") -> None:
        """`mode`: fast, or immediate, which is as a crash."""
        self._stop(mode)
        self.start()

    def is_running(self) -> bool:
        return bool(self.processes())

    def kill(self) -> None:
        """SIGKILL of all that it is, frozen or not."""
        processes = self.processes()
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_until(
            lambda: not any(Path(f"/proc/{each}").exists() and not _is_over(each) for each in processes), "its end"
        )
        # its process id stays taken until somebody asks how it ended
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self._place / f".s.PGSQL.{self.port}.lock").unlink(missing_ok=True)

    def cut_connections(self) -> int:
        """Of all its clients, but not of the standby; how many there were."""
        return int(
            self.value(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        )

    def write_log(self, most: int) -> int:
        """Begin a new piece of its write-ahead log, so often or until it cannot; how often it could."""
        for number in range(most):
            try:
                self.value("SELECT pg_logical_emit_message(false, 'tests', 'x'), pg_switch_wal()")
            except ConnectionError:
                return number
        return most

    def until_it_answers_or_ends(self) -> None:
        """After a crash it starts again by itself, if it can."""

        def has() -> bool:
            if not self.is_running():
                return True
            with suppress(ConnectionError):
                return self.value("SELECT 1") == "1"
            return False

        wait_until(has, "it to answer or to end")

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Within the block no byte can be written to its disk, which has what was written before."""
        assert self._on_small_disk, "it has a disk of its own"
        filler = self.data / "filler"
        ends = threading.Event()

        def fill() -> None:
            """Also what the server gives back meanwhile."""
            with filler.open("wb", buffering=0) as file:
                while not ends.is_set():
                    try:
                        file.write(bytes(_FILLED_AT_ONCE))
                    except OSError:
                        is_full.set()
                        ends.wait(_POLL_S)

        is_full = threading.Event()
        filling = threading.Thread(target=fill, daemon=True)
        filling.start()
        try:
            is_full.wait(WITHIN_S)
            yield
        finally:
            ends.set()
            filling.join()
            filler.unlink()

    def _give(self, path: Path) -> None:
        if self._as:
            shutil.chown(path, self._as["user"], self._as["user"])
        if path.is_dir():
            path.chmod(0o700)


class PostgresqlPair:
    """Both run while it is entered. `url`: names both, and takes whoever is the primary.

    `on_small_disks`: as root, each has a disk that can be filled.
    """

    def __init__(self, bin: Path, *, on_small_disks: bool = False) -> None:
        wanted = on_small_disks and os.getuid() == 0
        self.servers = tuple(PairServer(bin, on_small_disk=wanted) for _ in range(2))
        self.primary, self.standby = self.servers
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.servers)
        self.url = f"postgresql://coordinator@{hosts}/postgres?target_session_attrs=read-write"
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as begun:
            for server in self.servers:
                begun.enter_context(server)
            self.primary.begin_as_primary()
            self._join_standby()
            self._ending = begun.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    @property
    def has_small_disks(self) -> bool:
        return all(each.has_small_disk for each in self.servers)

    def is_in_sync(self) -> bool:
        """Whether the standby has all that the primary has committed."""
        with suppress(ConnectionError):
            waits = "SHOW synchronous_standby_names"
            return self.primary.value(waits) == "*" and self.primary.value(
                "SELECT count(*) FROM pg_stat_replication"
                " WHERE sync_state = 'sync' AND flush_lsn >= pg_current_wal_flush_lsn()"
            ) == "1"  # fmt: skip
        return False

    def until_in_sync(self) -> None:
        wait_until(self.is_in_sync, "the standby to have what the primary has")

    def failover(self, *, frozen: bool = False) -> None:
        """The primary dies, and the standby takes its place; returns when that takes writes.

        `frozen`: the old primary stands still for a while before it is killed, as one that nobody can reach.
        """
        self.until_in_sync()
        if frozen:
            self.primary.freeze()
        else:
            self.primary.kill()
        self.standby.waits_for_standby(False)
        self.standby.reload()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def make_new_standby(self) -> None:
        """The old primary, with a copy of all that the new one has."""
        self.standby.kill()
        self._join_standby()

    def _join_standby(self) -> None:
        self.standby.begin_as_standby_of(self.primary)
        wait_until(
            lambda: self.primary.value("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1",
            "the standby to stream",
        )
        self.primary.waits_for_standby(True)
        self.primary.reload()
        self.until_in_sync()


def _is_over(pid: int) -> bool:
    """Whether it has ended, and nobody has asked for how."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    return True
