"""`python -m tests.kills`: kills instances at random moments. Exit code 1 when a rule was broken."""

import argparse
import random
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.kills.running import AT_LEAST_ONCE, EXACTLY_ONCE, KillResults, drawn_settings, run

KILLS, KILLS_A_RUN = 300, 25


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, help="draws moments and settings (default: a fresh one, which is printed)")
    parser.add_argument("--bootstrap-servers", help="of a Kafka cluster (default: embedded logs)")
    parser.add_argument("--guarantee", choices=(EXACTLY_ONCE, AT_LEAST_ONCE), help="(default: drawn for each run)")
    parser.add_argument("--keep", type=Path, help="a directory that stays, for logs and state")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    results = kill_many(options.kills, seed, options.bootstrap_servers, options.guarantee, options.keep)
    print(results)
    print("\n".join(results.faults))
    return 1 if results.faults else 0


def kill_many(
    kills: int, seed: int, servers: str | None = None, guarantee: str | None = None, keep: Path | None = None
) -> KillResults:
    """In several runs, each with settings of its own. Prints the seed, and the results of each run."""
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    results = KillResults()
    began_s = time.monotonic()
    for number, start in enumerate(range(0, kills, KILLS_A_RUN), start=1):
        settings = drawn_settings(f"killed-{secrets.token_hex(4)}", chance, guarantee)
        with tempfile.TemporaryDirectory(prefix="kills-") as temporary:
            directory = (keep or Path(temporary)) / f"run-{number}"
            of_run = run(settings, min(KILLS_A_RUN, kills - start), directory, chance, servers)
        print(f"run {number} after {time.monotonic() - began_s:,.0f} s, {settings}: {of_run}", flush=True)
        results.add(of_run)
    return results


if __name__ == "__main__":
    sys.exit(main())
