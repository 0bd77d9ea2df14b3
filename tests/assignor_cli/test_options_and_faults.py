"""What every command stands on: options become values, and faults become one line and an exit code."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NoReturn

import pytest
import typer

import assignor_cli.app
from assignor.errors import AssignorFault, InputError, KafkaError, Unavailable
from assignor_cli.app import build_app
from assignor_cli.console import (
    EXIT_NO,
    EXIT_NOBODY_READS,
    EXIT_UNUSABLE,
    CannotFinish,
    exit_code_of,
    exit_code_of_signal,
)
from assignor_cli.option_groups import options_of
from tests.checkout import ROOT
from tests.program import assignor as run_program


@dataclass(frozen=True, slots=True)
class Ladder:
    rungs: Annotated[int, typer.Option("--rungs", min=1)] = 7
    colour: Annotated[str | None, typer.Option("--colour")] = None

    def __post_init__(self) -> None:
        if self.colour == "invisible":
            raise InputError("must be seen", "--colour")


def wall_of_options(*, height: Annotated[float, typer.Option("--height")] = 2.5) -> tuple[str, float]:
    return "wall", height


@options_of(ladder=Ladder, wall=wall_of_options)
def climb(who: Annotated[str, typer.Argument()], ladder: Ladder, wall: tuple[str, float]) -> None:
    """Climb a wall."""
    print(who, ladder, wall)


def stumble(fault: Exception) -> Callable[[], None]:
    def command() -> NoReturn:
        raise fault

    return command


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """Has the command `climb`; a test adds its own."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command("climb")(climb)
    monkeypatch.setattr(assignor_cli.app, "program", lambda: app)
    return app


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("ann",), "ann Ladder(rungs=7, colour=None) ('wall', 2.5)"),
        (
            ("ann", "--height", "9", "--colour", "red", "--rungs", "3"),
            "ann Ladder(rungs=3, colour='red') ('wall', 9.0)",
        ),
    ],
)
def test_should_make_values_of_their_options(program: typer.Typer, arguments: tuple[str, ...], printed: str) -> None:
    program.command("rest")(lambda: None)

    ran = run_program("climb", *arguments)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{printed}\n", "")


def test_should_show_the_options_of_a_value_where_its_parameter_stands(program: typer.Typer) -> None:
    program.command("rest")(lambda: None)

    shown = run_program("climb", "--help").stdout

    assert "Climb a wall." in shown
    assert [word for word in shown.split() if word.startswith("--")] == ["--rungs", "--colour", "--height", "--help"]


def test_should_take_the_checks_of_a_value_for_usage(program: typer.Typer) -> None:
    program.command("rest")(lambda: None)

    ran = run_program("climb", "ann", "--colour", "invisible")

    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "error: --colour: must be seen\n")


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (InputError("must be a number", "--n"), 2, "error: --n: must be a number\n"),
        (CannotFinish("the engine failed"), 2, "error: the engine failed\n"),
        (Unavailable("no broker answers"), 2, "error: no broker answers\n"),
        (KafkaError("no"), 1, "error: no\n"),
        (FileNotFoundError(2, "No such file or directory", "x.json"), 2, "error: x.json: No such file or directory\n"),
    ],
)
def test_should_end_with_one_line_and_a_code(program: typer.Typer, fault: Exception, code: int, said: str) -> None:
    program.command("stumble")(stumble(fault))

    ran = run_program("stumble")

    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", said)
    assert not isinstance(fault, AssignorFault) or exit_code_of(fault) == code


@pytest.mark.parametrize(("ended_by", "code"), [(KeyboardInterrupt(), 130), (KeyboardInterrupt(signal.SIGTERM), 143)])
def test_should_end_without_a_word_with_the_code_of_the_signal(
    program: typer.Typer, monkeypatch: pytest.MonkeyPatch, ended_by: BaseException, code: int
) -> None:
    def ends() -> NoReturn:
        raise ended_by

    monkeypatch.setattr(assignor_cli.app, "program", lambda: program_with(ends))

    # the command itself, and the program's help and version, which typer shows before there is a command
    for arguments in (("command",), ("--early",)):
        ran = run_program(*arguments)
        assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", "")


def program_with(ends: Callable[[], NoReturn]) -> typer.Typer:
    def early(given: bool) -> None:
        if given:
            ends()

    app = build_app()
    app.command("command")(ends)

    @app.callback()
    def all_commands(early: bool = typer.Option(False, "--early", callback=early, is_eager=True)) -> None:
        pass

    return app


@pytest.mark.parametrize("arguments", [(), ("groups",)])
def test_should_show_the_help_to_who_names_no_command(arguments: tuple[str, ...]) -> None:
    ran = run_program(*arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Usage: assignor")
    assert "Commands:" in ran.stderr


def test_should_name_every_exit_code_in_the_reference() -> None:
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)

    assert {int(code) for row in rows for code in row.split(",")} == {
        0,
        EXIT_NO,
        EXIT_UNUSABLE,
        exit_code_of_signal(KeyboardInterrupt()),
        exit_code_of_signal(KeyboardInterrupt(signal.SIGTERM)),
        EXIT_NOBODY_READS,
    }
