"""A real nginx in front of a service, as Debian has it."""

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
    port = free_port()
    config = f"events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{port}; {locations} }} }}"
    with configured_nginx(directory, config, port):
        yield port


@contextmanager
def configured_nginx(directory: Path, config: str, port: int) -> Iterator[None]:
    """`config`: all of it, but for what keeps nginx in `directory` and in the foreground. `port`: where it listens."""
    program, file = nginx_program(), directory / "nginx.conf"
    temporary = "".join(f"{each}_temp_path {directory}/{each};" for each in _TEMPORARY)
    process = f"daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/error.log;\n"
    file.write_text(process + config.replace("http {", f"http {{ {temporary}", 1))
    with subprocess.Popen([program, "-c", str(file), "-p", str(directory)], stderr=subprocess.DEVNULL) as nginx:
        try:
            wait_for(lambda: nginx.poll() is not None or _listens(port))
            assert nginx.poll() is None, (directory / "error.log").read_text(encoding="utf-8")
            yield
        finally:
            nginx.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0
