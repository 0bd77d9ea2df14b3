"""A real schema registry on loopback: Apicurio Registry, which speaks the REST API of Confluent's, in memory only.

It is not Confluent's own, which no public package registry has. Apicurio is under the Apache License 2.0; Maven fetches
its distribution once, and it is run as it comes.
"""

import hashlib
import os
import signal
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.oracle import jars
from tests.running_program import RunningProgram

VERSION = "2.6.13.Final"
"""The last one that runs on Java 17."""
_SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_CONFLUENTS_API = "/apis/ccompat/v7"

_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SETTINGS = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": "0"}
_LISTENS = r"started in .* Listening on: (http://\S+)"
_LONGEST_START_S = 90


@contextmanager
def real_schema_registry(directory: Path) -> Iterator[str]:
    """An empty registry; what it says is in `directory/registry.log`. Gives the URL for clients of Confluent's API.

    Raises JarsUnavailable, and AssertionError with its last words when it does not start.
    """
    log = directory / "registry.log"
    command = [jars.java(), *_JVM, f"-Djava.io.tmpdir={directory}", "-jar", str(_program())]
    environment = {**os.environ, **_SETTINGS}
    with RunningProgram(
        command, log, cwd=directory, environment=environment, own_session=True, first=signal.SIGTERM
    ) as process:
        yield process.wait_for(_LISTENS, _LONGEST_START_S) + _CONFLUENTS_API


def _program() -> Path:
    arguments = [_COPY, f"-Dartifact={_ARTIFACT}"]
    directory = jars.from_maven("schema-registry", f"{_ARTIFACT} {_SHA256}".encode(), arguments, _unpack)
    return next(directory.glob("*-runner.jar"))


def _unpack(directory: Path) -> None:
    (archive,) = directory.iterdir()
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != _SHA256:
        raise AssertionError(f"{archive.name} has the SHA-256 {found}, not {_SHA256}")
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    archive.unlink()


if __name__ == "__main__":
    try:
        print(_program())
    except jars.JarsUnavailable as reason:
        sys.exit(str(reason))
