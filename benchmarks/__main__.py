"""`python -m benchmarks [--quick]`: every benchmark, one table each. `--quick`: no shape of 20,000 tasks or more."""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks import high_availability, replay
from benchmarks.shapes import SHAPES


def main(arguments: list[str]) -> int:
    console = Console(width=130)
    replay.run(console)
    shapes = [shape for shape in SHAPES if shape.tasks < 20_000 or "--quick" not in arguments]
    high_availability.run(console, shapes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
