"""What deploy/ has: the unit and the Containerfile are read, and their steps are run in a fresh environment.

No systemd would start a unit here, and no daemon would build an image: the sandbox of the one and the layers of the
other are not tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from coordinator_api.settings import setting_rows
from tests.checkout import ROOT
from tests.package.distributions import build
from tests.package.environments import FreshEnvironment, fresh_environment, interpreter

UNIT = ROOT / "deploy" / "assignor-coordinator.service"
VARIABLES = ROOT / "deploy" / "coordinator.env"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
INSTALLED = "/opt/assignor"
STATE = "/var/lib/assignor"
TOKEN = "a-token-for-tests"
ENDS_WITHIN_S = 15.0
KNOWN = frozenset(
    "FROM ARG RUN ENV USER WORKDIR VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD".split()  # noqa: SIM905 (words)
)

pytestmark = pytest.mark.long


def of_unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def instructions() -> list[tuple[str, str]]:
    """Name and arguments of each one, in order."""
    lines = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [line.split(maxsplit=1) for line in lines.replace("\\\n", " ").splitlines() if line.strip()]
    return [(name, rest) for name, rest in found]


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshEnvironment]:
    """As both ways to deploy install it, but in the lock's versions."""
    python = next(found for version in ("3.13", "3.12", "3.11") if (found := interpreter(version)))
    extras = next(rest for rest in arguments("ARG") if rest.startswith("EXTRAS=")).removeprefix("EXTRAS=")
    made = fresh_environment(tmp_path_factory.mktemp("deployed"), python, f"assignor[{extras}] @ {wheel.as_uri()}")
    yield made
    made.remove()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the service may write, in the place of /var/lib/assignor."""
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


class Served:
    """A running service, ended as systemd and podman end one."""

    def __init__(
        self, environment: FreshEnvironment, command: Sequence[str], variables: dict[str, str], directory: Path
    ) -> None:
        self.port = free_port()
        placed = {name: value.replace(STATE, str(directory)) for name, value in variables.items()}
        mine = placed | {"ASSIGNOR_PORT": str(self.port), "ASSIGNOR_AUTH_TOKEN": TOKEN}
        mine["ASSIGNOR_SHUTDOWN_TIMEOUT_MS"] = str(int(800 * ENDS_WITHIN_S))  # a busy machine may be slow to write
        self.running = environment.start(*command, log=directory / "said.log", variables=mine)

    def __enter__(self) -> Served:
        self.running.wait_for(r"(http://\S+)")
        return self

    def __exit__(self, *error: object) -> None:
        self.running.__exit__(None, None, None)

    def status(self, path: str, **headers: str) -> int:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=headers, trust_env=False).status_code

    def stop(self) -> int:
        """Its exit code after the signal of a stop."""
        self.running.signal(signal.SIGTERM)
        return self.running.wait(ENDS_WITHIN_S)


class TestUnit:
    @pytest.fixture
    def unit(self, environment: FreshEnvironment, tmp_path: Path) -> Path:
        """With the place of this environment instead of /opt/assignor."""
        place = tmp_path / UNIT.name
        place.write_text(UNIT.read_text(encoding="utf-8").replace(INSTALLED, str(environment.bin.parent)))
        return place

    @pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on this machine")
    def test_should_be_a_unit_as_systemd_reads_it(self, unit: Path) -> None:
        read = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)

        assert (read.returncode, read.stdout + read.stderr) == (0, "")

    @pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on this machine")
    def test_should_leave_the_service_few_rights(self, unit: Path) -> None:
        command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)]

        judged = subprocess.run(command, capture_output=True, text=True)

        assert judged.returncode == 0, judged.stdout

    def test_should_serve_with_the_environment_of_the_unit_and_end_in_time(
        self, environment: FreshEnvironment, state: Path
    ) -> None:
        variables = dict(line.split("=", 1) for line in of_unit("Environment"))
        variables |= {"ASSIGNOR_HOST": "0.0.0.0"}  # as in coordinator.env
        (command,) = of_unit("ExecStart")
        assert command.startswith(f"{INSTALLED}/bin/assignor ")
        longest_s = float(of_unit("TimeoutStopSec")[0])

        with Served(environment, ["assignor", *command.split()[1:]], variables, state) as served:
            statuses = [served.status("/v1/groups"), served.status("/v1/groups", Authorization=f"Bearer {TOKEN}")]
            ended = served.stop()

        assert statuses == [401, 200]
        assert ended == 0
        assert longest_s <= ENDS_WITHIN_S
        assert (state / "assignor.sqlite3").is_file()
        assert [json.loads(line) for line in served.running.log.splitlines() if line.startswith("{")] != []


def test_should_set_only_variables_that_are_settings() -> None:
    given = re.findall(r"^(ASSIGNOR_\w+)=", VARIABLES.read_text(encoding="utf-8"), re.MULTILINE)
    given += [line.partition("=")[0] for line in (*of_unit("Environment"), *arguments("ENV"))]

    assert len(given) > 5
    assert set(given) <= {row.environment for row in setting_rows()}


class TestContainerfile:
    def test_should_have_nothing_but_known_instructions_in_a_working_order(self) -> None:
        names = [name for name, _ in instructions()]

        assert names[0] == "FROM"
        assert set(names) <= KNOWN
        assert max(n for n, name in enumerate(names) if name == "RUN") < names.index("USER"), "RUN steps need root"
        assert names[-2:] == ["ENTRYPOINT", "CMD"]

    def test_should_run_the_steps_that_build_it(
        self, environment: FreshEnvironment, wheel: Path, tmp_path: Path
    ) -> None:
        extras = arguments("ARG")[0].removeprefix("EXTRAS=")
        steps = [re.sub(r"^--mount=\S+ ", "", rest) for rest in arguments("RUN")]
        if os.getuid() != 0:
            steps = [re.sub(r" --(owner|group)=\d+", "", step) for step in steps]
        for step in steps:
            placed = step.replace("/dist/", f"{wheel.parent}/").replace(STATE, str(tmp_path / "made"))
            ended = environment.run("sh", "-c", f"EXTRAS={extras}; {placed}")
            assert ended.returncode == 0, ended.stdout + ended.stderr

        assert (tmp_path / "made").is_dir()

    def test_should_serve_with_its_command_and_be_found_healthy(
        self, environment: FreshEnvironment, state: Path
    ) -> None:
        variables = dict(line.split("=", 1) for line in arguments("ENV"))
        command = [*json.loads(arguments("ENTRYPOINT")[0]), *json.loads(arguments("CMD")[0])]
        check = json.loads(arguments("HEALTHCHECK")[0].partition("CMD ")[2])
        assert arguments("STOPSIGNAL") == ["SIGTERM"]

        with Served(environment, command, variables, state) as served:
            probe = [word.replace("8080", str(served.port)) for word in check]
            healthy = environment.run(*probe).returncode
            ended = served.stop()
        unhealthy = environment.run(*probe).returncode

        assert (healthy, ended) == (0, 0)
        assert unhealthy != 0

    def test_should_refuse_to_serve_without_a_token(self, environment: FreshEnvironment, state: Path) -> None:
        given = ["env", *arguments("ENV")[:1]]

        ended = environment.run(*given, "assignor", "serve")

        assert ended.returncode == 2
        assert ended.stderr.splitlines()[-1].startswith(
            "error: host 0.0.0.0 can be reached from outside this machine, and there is no token"
        )
