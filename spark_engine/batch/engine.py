"""The choice of an engine for the chunks. This file imports neither Arrow nor Spark, so command lines load quickly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Spark, or processes of this machine."""

    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """`master`: of Spark; `cores`: processes of the local engine, None for all cores of the machine. `restart`: discard
    the files of an earlier run in the output directory.
    """

    engine: Engine = Engine.SPARK
    master: str = "local[*]"
    cores: int | None = None
    restart: bool = False
