"""`assignor decode`: shows the bytes of a subscription or assignment as text or JSON."""

import base64
import contextlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assignor.errors import DecodeError, InputError
from assignor.protocol.describe import KINDS, Described, describe
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import fitted
from operating_system.whole_files import input_errors
from rebalance_analysis.reading.sources import STDIN

_HEX = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2})+\Z")


def decode_bytes(
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="Base64 or hex; @FILE for a file with base64, hex or bytes; - for stdin."),
    ],
    kind: Annotated[
        str | None,
        typer.Option("--as", metavar="KIND", help=f"One of {', '.join(KINDS)}; default: the first that fits."),
    ] = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Decode the bytes of a subscription or an assignment."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"must be one of {', '.join(KINDS)}, not {kind!r}", "--as")
    found, described = _described(_readings(value), KINDS if kind is None else (kind,))
    text = "\n".join([found, *_text_lines(described, "  ")])
    show({"kind": found, **described}, lambda view: fitted(text, view), format)


def _readings(value: str) -> list[bytes]:
    """Returns every byte string that the text can stand for. Some texts are valid both as hex and as base64."""
    if value == STDIN:
        content = sys.stdin.buffer.read()
    elif value.startswith("@"):
        with input_errors("cannot be read", value[1:], ValueError):
            content = Path(value[1:]).read_bytes()
    else:
        readings = _readings_of_text(value)
        if not readings:
            raise InputError("is neither hex nor base64; for a file write @FILE", "VALUE")
        return readings
    return [*_readings_of_text(content.decode("ascii", "replace")), content]


def _readings_of_text(text: str) -> list[bytes]:
    compact = "".join(text.split())
    readings = [bytes.fromhex(compact.removeprefix("0x"))] if _HEX.match(compact) else []
    with contextlib.suppress(ValueError):
        readings.append(base64.b64decode(compact, validate=True))
    return readings


def _described(readings: Sequence[bytes], kinds: Sequence[str]) -> tuple[str, dict[str, Described]]:
    """Decodes the bytes. Tries the kinds in the order of `kinds`, and uses the first kind that fits. Returns this kind
    and the decoded fields.
    """
    problems = []
    for raw in readings:
        for kind in kinds:
            try:
                return kind, describe(kind, raw)
            except DecodeError as error:
                problems.append(str(error))
    raise InputError(f"these bytes are not {' or '.join(kinds)}: {'; '.join(dict.fromkeys(problems))}", "VALUE")


def _text_lines(value: Described, indent: str) -> list[str]:
    if isinstance(value, dict):
        lines = []
        for key, entry in value.items():
            if isinstance(entry, dict) and entry:
                lines += [f"{indent}{key}:", *_text_lines(entry, f"{indent}  ")]
            else:
                lines.append(f"{indent}{key}: {_inline(entry)}")
        return lines
    return [f"{indent}{_inline(value)}"]


def _inline(value: Described) -> str:
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int):
            return f"{value[0]}-{value[1]}"
        return ", ".join(map(_inline, value)) or "none"
    if value is None or value == {}:
        return "none"
    return str(value)
