"""What the program says about itself: its version, an example for each command, what is not installed."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
import typer.main

from assignor_cli.app import build_app, program
from tests.program import assignor


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below `command` with the words that call it."""
    for name, inner in getattr(command, "commands", {}).items():
        yield (*path, name), inner
        yield from commands(inner, (*path, name))


PROGRAM: Any = typer.main.get_command(build_app())  # its own: contexts leave traces in commands
COMMANDS = dict(commands(PROGRAM))


def examples(command: Any) -> list[list[str]]:
    """The words of each example, without the program's name."""
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("assignor ")]


def parse(words: list[str]) -> None:
    """Raises what the command line would complain about. Runs nothing."""
    command, rest = PROGRAM, words
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context("assignor", list(rest))


def test_should_end_the_help_of_every_command_with_an_example_that_can_be_called() -> None:
    for path, command in COMMANDS.items():
        shown = examples(command)
        assert shown, f"{path} has none: epilog=example(...)"
        for words in shown:
            assert tuple(words[: len(path)]) == path
            assert len(f"  assignor {shlex.join(words)}") <= 80
            parse(words)


def test_should_say_in_the_list_what_every_command_does() -> None:
    for path, command in COMMANDS.items():
        first_line = command.get_short_help_str(1000)
        assert first_line.endswith("."), path
        assert len(first_line) <= 62, f"the list would cut what {path} does"


def test_should_say_its_version() -> None:
    ran = assignor("--version")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"assignor {version('assignor')} (Python 3.")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_should_help_by_the_short_flag_too(flag: str) -> None:
    for arguments in ((flag,), ("assign", flag), ("groups", "list", flag)):
        ran = assignor(*arguments)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "--help" in ran.stdout
        assert max(map(len, ran.stdout.splitlines())) <= 80


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_should_write_the_completion_of_a_shell_that_is_named(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ASSIGNOR_COMPLETE", f"source_{shell}")
    ran = assignor()

    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"_ASSIGNOR_COMPLETE=complete_{shell}" in ran.stdout


@pytest.mark.parametrize(
    ("typed", "place", "offered"),
    [
        ("assignor gr", "1", {"groups"}),
        ("assignor topics ", "2", {"list", "describe", "create", "alter", "delete"}),
        ("assignor explain --f", "2", {"--format"}),
        ("assignor groups list -o ", "4", {"text", "wide", "json", "yaml"}),
        ("assignor replay --engine ", "3", {"spark", "local"}),
    ],
)
def test_should_complete_typed_words(
    typed: str, place: str, offered: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shells' functions ask the program, as they ask it."""
    variables = {"COMP_WORDS": typed, "COMP_CWORD": place, "_TYPER_COMPLETE_ARGS": typed}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    monkeypatch.setenv("_ASSIGNOR_COMPLETE", "complete_bash")
    assert set(assignor().stdout.split()) == offered
    monkeypatch.setenv("_ASSIGNOR_COMPLETE", "complete_zsh")
    in_zsh = assignor().stdout
    assert in_zsh.startswith("_arguments")
    assert set(re.findall(r'^(?:_arguments .*\(\()?"([^":]+)"', in_zsh, re.MULTILINE)) == offered
    monkeypatch.delenv("_ASSIGNOR_COMPLETE")
    assert "--install-completion" in assignor("--help").stdout


MISSING = {
    "fastapi": ("coordinator", "serve", "migrate", "backup", "restore", "groups", "rebalances", "tokens"),
    "aiokafka": ("kafka,streams", "lead", "record"),
    "pyarrow": ("batch", "replay", "sweep"),
    "pyspark": ("spark", "demo"),
    "rocksdict": ("spark", "demo", "workers"),
}


@pytest.mark.parametrize("module", MISSING)
def test_should_list_commands_of_a_missing_extra_and_say_what_to_install(
    module: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    program.cache_clear()
    request.addfinalizer(program.cache_clear)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == module else found(name, *more))
    extra, *names = MISSING[module]
    remedy = f"pip install 'assignor[{extra}]'"
    listed = assignor("--help").stdout.splitlines()

    for name in names:
        assert [line.split(maxsplit=1) for line in listed if line.startswith(f"  {name} ")] == [
            [name, f"Needs {remedy}."]
        ]
        for arguments in ((name,), (name, "list", "--any", "--help")):
            ran = assignor(*arguments)
            assert (ran.returncode, ran.stdout, ran.stderr) == (
                2,
                "",
                f"error: assignor {name} needs an extra that is not installed: {remedy}\n",
            )
