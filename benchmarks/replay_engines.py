"""`assignor replay` of a generated data set, by processes of this machine and on Spark, in one run.

The same files are replayed three times: by two processes, on two Spark executors of one core each (`local-cluster`),
and on such executors again while one of them is killed. The rows of all three must be equal to the byte, or this
benchmark fails. Rates cover the time from the first chunk to the last; start-up times stand beside them.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from assignor_cli.console import EXIT_UNUSABLE
from benchmarks.generated_rebalances import Generated, generate
from benchmarks.process_tree import Kind, PeakMemory, executors
from spark_engine.batch.work import LINES_A_CHUNK

REBALANCES = 100_000
QUICK_REBALANCES = 1_000
SEED = 1
CORES = 2
MASTER = f"local-cluster[{CORES},1,1024]"
GOAL = 0.75
"""Rows per second and core on Spark, of those of the plain processes: within 25 %."""

LOCAL, SPARK, KILLED = "2 processes", "Spark", "Spark, executor killed"
_ENGINES = {
    LOCAL: ("--engine", "local", "--cores", str(CORES)),
    SPARK: ("--engine", "spark", "--master", MASTER),
    KILLED: ("--engine", "spark", "--master", MASTER),
}
_LOOK_EVERY_S = 0.2


class ReplaysDiffer(Exception):
    """A row is lost, doubled or another one."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replay. `killed_at`: chunks that were done when the executor was killed, None when none was."""

    directory: Path
    rows: int
    rejects: int
    seconds: float
    start_up_s: float
    memory: PeakMemory
    killed_at: int | None = None

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds

    @property
    def rows_file(self) -> Path:
        return self.directory / "rounds.parquet"

    def places(self) -> Counter[tuple[str, int]]:
        """Input and line of every row."""
        columns = pq.read_table(self.rows_file, columns=["input", "line"]).to_pydict()
        return Counter(zip(columns["input"], columns["line"], strict=True))


@dataclass(slots=True)
class _Killing:
    """Kills one executor of `replay` once half of `chunks` are done."""

    parts: Path
    chunks: int
    done: int | None = field(default=None)

    def look(self, root: int) -> None:
        if self.done is None and (done := sum(1 for _ in self.parts.glob("*/*.parquet"))) >= self.chunks // 2:
            os.kill(executors(root)[0], signal.SIGKILL)
            self.done = done


def run(console: Console, *, quick: bool = False) -> None:
    """Print one row per replay, then what became of the rows. Raises ReplaysDiffer."""
    rebalances = QUICK_REBALANCES if quick else REBALANCES
    talk = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="replay-engines-") as name:
        directory = Path(name)
        generated = generate(directory / "rebalances", rebalances, SEED, console=talk if talk.is_terminal else None)
        replays = {what: replay(generated, directory / what, what) for what in _ENGINES}
        table = _table(replays, generated)
        console.print(table)
        _check(replays, generated)
        killed, local = replays[KILLED], replays[LOCAL]
        lost, doubled = compared_rows(local, killed)
        ratio = replays[SPARK].rows_per_s / local.rows_per_s
        console.print(
            f"rows equal to the byte in all three, {local.rejects:,} rejects in each; "
            f"an executor killed after {killed.killed_at:,} of {_chunks(generated):,} chunks: "
            f"{lost} rows lost, {doubled} doubled, {killed.seconds:.1f} s instead of {replays[SPARK].seconds:.1f} s; "
            f"Spark / processes per core: {ratio:.2f} (goal: {GOAL} or more)"
        )


def replay(generated: Generated, output: Path, what: str) -> Replayed:
    """`assignor replay` in a process of its own, watched while it runs. Raises ReplaysDiffer when it fails."""
    inputs = str(generated.files[0].parent)
    command = [sys.executable, "-c", "import sys; from assignor_cli.app import main; sys.exit(main())", "replay"]
    arguments = [*command, inputs, "--output", str(output), *_ENGINES[what], "--format", "json"]
    killing = _Killing(output / "parts", _chunks(generated)) if what == KILLED else None
    with tempfile.TemporaryFile() as said:
        progress = None if sys.stderr.isatty() else subprocess.DEVNULL
        process = subprocess.Popen(arguments, stdout=said, stderr=progress)  # noqa: S603 (this program's own)
        memory = PeakMemory(process.pid)
        while process.poll() is None:
            memory.look()
            if killing is not None:
                killing.look(process.pid)
            time.sleep(_LOOK_EVERY_S)
        said.seek(0)
        answer = said.read()
    if process.returncode != EXIT_UNUSABLE:  # some lines are made unusable
        raise ReplaysDiffer(f"{what}: exit {process.returncode}")
    ran = json.loads(answer)["run"]
    return Replayed(
        output,
        ran["rows"],
        ran["rejects"],
        ran["seconds"],
        ran["start_up_seconds"],
        memory,
        None if killing is None else killing.done,
    )


def compared_rows(expected: Replayed, found: Replayed) -> tuple[int, int]:
    """How many rows of `expected` are not in `found`, and how many rows `found` has too many."""
    there, here = expected.places(), found.places()
    return (there - here).total(), (here - there).total()


def _check(replays: dict[str, Replayed], generated: Generated) -> None:
    expected = replays[LOCAL].rows_file.read_bytes()
    for what, each in replays.items():
        if (each.rows, each.rejects) != (generated.rebalances - generated.unusable, generated.unusable):
            raise ReplaysDiffer(
                f"{what}: {each.rows:,} rows and {each.rejects:,} rejects of {generated.rebalances:,} lines"
            )
        unequal = pq.read_table(each.rows_file, columns=["equal"])["equal"].to_pylist().count(False)
        if unequal != generated.wrong_output:
            raise ReplaysDiffer(f"{what}: {unequal:,} rows are not equal, {generated.wrong_output:,} were made so")
        if each.rows_file.read_bytes() != expected:
            raise ReplaysDiffer(f"{what}: other bytes than those of {LOCAL}")
    if replays[KILLED].killed_at is None:
        raise ReplaysDiffer(f"{KILLED}: it ended before an executor was killed")


def _chunks(generated: Generated) -> int:
    """Every file is cut for itself."""
    return sum(-(-rebalances // LINES_A_CHUNK) for rebalances in generated.rebalances_of_files)


def _table(replays: dict[str, Replayed], generated: Generated) -> Table:
    size = sum(path.stat().st_size for path in generated.files)
    table = Table(
        title=f"assignor replay of {generated.rebalances:,} generated rebalances, "
        f"{size / generated.rebalances / 1000:.1f} KB each"
    )
    table.add_column("")
    for what in replays:
        table.add_column(what, justify="right")
    local = replays[LOCAL]
    lines: dict[str, Callable[[Replayed], str]] = {
        "rows": lambda each: f"{each.rows:,}",
        "seconds": lambda each: f"{each.seconds:.1f}",
        "rows/s": lambda each: f"{each.rows_per_s:,.0f}",
        "rows/s per core": lambda each: f"{each.rows_per_s / CORES:,.0f}",
        f"ratio to {LOCAL}": lambda each: f"{each.rows_per_s / local.rows_per_s:.2f}",
        "start-up seconds": lambda each: f"{each.start_up_s:.1f}",
    }
    for name, value in lines.items():
        table.add_row(name, *map(value, replays.values()))
    for kind in Kind:
        peaks = [each.memory.bytes_of.get(kind) for each in replays.values()]
        table.add_row(f"peak MB, {kind}", *("-" if peak is None else f"{peak / 1e6:,.0f}" for peak in peaks))
    return table
