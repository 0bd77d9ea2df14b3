"""What a stranger does in the first hour, from the built wheel in an empty directory: nothing comes from the checkout.

The stranger runs the commands of docs/tutorial/first-hour.md in their order, and they print what the page shows. Then
the application is reset, and counts everything again without Spark. The steps are fixtures that follow each other; each
test checks one of them. So the tests may run in any order, and each alone.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.acceptance.stranger import Stranger
from tests.docs.pages import blocks
from tests.docs.python_blocks import file_name
from tests.known import known
from tests.package.distributions import build
from tests.package.environments import TRIED, fresh_environment, interpreter, running_python
from tests.package.test_deployment import free_port
from tests.running_program import RunningProgram
from tests.waiting import wait_until

PAGE = "docs/tutorial/first-hour.md"
TERMINALS = ("assignor serve", "assignor workers run")
"""Commands that the page gives a terminal of their own, because they run on."""
WITHIN_S = 180.0
RESET = "assignor reset --application-id words " + " ".join(f"--state-dir=state/instance-{n}" for n in range(3))
NEEDS_EXTRA = {
    "serve": "coordinator",
    "groups list": "coordinator",
    "workers run count_words:application": "spark",
    "replay recordings --output out": "batch",
    "record --group orders": "kafka,streams",
    "reset --application-id words --bootstrap-server embedded:log": "streams",
    "topics list --bootstrap-server BROKER": "kafka",
}
"""Commands of the package without extras, and the one that each needs."""

pytestmark = [pytest.mark.long, pytest.mark.spark]

WithoutExtras = dict[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stranger, WithoutExtras]]:
    """First the stranger installs the package alone, and then all of it."""
    wheel, _ = build(tmp_path_factory.mktemp("wheel"))
    # the Python that runs the tests, if it is declared: `test_pythons` tries the others
    python = next(found for version in (running_python(), *TRIED) if (found := interpreter(version)))
    environment = fresh_environment(tmp_path_factory.mktemp("stranger"), python, with_pip=True)
    environment.install_by_pip(f"assignor @ {wheel.as_uri()}")
    with socket.create_server(("127.0.0.1", 0)) as anybody:
        broker = f"127.0.0.1:{anybody.getsockname()[1]}"
        without_extras = {
            command: environment.run("assignor", *command.replace("BROKER", broker).split()) for command in NEEDS_EXTRA
        }
    extras = "all" if shutil.which("java") else "all,java"
    environment.install(f"assignor[{extras}] @ {wheel.as_uri()}", "pytest")
    with ExitStack() as running:
        running.callback(environment.remove)
        yield Stranger(environment, running, free_port()), without_extras


@pytest.fixture(scope="module")
def stranger(installed: tuple[Stranger, WithoutExtras]) -> Stranger:
    return installed[0]


@pytest.fixture(scope="module")
def workers(stranger: Stranger) -> RunningProgram:
    """`assignor workers run` of the page, after all commands of the page."""
    shown = [block for block in blocks(PAGE) if block.language in ("shell", "python", "text")][1:]  # 0 installs
    for block, following in zip(shown, [*shown[1:], shown[0]], strict=True):
        if block.language == "python":
            (stranger.home / known(file_name(block))).write_text(block.code, encoding="utf-8")
        elif block.language == "shell" and block.code.startswith(TERMINALS):
            program = stranger.starts(block.code)
        elif block.language == "shell":
            run_until_it_prints(stranger, block.code, following.code if following.language == "text" else None)
    return program


def run_until_it_prints(stranger: Stranger, code: str, expected: str | None) -> None:
    """The page says to ask again while others are at work."""
    ended: list[subprocess.CompletedProcess[str]] = []

    def as_shown() -> bool:
        assert not ended or "kill" not in code, f"no executor is killed twice: {ended[-1]}"
        ended.append(stranger.tries(code))
        return ended[-1].returncode == 0 and expected in (None, ended[-1].stdout)

    wait_until(as_shown, lambda: f"{code}: {ended[-1]}", WITHIN_S, every_s=0.5)


@pytest.fixture(scope="module")
def plan(stranger: Stranger, workers: RunningProgram) -> str:
    """What a reset would do."""
    assert workers.wait() == 0
    return stranger.runs(RESET)


@pytest.fixture(scope="module")
def second_run(stranger: Stranger, plan: str) -> RunningProgram:
    """After a reset, and without Spark."""
    totals = stranger.runs("python totals.py")
    assert "words" in plan
    stranger.runs(f"{RESET} --execute")
    stranger.runs("assignor topics delete word-counts\nassignor topics create word-counts --partitions 4")
    program = stranger.starts("assignor workers run words:app --local --instances 2")
    run_until_it_prints(stranger, "python totals.py", totals)
    return program


class TestFirstHour:
    def test_should_be_installed_without_the_checkout(self, stranger: Stranger) -> None:
        where = stranger.runs("python -c 'import assignor, coordinator_api; print(assignor.__file__)'")

        assert Path(where.strip()).is_relative_to(stranger.environment.bin.parent)
        assert re.fullmatch(r"assignor \d+\.\d+\.\d+ \(Python .*\)\n", stranger.runs("assignor --version"))

    def test_should_count_every_word_although_an_executor_is_killed(self, workers: RunningProgram) -> None:
        assert workers.wait() == 0
        assert re.search(r"^instance \d was lost with executor \d on .*; Spark starts it again$", workers.log, re.M)
        assert "Traceback" not in workers.log

    def test_should_say_what_a_reset_would_do_first(self, plan: str) -> None:
        assert plan.startswith("words: a reset would do this; nothing is changed\n")
        assert plan.endswith("--execute does it.\n")
        assert re.search(r"^offset +lines-0 +\d+ -> 0$", plan, re.M)
        assert re.search(r"^topic +words-counts-changelog +deleted$", plan, re.M)

    def test_should_count_all_of_it_again_after_the_reset(self, second_run: RunningProgram) -> None:
        assert second_run.interrupt() == 0

    @pytest.mark.parametrize("path", ["/", "/docs", "/version", "/openapi.json"])
    def test_should_answer_a_browser(self, stranger: Stranger, workers: RunningProgram, path: str) -> None:
        assert httpx.get(f"{stranger.coordinator}{path}", trust_env=False).status_code == 200


# Errors. Each says in one line what, where and what to do. 1: the answer is no. 2: the command or its input is wrong.


class TestWithoutExtras:
    @pytest.mark.parametrize("command", NEEDS_EXTRA)
    def test_should_say_which_extra_a_command_needs(
        self, installed: tuple[Stranger, WithoutExtras], command: str
    ) -> None:
        ended = installed[1][command]

        what = "needs an extra that is not installed"
        if "BROKER" in command:
            what = "is a Kafka cluster, and its client is not installed"
        assert re.fullmatch(rf"error: .*{what}: pip install 'assignor\[{NEEDS_EXTRA[command]}\]'.*\n", ended.stderr)
        assert (ended.returncode, ended.stdout) == (2, "")
