"""What a benchmark prints, as text and as rows of its tables."""

import io
import re
from collections.abc import Callable

from rich.console import Console


def printed_by(run: Callable[[Console], object]) -> str:
    text = io.StringIO()
    run(Console(file=text, width=160))
    return text.getvalue()


def rows(text: str) -> dict[str, list[float]]:
    """By the words that a row begins with, its numbers."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            numbers = [float(cell.replace(",", "")) for cell in cells if re.fullmatch(r"[+-]?[\d,.]+", cell)]
            found[" ".join(cell for cell in cells if re.search("[a-zA-Z]", cell))] = numbers
    return found
