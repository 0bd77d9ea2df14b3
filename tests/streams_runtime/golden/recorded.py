"""Reads the cases that Kafka answered; README.md has their format."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple


class Recorded(NamedTuple):
    case: dict[str, Any]
    kafka: Any

    def label(self) -> str:
        return "-".join(str(self.case[key]) for key in ("flavour", "seed") if key in self.case)


def recorded(name: str) -> list[Recorded]:
    with gzip.open(Path(__file__).with_name(f"{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [Recorded(**json.loads(line)) for line in lines]
