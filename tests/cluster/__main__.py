"""`python -m tests.cluster`, and `python -m tests.cluster rolling`. Exit code 1 when what was seen is not valid."""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

from assignor.errors import InputError
from spark_engine.session.spark_faults import SparkNotStarted
from tests.cluster.cluster import ClusterSize, NoPostgresql
from tests.cluster.fault_kinds import KINDS
from tests.cluster.report import report
from tests.cluster.rolling_restart import MOST_P99_MS, rolling_restart
from tests.cluster.running import RunSettings, run

LEAST_OF_A_GROUP = 4


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.members is not None and arguments.members < LEAST_OF_A_GROUP * arguments.groups:
        parser.error(f"--members: {LEAST_OF_A_GROUP} of each group are the least, {arguments.groups} groups there are")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started is ended
    try:
        with tempfile.TemporaryDirectory(prefix="cluster-") as temporary:
            directory = arguments.out or Path(temporary) / "run"
            directory.mkdir(parents=True, exist_ok=True)
            return _rolling(arguments, directory) if arguments.what == "rolling" else _faults(arguments, directory)
    except (NoPostgresql, InputError, SparkNotStarted) as error:
        print(error, file=sys.stderr)
        return 2


def _faults(arguments: argparse.Namespace, directory: Path) -> int:
    members = arguments.members or 300
    size = ClusterSize(arguments.coordinators, members, arguments.groups)
    settings = RunSettings(
        arguments.seed, arguments.faults, directory, size, not arguments.no_spark, tuple(arguments.kind or ())
    )
    happened, findings = asyncio.run(run(settings, _say))
    print("\n".join(report(happened, findings)))
    return 0 if findings.is_valid else 1


def _rolling(arguments: argparse.Namespace, directory: Path) -> int:
    size = ClusterSize(
        arguments.coordinators, arguments.members or 1_000, arguments.groups, heartbeat_interval_ms=3_000
    )
    rolled = asyncio.run(rolling_restart(size, directory, arguments.seed, _say))
    print("\n".join(rolled.report()))
    return 0 if rolled.is_valid and rolled.p99_ms < MOST_P99_MS else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster", description="Several real coordinators on a PostgreSQL pair, under faults."
    )
    parser.add_argument("what", nargs="?", choices=("faults", "rolling"), default="faults")
    parser.add_argument("--faults", type=_positive, default=200, help="how many happen (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="draws the faults (default: %(default)s)")
    parser.add_argument("--coordinators", type=_positive, default=3, help="(default: %(default)s)")
    parser.add_argument("--members", type=_positive, help="in all (default: 300, of rolling 1,000)")
    parser.add_argument("--groups", type=_positive, default=6, help="that the members are in (default: %(default)s)")
    parser.add_argument("--kind", action="append", choices=[each.name for each in KINDS], help="of faults, only these")
    parser.add_argument("--no-spark", action="store_true", help="nobody counts words")
    parser.add_argument("--out", type=Path, help="a directory that stays, for logs and the history of the word count")
    return parser


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return int(text)


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
