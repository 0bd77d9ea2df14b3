"""Reads a Java `.properties` file. Kafka's own tools accept this format with `--command-config`.

Rules of the format: a property is a line `key=value`, `key: value` or `key value`. A line that begins with `#` or `!`
is a comment. A line that ends with an odd number of backslashes continues in the next line. The leading blanks of a
continuation line are dropped. The escapes `\\t`, `\\n`, `\\r`, `\\f` and `\\uXXXX` have the same meaning as in Java. A
backslash before any other character is dropped.
Source: `java.util.Properties.load`. Differs from Java: the file is UTF-8.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from assignor.errors import InputError

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|$)", re.DOTALL)
_SHORT_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties_file(path: Path | str) -> dict[str, str]:
    """Returns the properties of a file. Raises InputError for an unreadable file or an invalid line; the error's
    message never shows a property's value.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", str(path)) from None
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _key_and_value(line)
        try:
            properties[_unescaped(key)] = _unescaped(value)
        except ValueError:
            raise InputError("\\u must be followed by four hexadecimal digits", f"{path}, line {number}") from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields each logical line, together with the line number at which it begins. A logical line is a line together
    with its continuation lines. Comments and empty lines are skipped.
    """
    lines = enumerate(re.split(r"\r\n|\n|\r", text), 1)
    for number, raw in lines:
        line = raw.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, line


def _key_and_value(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ValueError(text)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _SHORT_ESCAPES.get(escape, escape)

    # each escape is one UTF-16 code unit, so two escapes may encode one character
    return _ESCAPE.sub(character, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
