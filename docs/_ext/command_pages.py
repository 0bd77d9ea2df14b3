"""The reference of the command line, from the commands themselves."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from typer.main import get_command

from assignor_cli.app import build_app
from docs._ext.markdown import code, fenced, table

PROGRAM = "assignor"
_REMARKS = re.compile(r"\s*\[(?P<remarks>[^\[\]]*(?:default: |required|x>=|x<=|<=x|>=x)[^\[\]]*)\]\Z", re.DOTALL)
"""The remarks that typer appends to an option's text."""
_TOLD_DEFAULT = re.compile(r"[.;] [Dd]efault: (?P<default>.+)\.\Z", re.DOTALL)
"""The end of a text that names the default itself, because the code determines the default later."""
_KIND = re.compile(r" <(?:list\[)?(?P<kind>\w+)(?: range)?\]?>")
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)+")
_AT_LEAST, _BETWEEN = re.compile(r"x>=(\S+)"), re.compile(r"(\S+)<=x<=(\S+)")


@cache
def commands() -> dict[str, Any]:
    """Every command that runs something, by its words after `assignor`, in alphabetical order. typer has its own click
    or uses the installed one; this code uses only names that both have.
    """
    return dict(_below(get_command(build_app()), ()))


def command_reference() -> str:
    """One section a command: what it does, how it is called, its options with their defaults, an example."""
    return "\n".join(_section(words, command) for words, command in commands().items())


def _below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words), command
        return
    for name, each in sorted(inner.items()):
        if not each.hidden:
            yield from _below(each, (*words, name))


def _section(words: str, command: Any) -> str:
    context = command.context_class(command, info_name=f"{PROGRAM} {words}")
    pieces = [
        re.sub(r"\{([^{}]+)\}", r"\1", each).replace("......", "...") for each in command.collect_usage_pieces(context)
    ]
    parts = [
        f"## {PROGRAM} {words}\n",
        _prose(command.help or ""),
        fenced(" ".join([context.command_path, *pieces]), "text"),
    ]
    records = [each.get_help_record(context) for each in command.params]
    rows = [_row(*record) for record in records if record is not None]
    if rows:
        parts.append(table(("argument or option", "default", "what it is"), rows))
    if command.epilog:
        parts.append(_prose(command.epilog))
    return "\n".join(parts)


def _row(name: str, text: str) -> tuple[str, str, str]:
    """Name, default and text. A default stands in its column, whether typer or the text names it."""
    remarks: list[str] = []
    if found := _REMARKS.search(text):
        remarks = [each.strip() for each in found["remarks"].split(";")]
        text = text[: found.start()]
    default = next((each.removeprefix("default: ") for each in remarks if each.startswith("default: ")), None)
    told = "must be given" if "required" in remarks else code(" ".join(default.split())) if default else ""
    if found := _TOLD_DEFAULT.search(text):
        told, text = " ".join(found["default"].split()), f"{text[: found.start()]}."
        told = code(f"${told}") if _VARIABLE.fullmatch(told) else _escaped(told)
    bounds = [_bound(each) for each in remarks if not each.startswith("default: ") and each != "required"]
    return code(_without_kind(name)), told, _escaped(text) + (f" *Values: {', '.join(bounds)}.*" if bounds else "")


def _bound(remark: str) -> str:
    return _BETWEEN.sub(r"\1 to \2", _AT_LEAST.sub(r"from \1", remark))


def _without_kind(name: str) -> str:
    """Without the kind of value: the name of an argument, or of an option's value, describes it."""
    return _KIND.sub(lambda found: f" {found['kind'].upper()}" if name.startswith("-") else "", name)


def _prose(text: str) -> str:
    r"""Help as Markdown: paragraphs stay, and one that begins with \b keeps its lines."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            title, *shown = [line.strip() for line in lines[1:]]
            parts += [f"{title}\n", fenced("\n".join(shown), "shell")]
        else:
            parts.append(_escaped(" ".join(line.strip() for line in lines)) + "\n")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    """Mark options as code, and escape text that Markdown would read as emphasis, a tag or a link; code stays as
    it is.
    """
    pieces = re.split(r"(`[^`]*`)", re.sub(r"(?<![`\w-])(--[a-z][a-z-]*)(?![`\w])", r"`\1`", text))
    return "".join(each if each.startswith("`") else re.sub(r"([*_<>\[\]#])", r"\\\1", each) for each in pieces)
