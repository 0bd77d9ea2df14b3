"""A real nginx in front of a service, as Debian has it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.coordinator_api.http.hostile_callers import wait_for
from tests.package.test_deployment import free_port

_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx_program() -> str:
    """Skips the test where there is none, and fails it in CI."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        missing = "there is no nginx on the PATH: `make nginx` installs Debian's"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return program


@contextmanager
def running_nginx(directory: Path, locations: str) -> Iterator[int]:
    """Its port on loopback. `locations`: what its one server has. Ends with the block."""
    port, program = free_port(), nginx_program()
    temporary = "".join(f"{each}_temp_path {directory}/{each};" for each in _TEMPORARY)
    config = directory / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{port}; {locations} }} }}\n"
    )
    with subprocess.Popen([program, "-c", str(config), "-p", str(directory)], stderr=subprocess.DEVNULL) as nginx:
        try:
            wait_for(lambda: nginx.poll() is not None or _listens(port))
            assert nginx.poll() is None, (directory / "error.log").read_text(encoding="utf-8")
            yield port
        finally:
            nginx.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0
