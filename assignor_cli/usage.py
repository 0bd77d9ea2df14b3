"""A command line that cannot be understood, as one line: what is wrong, the nearest that there is, where to read on.

Click's own answer has four lines, and names each option that contains the wrong one.
"""

from __future__ import annotations

from typing import Any

import typer

from assignor.near_names import near_name

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Click's, of the click that typer brings or of the one that is installed. Its `exit_code` is 2."""

_BEFORE_THE_PROBLEM = "Value error, "


def usage_text(error: Any) -> str:
    """What `main` prints for a UsageError: the whole help where a command was called without any words."""
    message = str(error.format_message())
    if "\n" in message:
        return message
    context = error.ctx
    if context is None:
        return f"error: {message}"
    wrong = getattr(error, "option_name", None)
    if getattr(error, "possibilities", None) is not None and wrong is not None:
        message = f"no such option: {wrong}{_nearest(wrong, context.command)}"
    text = message.replace(_BEFORE_THE_PROBLEM, "").rstrip(".")
    return f"error: {text[:1].lower()}{text[1:]} (see {context.command_path} --help)"


def _nearest(wrong: str, command: Any) -> str:
    known = [name for each in command.params for name in each.opts if name.startswith("--")]
    near = near_name(wrong, [*known, "--help"])
    return "" if near is None else f"; did you mean {near}?"
