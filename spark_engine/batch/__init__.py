"""Runs work in chunks, in processes of this machine or on Spark executors. Local processes and Spark executors give the
same result.

A chunk is a small portion of the work, such as 256 input lines. The process that runs a chunk writes the result to a
Parquet file in the output directory. The file with the result of a chunk is called the part of the chunk. The process
writes the part under a temporary name, and renames the complete part. So the progress of a run is the number of rows in
existing parts. If a run was stopped, the next run computes only the chunks whose results are missing. If an executor
dies and its chunk runs again, only one part exists. At the end of a run, the parts are merged in the order of the
chunks. So both engines give the same result.

`work`: the classes that describe a run, its results and its errors. `running`: runs a plan from start to end.
`local_engine`, `spark_engine`, `worker`: run spans of chunks. `output_directory`, `parts`: the files of a run.
`terminal`: the printed progress and tables. `command_line`: the command-line options of the engine. This module imports
neither Arrow nor Spark, so that commands start quickly.
"""

from dataclasses import dataclass
from enum import StrEnum

RESULT_MARK, RESULT_FORMAT = "plan.json", "batch/1"
"""`RESULT_MARK`: the name of a file in each directory with results of `replay` or `sweep`. If a directory contains this
file, `replay` and `sweep` do not read recordings from the directory. `RESULT_FORMAT`: the format that this file states.
"""


class Engine(StrEnum):
    """The engine that runs the chunks: Spark, or processes of this machine."""

    SPARK = "spark"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a run and its options. `master`: the address of Spark's master. `cores`: the number of processes of
    the local engine; None for one process for each core of the machine. `restart`: True to discard the files of an
    earlier run in the output directory.
    """

    engine: Engine = Engine.SPARK
    master: str = "local[*]"
    cores: int | None = None
    restart: bool = False
