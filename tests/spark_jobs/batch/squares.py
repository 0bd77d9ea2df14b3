"""A tiny piece of work: numbers and their squares, multiples of seven rejected, and what may go wrong on the way."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from spark_engine.batch.work import ChunkOutput, Plan, Reject

SCHEMA = pa.schema(
    [("number", pa.int64()), ("square", pa.int64()), ("name", pa.string()), ("compute_ms", pa.float64())]
)
REJECTED_EVERY = 7


@dataclass(frozen=True, slots=True)
class Numbers:
    number: int
    first: int
    lines: int


@dataclass(frozen=True, slots=True)
class Squares:
    """`marks`: a directory. A chunk in `held` leaves `<number>-<pid>-<pid of its executor's JVM>` there and waits until
    there is `go`. `raising`, `killing`: chunks that raise, and that kill their process.
    """

    marks: str = ""
    held: frozenset[int] = frozenset()
    raising: frozenset[int] = frozenset()
    killing: frozenset[int] = frozenset()
    schema: pa.Schema = field(default=SCHEMA)

    def run(self, chunks: Iterator[Numbers]) -> Iterator[ChunkOutput]:
        for chunk in chunks:
            self._misbehave(chunk.number)
            yield self._output(chunk)

    def _misbehave(self, number: int) -> None:
        if number in self.held:
            # here, so that processes without Spark do not load PySpark first
            from spark_jobs.ownership.executor_identity import executor_identity

            (Path(self.marks) / f"{number}-{os.getpid()}-{executor_identity().jvm_pid or 0}").touch()
            while not (Path(self.marks) / "go").exists():
                time.sleep(0.01)
        if number in self.raising:
            raise ValueError(f"no squares for chunk {number}")
        if number in self.killing:
            os.kill(os.getpid(), signal.SIGKILL)

    def _output(self, chunk: Numbers) -> ChunkOutput:
        rows, rejects = [], []
        for number in range(chunk.first, chunk.first + chunk.lines):
            began_s = time.thread_time()
            if number % REJECTED_EVERY == 0:
                rejects.append(Reject(f"numbers:{number}", "unusable", "a multiple of seven", str(number)))
            else:
                compute_ms = (time.thread_time() - began_s) * 1000
                rows.append(
                    {"number": number, "square": number**2, "name": f"n{number % 10}", "compute_ms": compute_ms}
                )
        return ChunkOutput(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), tuple(rejects))


def squares_plan(chunks: int, lines: int = 10, work: Squares | None = None, name: str = "squares") -> Plan[Numbers]:
    cut = [Numbers(number, number * lines, lines) for number in range(chunks)]
    return Plan(work or Squares(), cut, {"inputs": name}, "squares", ("number",))
