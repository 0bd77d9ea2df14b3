"""`make simulate SEEDS=2000`: many histories, what they met, and the shortest history of each rule that was broken.

    python -m tests.simulation --seeds 2000       seeds 0 to 1999, on all cores
    python -m tests.simulation --seed 17          one seed, with its history
    python -m tests.simulation --found FILE       a scenario file, with its history
    python -m tests.simulation bugs               seeds until each bug that can be switched on is found (`finding`)

It fails when a rule was broken, or when a kind of fault was never met. Progress goes to stderr.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.simulation import finding
from tests.simulation.running import Run, Runs, run, run_seeds
from tests.simulation.schedule import drawn, parse
from tests.simulation.shrinking import shrunk

FOUND = Path(__file__).parent / "found"
TELL_EVERY_S = 10
FEW_SEEDS = 500
"""Fewer seeds than this need not meet every kind of fault."""

MOST_SHRUNK = 5


def main() -> int:
    if sys.argv[1:2] == ["bugs"]:
        return finding.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.split("\n")[0])
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--seeds", type=int, default=2_000, help="how many histories are drawn (default: 2000)")
    chosen.add_argument("--seed", type=int, help="run one seed, and tell its history")
    chosen.add_argument("--found", type=Path, metavar="FILE", help="run a scenario file, and tell its history")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of the seeds (default: 0)")
    parser.add_argument("--processes", type=int, help="on how many cores (default: all)")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _tell(run(drawn(arguments.seed)))
    if arguments.found is not None:
        return _tell(run(parse(arguments.found.read_text(encoding="utf-8"))))
    return _many(range(arguments.first, arguments.first + arguments.seeds), arguments.processes)


def _tell(one: Run) -> int:
    print(one.schedule.text())
    print("\n".join(one.history))
    print(f"{one.events} events: {one.what if one.rule else 'all rules hold'}")
    return 1 if one.rule else 0


def _many(seeds: range, processes: int | None) -> int:
    last_told_s = time.perf_counter()

    def told(runs: Runs) -> None:
        nonlocal last_told_s
        if time.perf_counter() - last_told_s > TELL_EVERY_S:
            last_told_s = time.perf_counter()
            print(f"{runs.seeds} of {len(seeds)} seeds, {len(runs.failed)} failed", file=sys.stderr, flush=True)

    runs = run_seeds(seeds, processes=processes, told=told)
    print(runs.coverage.table())
    print()
    print(f"seeds            {runs.seeds:>12,}")
    print(f"seeds a second   {runs.seeds / runs.seconds:>12,.1f}")
    print(f"events           {runs.events:>12,}")
    print(f"events a seed    {runs.events / runs.seeds:>12,.0f}, at least {runs.fewest_events or 0:,}")
    print(f"faults           {sum(runs.coverage.faults.values()):>12,}")
    print(f"pairs met        {len(runs.coverage.pairs):>12,}")
    print(f"seeds that failed{len(runs.failed):>12,}")
    _tell_failed(runs)
    never = runs.coverage.never if len(seeds) >= FEW_SEEDS else []
    for kind in never:
        print(f"never met: {kind.words}")
    return 1 if runs.failed or never else 0


def _tell_failed(runs: Runs) -> None:
    by_rule: dict[str, list[Run]] = {}
    for one in runs.failed:
        by_rule.setdefault(one.rule or "", []).append(one)
    for rule, failed in list(by_rule.items())[:MOST_SHRUNK]:
        seeds = ", ".join(str(one.schedule.seed) for one in failed[:10])
        print(f"\n{rule}: {len(failed)} seeds ({seeds}). The shortest history that breaks it:\n", flush=True)
        shortest = shrunk(min(failed, key=lambda one: len(one.schedule.faults)))
        print(shortest.schedule.text())
        print(shortest.what)


if __name__ == "__main__":
    sys.exit(main())
