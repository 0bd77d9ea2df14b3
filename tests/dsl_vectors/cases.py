"""A case: a topology as JSON, configs, inputs, and Kafka's answer. Files have one case a line, plain or gzipped."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class BadFile(Exception):
    """A file that cannot be read as cases. The message names the file and the line."""


class NotKnown(Exception):
    """The case uses an operator or an option that this project does not have. The message is its name."""


@dataclass(frozen=True)
class Case:
    """`written`: the case as the file has it. Kafka's answer stands in the same object as what was asked."""

    written: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.written["id"])

    @property
    def uses_topology(self) -> bool:
        """Whether the ops are calls of `Topology`, and not of the DSL."""
        return bool(self.written.get("api", "dsl") == "topology")

    @property
    def configs(self) -> dict[str, str]:
        return dict(self.written.get("configs", {}))

    @property
    def topics(self) -> dict[str, dict[str, str]]:
        """Names of the serdes of `key` and `value`, by topic."""
        topics: dict[str, dict[str, str]] = self.written["topics"]
        return topics

    @property
    def operators(self) -> list[dict[str, Any]]:
        operators: list[dict[str, Any]] = self.written["topology"]
        return operators

    @property
    def inputs(self) -> list[dict[str, Any]]:
        inputs: list[dict[str, Any]] = self.written["inputs"]
        return inputs

    @property
    def initial_wall_clock_ms(self) -> int:
        return int(self.written.get("initialWallClock_ms", 1_000_000))


def read_cases(path: Path) -> Iterator[Case]:
    """Raises BadFile for a file that cannot be read, has no case, or has a line that is no JSON."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):  # noqa: B007 - the error below names the line
                yield Case(json.loads(line))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise BadFile(f"{path}: cannot be read: {error}") from None
    except ValueError as error:
        raise BadFile(f"{path}, line {number}: {error}") from None
    if number == 0:
        raise BadFile(f"{path}: the file has no case")
