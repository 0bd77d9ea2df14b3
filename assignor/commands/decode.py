"""`assignor decode`: the bytes of a subscription or assignment as text or JSON."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from assignor.commands.console import Format, as_line
from assignor.commands.lines import STDIN
from assignor.errors import DecodeError, InputError
from assignor.protocol.describe import KINDS, Described, describe

_HEX = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2})+\Z")


def register(app: typer.Typer) -> None:
    app.command("decode")(decode_bytes)


def decode_bytes(
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help="Base64 or hex; @FILE for a file's raw bytes, base64 or hex; - for stdin."
        ),
    ],
    kind: Annotated[
        str | None, typer.Option("--as", metavar="KIND", help=f"One of {', '.join(KINDS)}; found out when not given.")
    ] = None,
    format: Annotated[Format, typer.Option("--format")] = Format.TEXT,
) -> None:
    """Show what the bytes of a subscription or an assignment say."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"must be one of {', '.join(KINDS)}, not {kind!r}", "--as")
    found, described = _described(_bytes_of(value), kind)
    if format is Format.JSON:
        print(as_line({"kind": found, **described}))
    else:
        print("\n".join([found, *_text_lines(described, "  ")]))


def _bytes_of(value: str) -> bytes:
    if value == STDIN:
        return _text_or_raw(sys.stdin.buffer.read())
    if value.startswith("@"):
        try:
            return _text_or_raw(Path(value[1:]).read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", value[1:]) from None
    raw = _from_text(value)
    if raw is None:
        raise InputError("is neither hex nor base64; for a file write @FILE", "VALUE")
    return raw


def _text_or_raw(content: bytes) -> bytes:
    text = content.decode("ascii", "replace").strip()
    return _from_text(text) or content


def _from_text(text: str) -> bytes | None:
    compact = "".join(text.split())
    if _HEX.match(compact):
        return bytes.fromhex(compact.removeprefix("0x"))
    try:
        return base64.b64decode(compact, validate=True)
    except (binascii.Error, ValueError):
        return None


def _described(raw: bytes, kind: str | None) -> tuple[str, dict[str, Described]]:
    """The first kind under which the bytes make sense, or the given one."""
    if kind is not None:
        return kind, describe(kind, raw)
    problems = []
    for candidate in KINDS:
        try:
            return candidate, describe(candidate, raw)
        except DecodeError as error:
            problems.append(str(error))
    raise InputError("these bytes are none of " + ", ".join(KINDS) + ": " + "; ".join(problems), "VALUE")


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
