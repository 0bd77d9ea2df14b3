"""The jars of each Kafka release, fetched by Maven, and our own Java compiled against them. Both are in `build/oracle`.

The releases are those of `assignor/configs/kafka_versions.py`: a new version there is all that its jars need.

What else Maven fetches for tests, as `schema_registry.py` does, comes the same way: `from_maven`.

Nothing here is needed by `make test`. Where there is no JDK or no Maven, `JarsUnavailable` says so, and what needs the
jars is skipped with that reason; with ASSIGNOR_REQUIRE_JARS=1, as `make test-kafka` sets it, that is a failure.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from assignor.configs.kafka_versions import KafkaVersion
from tests.checkout import ROOT

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "oracle"
POM = HERE / "pom.xml"
RELEASES = tuple(version.rules.release for version in KafkaVersion)
"""All that results are compared with, oldest first."""

DEFAULT_RELEASE = RELEASES[0]
"""The release for tests and benchmarks that need only one."""

MINIMUM_JAVA = 17
_LONGEST_FETCH_S = 600
_LONGEST_COMPILATION_S = 300


class JarsUnavailable(Exception):
    """Why there are no jars here, and what would have to be installed."""


def class_path(release: str = DEFAULT_RELEASE) -> str:
    """The jars of a release, fetched if need be, as a class path. Raises JarsUnavailable."""
    return f"{_fetched(release)}/*"


def compiled(source: Path, *beside: Path, release: str = DEFAULT_RELEASE) -> str:
    """A class path with the jars of a release and the classes of our own Java files. The files are compiled again when
    a file or the jars changed.

    `source`: the one that names the program; `beside`: others that it needs.
    """
    jars = class_path(release)
    sources = (source, *beside)
    read = [each.read_bytes() for each in (*sources, POM)]
    stamp = hashlib.sha256(b"".join(read)).hexdigest()[:16]
    classes = BUILD / "classes" / f"{source.stem}-{release}-{stamp}"
    if not classes.exists():
        unfinished = classes.with_suffix(f".{os.getpid()}")
        command = [
            _program("javac"),
            "-Xlint:all,-serial,-classfile",
            "-d",
            str(unfinished),
            "-cp",
            jars,
            *map(str, sources),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_COMPILATION_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{source.name} does not compile with Kafka {release}:\n{done.stdout}{done.stderr}")
        _moved(unfinished, classes)
    return f"{classes}{os.pathsep}{jars}"


def java() -> str:
    """The Java that runs broker, applications and harness. Raises JarsUnavailable."""
    return _program("java")


def from_maven(
    what: str, pinned_by: bytes, arguments: Sequence[str], complete: Callable[[Path], None] = lambda directory: None
) -> Path:
    """A directory with what one call of Maven puts there, kept until `pinned_by` is another.

    `what`: its name. `arguments`: of Maven, less the directory. `complete`: what is done to the directory before anyone
    sees it. Raises JarsUnavailable when Maven cannot fetch it; what `complete` raises.
    """
    kept = BUILD / f"{what}-{hashlib.sha256(pinned_by).hexdigest()[:16]}"
    if not kept.exists():
        _program("javac")
        unfinished = kept.with_suffix(f".{os.getpid()}")
        print(f"fetching {what} with Maven ...", file=sys.stderr)
        done = subprocess.run(
            # strict: what does not have the checksum that its repository names is refused
            [_program("mvn"), "-q", "-B", "--strict-checksums", *arguments, f"-DoutputDirectory={unfinished}"],
            capture_output=True,
            text=True,
            timeout=_LONGEST_FETCH_S,
            check=False,
        )
        if done.returncode != 0:
            raise JarsUnavailable(f"Maven could not fetch {what}: {(done.stdout + done.stderr)[-600:]}")
        complete(unfinished)
        _moved(unfinished, kept)
    return kept


def _fetched(release: str) -> Path:
    arguments = ["-f", str(POM), f"-Dkafka.version={release}", "dependency:copy-dependencies"]
    return from_maven(f"jars-{release}", POM.read_bytes(), arguments)


def _moved(unfinished: Path, finished: Path) -> None:
    """Complete or not there at all, also when two processes make it at the same time."""
    try:
        unfinished.rename(finished)
    except OSError:
        if not finished.exists():
            raise
        shutil.rmtree(unfinished)


def _program(name: str) -> str:
    java_home = os.environ.get("JAVA_HOME")
    if java_home is not None and name != "mvn" and (Path(java_home) / "bin" / name).exists():
        return str(Path(java_home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise JarsUnavailable(f"there is no {name!r} here: a JDK {MINIMUM_JAVA} or newer and Maven are needed")
    return found


if __name__ == "__main__":
    try:
        for each in RELEASES:
            print(class_path(each))
    except JarsUnavailable as reason:
        sys.exit(str(reason))
