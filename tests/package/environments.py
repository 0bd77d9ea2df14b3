"""Fresh environments: a Python with nothing but what is installed from the built wheel, and an empty directory.

Everything but the wheel comes from the package registry, in the versions of requirements.lock: through `uv`, which
links what an earlier environment has as well, or through `pip`, as a stranger does it.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from docs._tools.lock_files import LOCK_FILES, pinned
from tests.checkout import ROOT
from tests.running_program import RunningProgram

TRIED = ("3.11", "3.12", "3.13")
"""The Pythons that the package declares, and is tried with."""

_KEPT = ("PATH", "HOME", "LANG", "JAVA_HOME", "TMPDIR", "SSL_CERT_FILE")
_PREFIX = "PIP_"  # where the machine's registry is
_FOR_UV = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_FIND_LINKS": "UV_FIND_LINKS", "PIP_CERT": "SSL_CERT_FILE"}
INSTALLED_WITHIN_S = 900.0


def running_python() -> str:
    """The version of the one that runs the tests, as in `TRIED`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(version: str) -> Path | None:
    """A Python of that version on this machine, if it has one: on the PATH, or among pyenv's."""
    named = shutil.which(f"python{version}")
    found = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in [*([Path(named)] if named else []), *found]:
        said = subprocess.run([candidate, "-c", "import sys; print(sys.version)"], capture_output=True, text=True)
        if said.returncode == 0 and said.stdout.startswith(f"{version}."):  # pyenv's shims may be there and run nothing
            return candidate
    return None


@dataclass(frozen=True)
class FreshEnvironment:
    """`bin`: where its programs are. `home`: an empty directory that its programs run in."""

    bin: Path
    home: Path

    @property
    def scratch(self) -> Path:
        """Where its programs have their temporary files: what others left on the machine is not in their way."""
        return self.home.parent / "scratch"

    def install(self, *requirements: str, links_pyspark: bool = True) -> None:
        """As pip takes them, such as `assignor[all] @ file:///…whl`; in the lock's versions."""
        if links_pyspark and any("[all" in requirement for requirement in requirements):
            self._link_pyspark()
        uv, python = Path(sys.executable).with_name("uv"), self.bin / "python"
        registry = {_FOR_UV[name]: value for name, value in os.environ.items() if name in _FOR_UV}
        self._installed(str(uv), "pip", "install", "--python", str(python), *requirements, variables=registry)

    def _link_pyspark(self) -> None:
        """Gives the environment the PySpark of the Python that runs the tests: it has no compiled part. The registry
        has only its source distribution, which takes half a minute and 2 GB to build, for each environment.
        """
        distribution = importlib.metadata.distribution("pyspark")
        # uv would replace another version, and with it the files behind the link
        assert f"\npyspark=={distribution.version} " in (ROOT / "requirements.lock").read_text(), "`make setup` is due"
        (packages,) = self.bin.parent.glob("lib/python*/site-packages")
        metadata = f"pyspark-{distribution.version}.dist-info"
        (packages / "pyspark").symlink_to(Path(str(distribution.locate_file("pyspark"))).resolve(strict=True))
        shutil.copytree(str(distribution.locate_file(metadata)), packages / metadata)  # uv sees no link

    def install_by_pip(self, *requirements: str) -> None:
        """The same with the environment's own pip."""
        self._installed("python", "-m", "pip", "install", "--no-compile", *requirements)

    def _installed(self, *command: str, variables: Mapping[str, str] | None = None) -> None:
        constraints = self.home.parent / "constraints.txt"
        constraints.write_text("".join(pinned(file.read_text()) for file in LOCK_FILES))
        whole = [*command, "--quiet", "--constraint", str(constraints)]
        ended = self.run(*whole, timeout_s=INSTALLED_WITHIN_S, variables=variables)
        assert ended.returncode == 0, f"{' '.join(whole)}\n{ended.stdout}{ended.stderr}"

    def remove(self) -> None:
        """All that was installed: with every extra it is a gigabyte."""
        shutil.rmtree(self.bin.parent, ignore_errors=True)

    def run(
        self,
        *command: str,
        stdin: str | None = None,
        timeout_s: float = 300.0,
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run to its end, whatever that is. The command is one of this environment's, or one of the machine's.

        `variables`: more of its environment.
        """
        return subprocess.run(
            self.command(*command),
            cwd=self.home,
            env={**self.variables(), **(variables or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def start(
        self, *command: str, log: Path, variables: Mapping[str, str], own_session: bool = False
    ) -> RunningProgram:
        """The caller ends it. `variables`: more of its environment."""
        environment = {**self.variables(), **variables}
        return RunningProgram(
            self.command(*command), log, cwd=self.home, environment=environment, own_session=own_session
        )

    def command(self, *command: str) -> list[str]:
        own = self.bin / command[0]
        return [str(own) if own.exists() else command[0], *command[1:]]

    def variables(self) -> dict[str, str]:
        """Those of a login, and the registry's: no PYTHONPATH leads to the checkout, no setting is given."""
        kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_PREFIX)}
        return {**kept, "TMPDIR": str(self.scratch), "PATH": f"{self.bin}{os.pathsep}{kept['PATH']}"}


def fresh_environment(
    directory: Path, python: Path, *requirements: str, with_pip: bool = False, links_pyspark: bool = True
) -> FreshEnvironment:
    """With what `FreshEnvironment.install` makes of the requirements, if there are any."""
    environment = FreshEnvironment(directory / "environment" / "bin", directory / "empty")
    environment.home.mkdir(parents=True)
    environment.scratch.mkdir()
    options = [] if with_pip else ["--without-pip"]
    made = environment.run(str(python), "-m", "venv", *options, str(environment.bin.parent))
    assert made.returncode == 0, made.stdout + made.stderr
    if requirements:
        environment.install(*requirements, links_pyspark=links_pyspark)
    return environment
