"""Small pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells may hold Markdown; a line break or a pipe in one would end it, so both are replaced."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def code(text: str) -> str:
    """`text` as it is, in backquotes."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _cell(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip()).replace("|", r"\|")
