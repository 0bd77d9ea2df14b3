"""All faults, one after the other, as tables. `python -m benchmarks storage-faults --help` for single ones."""

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.storage_faults.faults import SQLITE_FAULTS, cannot_happen_here, postgresql_stopped
from benchmarks.storage_faults.measuring import MeasuredFault, measure
from benchmarks.turns import progress
from tests.coordinator_api.store.postgresql import Postgresql, programs

POSTGRESQL = "postgresql-stopped"
NAMES = (*SQLITE_FAULTS, POSTGRESQL)
FAULT_S = 15.0
"""Longer than a session."""
LOCKED_S = 30.0
AFTER_S = 4.0
QUICK_FAULTS, QUICK_S = ("deleted", "truncated-record"), 1.0


def run(console: Console, *, quick: bool = False) -> None:
    """All faults, or with `quick` two short ones; print the tables."""
    if quick:
        print_all(console, list(QUICK_FAULTS), QUICK_S, QUICK_S)
    else:
        print_all(console, list(NAMES), None, AFTER_S)


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks storage-faults", description=__doc__)
    parser.add_argument("names", metavar="FAULT", nargs="*", choices=[*NAMES, []], help=f"of {', '.join(NAMES)}")
    parser.add_argument(
        "--seconds", type=float, help=f"how long each fault lasts; {FAULT_S:g}, and locked {LOCKED_S:g}"
    )
    options = parser.parse_args(arguments)
    print_all(console, options.names or list(NAMES), options.seconds, AFTER_S)


def print_all(console: Console, names: Sequence[str], seconds: float | None, after_s: float) -> None:
    """`seconds`: how long each fault lasts; None: as long as it takes to be instructive."""
    measured: list[MeasuredFault] = []
    with tempfile.TemporaryDirectory(prefix="bench-storage-faults-") as temporary, progress() as bar:
        work = bar.add_task("storage faults", total=len(names))
        for name in names:
            bar.update(work, description=name)
            lasts_s = seconds if seconds is not None else LOCKED_S if name == "locked" else FAULT_S
            found = measure_named(name, Path(temporary) / name, lasts_s, after_s)
            if isinstance(found, str):
                console.print(f"{name}: {found}")
            else:
                measured.append(found)
            bar.advance(work)
    console.print(answers_table(measured))
    console.print(waits_table(measured))


def measure_named(name: str, directory: Path, fault_s: float, after_s: float) -> MeasuredFault | str:
    """Or why it cannot be provoked on this machine."""
    directory.mkdir(parents=True, exist_ok=True)
    if name == POSTGRESQL:
        bin = programs()
        if bin is None:
            return "needs PostgreSQL on this machine"
        with Postgresql(bin) as database:
            flags = ("--database-url", database.url)
            return measure(postgresql_stopped(database), directory, fault_s, after_s, flags)
    fault = SQLITE_FAULTS[name]
    missing = cannot_happen_here(fault, directory)
    return missing if missing is not None else measure(fault, directory, fault_s, after_s)


def answers_table(measured: Sequence[MeasuredFault]) -> Table:
    """What was answered during each fault, and what the next start found."""
    table = Table(title="storage faults: what is answered, and what survives `kill -9` and the next start")
    for column in ("fault", "changes", "/readyz", "well again", "what survives"):
        table.add_column(column)
    for one in measured:
        changes = [call for call in one.during if call.what in ("declare", "change")]
        table.add_row(
            one.title, answered(changes), answered(one.named("readyz")), _well_again(one), _what_survives(one)
        )
    return table


def waits_table(measured: Sequence[MeasuredFault]) -> Table:
    """How long calls waited during each fault, in milliseconds."""
    table = Table(title="storage faults: how long others waited, in milliseconds")
    table.add_column("fault")
    for column in ("heartbeats", "refused", "p50", "p99", "most", "reads", "most", "changes", "most", "evicted"):
        table.add_column(column, justify="right")
    for one in measured:
        beats, reads = one.named("heartbeat"), one.named("read")
        changes = [call for call in one.during if call.what in ("declare", "change")]
        waits = sorted(call.took_s * 1_000 for call in beats)
        table.add_row(
            one.title,
            str(len(beats)),
            str(sum(not 200 <= call.status < 300 for call in beats)),
            *(
                f"{waits[min(len(waits) - 1, int(share * len(waits)))]:.0f}" if waits else ""
                for share in (0.5, 0.99, 1)
            ),
            str(len(reads)),
            f"{longest_ms(reads):.0f}",
            str(len(changes)),
            f"{longest_ms(changes):.0f}",
            str(one.evicted),
        )
    return table


def longest_ms(calls: Sequence[object]) -> float:
    """0 for none."""
    return max((call.took_s * 1_000 for call in calls), default=0.0)  # type: ignore[attr-defined]


def answered(calls: Sequence[object]) -> str:
    """How often each answer was given, and why."""
    counted = Counter((call.status, call.said) for call in calls)  # type: ignore[attr-defined]
    return "\n".join(
        f"{count} × {status} {said.rpartition(': ')[2]}".rstrip() for (status, said), count in counted.most_common()
    )


def _well_again(one: MeasuredFault) -> str:
    return "no" if one.ready_again_s is None else f"by itself after {one.ready_again_s:.1f} s"


def _what_survives(one: MeasuredFault) -> str:
    start = one.next_start
    if start.refused:
        return f"not started (exit code {start.exit_code}): {start.refused}"
    kept = one.acknowledged - len(start.lost)
    parts = [f"{kept} of {one.acknowledged} groups, {start.members_kept} of {one.members} members"]
    if start.is_behind:
        parts.append("an older definition of the changed group")
    parts += [f"{group_id}: {why}" for group_id, why in list(start.unreadable.items())[:2]]
    if len(start.unreadable) > 2:
        parts.append(f"{len(start.unreadable)} groups cannot be read")
    return "\n".join(parts)
