"""A case: a topology as JSON, configs, inputs, and Kafka's answer. Files have one case a line, plain or gzipped."""

from __future__ import annotations

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


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "family": str,
    "kind": str,
    "topics": dict,
    "topology": list,
    "inputs": list,
    "outputs": list,
}


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
    """Raises BadFile for a file that cannot be read, has no case, or has a line that is not a case with its answer."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):  # noqa: B007 - the error below names the line
                yield _case(line)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise BadFile(f"{path}: cannot be read: {error}") from None
    except ValueError as error:
        raise BadFile(f"{path}, line {number}: {error}") from None
    if number == 0:
        raise BadFile(f"{path}: the file has no case")


def _case(line: str) -> Case:
    """Raises ValueError for what is not a case with its answer."""
    try:
        written = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(written, dict):
        raise ValueError("a case is a JSON object")
    missing = [field for field in _FIELDS if field not in written]
    if missing:
        raise ValueError(f"the case has no {', '.join(missing)}")
    for field, kind in _FIELDS.items():
        if not isinstance(written[field], kind):
            raise ValueError(f"{field} is not of the type that it should have")
    try:
        _check_question(written)
        _check_answer(written)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a part of the case is not of the type that it should have: {error}") from None
    return Case(written)


def _check_question(written: dict[str, Any]) -> None:
    for index, record in enumerate(written["inputs"]):
        if "advanceWallClock_ms" in record:
            continue
        missing = [field for field in ("topic", "timestamp_ms") if field not in record]
        missing += [field for field in ("key", "value") if field not in record and f"{field}_hex" not in record]
        if missing:
            raise ValueError(f"input {index} has no {', '.join(missing)}")
        if record["topic"] not in written["topics"]:
            raise ValueError(f"input {index} is for topic {record['topic']}, which topics does not name")
    for index, operator in enumerate(written["topology"]):
        if "op" not in operator:
            raise ValueError(f"step {index} of the topology has no op")


def _check_answer(written: dict[str, Any]) -> None:
    """The form of Kafka's answer, so that all of it can be compared."""
    for index, output in enumerate(written["outputs"]):
        missing = [field for field in ("after", "topic", "key", "value", "timestamp_ms") if field not in output]
        if missing:
            raise ValueError(f"output {index} has no {', '.join(missing)}")
        if any(not isinstance(header, list) or len(header) != 2 for header in output.get("headers", ())):
            raise ValueError(f"output {index} has headers that are not pairs")
    error = written.get("error")
    if error is not None:
        missing = [field for field in ("at", "class", "message") if field not in error]
        if missing:
            raise ValueError(f"the error has no {', '.join(missing)}")
    for name, store in written.get("stores", {}).items():
        if store is not None and not isinstance(store.get("rows"), list):
            raise ValueError(f"store {name} has no rows")
