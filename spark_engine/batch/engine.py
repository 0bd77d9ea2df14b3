"""Which engine runs the chunks. It needs neither Arrow nor Spark, so that a command line can name it first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Who runs the chunks: Spark, or processes of this machine."""

    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """`master`: of Spark; `cores`: processes of the local engine, None for all cores of the machine. `restart`: throw
    away what an earlier run left in the output directory.
    """

    engine: Engine = Engine.SPARK
    master: str = "local[*]"
    cores: int | None = None
    restart: bool = False
