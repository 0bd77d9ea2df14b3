"""The command lines in the shell blocks of a page, and whether `assignor` understands them."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from docs._ext.command_pages import commands
from tests.docs.pages import Block

_ENDS = {"|", ">", ">>", "<", "&", "&&", "||", ";", "2>&1"}


def command_lines(block: Block) -> Iterator[str]:
    """Lines as they are typed: continued ones joined; of a console block those after the prompt, without its output."""
    lines = re.sub(r"\\\n\s*", " ", block.code).splitlines()
    if block.language == "shell":
        lines = list(_whole(lines))
    if block.language == "console":
        yield from (line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    else:
        yield from (line for line in lines if line.strip() and not line.startswith("#"))


def _whole(lines: list[str]) -> Iterator[str]:
    """Lines with those that follow them within the same quotes."""
    begun = ""
    for line in lines:
        begun += line
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            begun += "\n"
            continue
        yield begun
        begun = ""
    assert begun == "", f"quotes that do not end: {begun}"


def calls_of_assignor(line: str) -> Iterator[list[str]]:
    """The arguments of each call of `assignor` in the line."""
    words = shlex.split(line, comments=True)
    while "assignor" in words:
        words = words[words.index("assignor") + 1 :]
        ends = [place for place, word in enumerate(words) if word in _ENDS]
        yield words[: ends[0]] if ends else words


def misunderstood(arguments: list[str]) -> str | None:
    """Why `assignor` would refuse these arguments before it does anything; None when it understands them."""
    if arguments in ([], ["--help"], ["--version"], ["--install-completion"], ["--show-completion"]):
        return None
    known = commands()
    words = next((each for each in (" ".join(arguments[:2]), arguments[0]) if each in known), None)
    if words is None:
        return f"there is no command {' '.join(arguments[:2])!r}"
    command: Any = known[words]
    context = command.context_class(command, info_name=words)
    try:
        command.make_parser(context).parse_args(args=arguments[len(words.split()) :])
    except Exception as error:  # typer may bring a click of its own, whose errors have no public name
        return str(error) or repr(error)
    return None
