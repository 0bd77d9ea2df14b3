"""Real text that every machine has: the sources of Python's standard library, line by line."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class SourceLine(NamedTuple):
    """`module`: dotted, without the package prefix of site-packages; `package`: its first part."""

    module: str
    package: str
    text: str


def stdlib_lines(at_least: int, directory: Path | None = None) -> Iterator[SourceLine]:
    """The lines of whole files, sorted by path, until there are `at_least` lines or no more files.

    `directory`: None for this Python's standard library. Files that are not UTF-8 are skipped.
    """
    root = directory or Path(sysconfig.get_paths()["stdlib"])
    count = 0
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if "site-packages" in relative.parts or count >= at_least:
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (UnicodeDecodeError, OSError):
            continue
        module = ".".join(relative.with_suffix("").parts)
        for line in lines:
            yield SourceLine(module, relative.parts[0].removesuffix(".py"), line)
        count += len(lines)
