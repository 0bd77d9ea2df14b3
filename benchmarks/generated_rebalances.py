"""Recorded rebalances by the hundred thousand, drawn from a seed: `python -m benchmarks.generated_rebalances --help`.

The rebalances are those of groups that live (`generated_groups.py`) and carry what this project's own leader decided,
so a replay finds them equal. To show that a replay notices, a few are spoiled: in one of 500 the members got each
other's assignments, and one line of 1,000 cannot be used. Which ones follows from the seed alone, and so does every
byte, whatever the number of processes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.generated_groups import GeneratedGroup

WRONG_OUTPUT_ONE_IN = 500
UNUSABLE_ONE_IN = 1_000
DEFAULT_FILES = 8
_PROGRESS_EVERY = 64
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Line numbers over all files, from 0: those with a wrong output, and those that cannot be used."""

    wrong_output: frozenset[int]
    unusable: frozenset[int]

    @classmethod
    def of(cls, rebalances: int, seed: int) -> Spoiled:
        """At least one of each when there are two rebalances or more."""
        wrong, unusable = max(rebalances // WRONG_OUTPUT_ONE_IN, 1), max(rebalances // UNUSABLE_ONE_IN, 1)
        numbers = Random(f"spoiled {seed}").sample(range(rebalances), min(wrong + unusable, rebalances))
        return cls(frozenset(numbers[:wrong]), frozenset(numbers[wrong:]))


@dataclass(frozen=True, slots=True)
class Generated:
    """`files`: in the order of their names, each with its lines in `rebalances_of_files`. `wrong_output`, `unusable`:
    how many of all lines.
    """

    files: tuple[Path, ...]
    rebalances_of_files: tuple[int, ...]
    wrong_output: int
    unusable: int

    @property
    def rebalances(self) -> int:
        return sum(self.rebalances_of_files)


@dataclass(frozen=True, slots=True)
class _File:
    """Lines `first` to `last` (not included) of the whole, by a seed of their own."""

    path: Path
    number: int
    first: int
    last: int
    rebalances: int
    seed: int


def generate(
    directory: Path,
    rebalances: int,
    seed: int,
    files: int = DEFAULT_FILES,
    processes: int = 2,
    *,
    compressed: bool = False,
    console: Console | None = None,
) -> Generated:
    """Write `rebalances` lines into `files` files of `directory`, which is made when it is not there.

    `processes`: 1 writes in this one. `console`: shows a progress bar. The bytes follow from `rebalances`, `seed` and
    `files`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ending = "jsonl.gz" if compressed else "jsonl"
    planned = [
        _File(
            path=directory / f"rebalances-{number:02d}.{ending}",
            number=number,
            first=rebalances * number // files,
            last=rebalances * (number + 1) // files,
            rebalances=rebalances,
            seed=seed,
        )
        for number in range(files)
    ]
    if processes == 1:
        for file in planned:
            _write(file)
    else:
        _write_in_processes(planned, rebalances, processes, console)
    spoiled = Spoiled.of(rebalances, seed)
    return Generated(
        tuple(file.path for file in planned),
        tuple(file.last - file.first for file in planned),
        len(spoiled.wrong_output),
        len(spoiled.unusable),
    )


def lines(first: int, last: int, rebalances: int, seed: int, file_number: int) -> Iterator[bytes]:
    """The lines of one file, each ending in a line break."""
    spoiled = Spoiled.of(rebalances, seed)
    for number, document in zip(range(first, last), _documents(seed, file_number), strict=False):
        if number in spoiled.wrong_output:
            _give_each_the_assignment_of_another(document)
        line = json.dumps(document, separators=(",", ":")).encode()
        yield (unusable_line(line, number) if number in spoiled.unusable else line) + b"\n"


def _documents(seed: int, file_number: int) -> Iterator[dict[str, object]]:
    for number in count(1):
        yield from GeneratedGroup(f"g{file_number}-{number}", f"{seed} {file_number} {number}").rebalances()


def _give_each_the_assignment_of_another(document: dict[str, object]) -> None:
    output = document["output"]
    assert isinstance(output, dict)
    assignments = output["assignments"]
    values = list(assignments.values())
    output["assignments"] = dict(zip(assignments, values[1:] + values[:1], strict=True))
    assert output["assignments"] != assignments


def unusable_line(line: bytes, number: int) -> bytes:
    """Cut off in the middle, of a format that nobody knows, or with a subscription that is no base64."""
    if number % 3 == 0:
        return line[: len(line) // 2]
    if number % 3 == 1:
        return line.replace(b'"format":"rebalance/1"', b'"format":"rebalance/99"', 1)
    return line.replace(b'"subscription":"', b'"subscription":"?', 1)


_written: Synchronized[int] | None = None


def _share(written: Synchronized[int]) -> None:
    global _written
    _written = written


def _write(file: _File) -> None:
    with _opened(file.path) as output:
        content = lines(file.first, file.last, file.rebalances, file.seed, file.number)
        while batch := list(islice(content, _PROGRESS_EVERY)):
            output.write(b"".join(batch))
            if _written is not None:
                with _written.get_lock():
                    _written.value += len(batch)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """Without a name or a time in the gzip header, which would make the same lines differ."""
    with path.open("wb") as plain:
        if path.suffix != ".gz":
            yield plain
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0, compresslevel=6) as compressed:
            yield compressed


def _write_in_processes(files: Sequence[_File], rebalances: int, processes: int, console: Console | None) -> None:
    context = multiprocessing.get_context("spawn")
    written = context.Value("q", 0)
    with ProcessPoolExecutor(processes, context, _share, (written,)) as pool, _progress(console) as progress:
        bar = progress.add_task("rebalances written", total=rebalances)
        running = [pool.submit(_write, file) for file in files]
        while wait(running, timeout=_POLL_S).not_done:
            progress.update(bar, completed=written.value)
        progress.update(bar, completed=rebalances)
        for done in running:
            done.result()


def _progress(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        disable=console is None,
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generated_rebalances", description="Write recorded rebalances drawn from a seed."
    )
    parser.add_argument("--rebalances", type=int, default=100_000, help="how many lines in all (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same bytes (default %(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="directory for the files")
    parser.add_argument("--files", type=int, default=DEFAULT_FILES, help="how many files (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="how many write at once (default %(default)s)")
    parser.add_argument("--gzip", action="store_true", help="compress the files")
    options = parser.parse_args(arguments)
    for name in ("rebalances", "files", "processes"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    started = time.monotonic()
    generated = generate(
        options.output,
        options.rebalances,
        options.seed,
        options.files,
        options.processes,
        compressed=options.gzip,
        console=Console(stderr=True),
    )
    size = sum(path.stat().st_size for path in generated.files)
    print(
        f"{generated.rebalances:,} rebalances in {len(generated.files)} files of {options.output}, "
        f"{size / 1e6:,.1f} MB ({size / generated.rebalances / 1e3:.1f} KB a rebalance), "
        f"{generated.wrong_output:,} of them with a wrong output, {generated.unusable:,} unusable; "
        f"{time.monotonic() - started:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
