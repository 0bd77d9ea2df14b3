"""`python -m tests.history run` and `python -m tests.history judge`. Exit code 1 when the history is not valid."""

import argparse
import signal
import sys
import time
import traceback
from pathlib import Path

from assignor.errors import InputError
from tests.history.judge import judge
from tests.history.running import DYNAMIC, ON_SPARK, STATIC, RunSettings
from tests.history.traffic import run


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.command == "run":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started is ended
        directory: Path = (arguments.out or Path("build/history") / str(arguments.seed)).absolute()
        if directory.exists() and any(directory.iterdir()):
            print(f"{directory} is not empty: give another one by --out, or remove it", file=sys.stderr)
            return 2
        groups = (DYNAMIC, STATIC, *ON_SPARK) if arguments.spark else (DYNAMIC, STATIC)
        settings = RunSettings(
            arguments.seed, arguments.minutes, directory, arguments.processes, arguments.kafka, groups
        )
        try:
            run(settings, _say)
        except Exception:  # what was written down until then is judged all the same
            traceback.print_exc()
    else:
        directory = arguments.directory
    try:
        is_valid, report = judge(directory)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(report, end="")
    return 0 if is_valid else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description="Real traffic with faults, judged.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="have real processes work while faults happen, then judge what they saw")
    runs.add_argument("--minutes", type=float, default=30.0, help="how long faults happen (default: %(default)s)")
    runs.add_argument("--seed", type=int, default=1, help="draws faults, input and levers (default: %(default)s)")
    runs.add_argument("--processes", type=int, default=3, help="of members in each group (default: %(default)s)")
    runs.add_argument("--out", type=Path, help="a new directory (default: build/history/SEED)")
    runs.add_argument(
        "--kafka", action="store_true", help="on a real broker, which is killed too (needs a JDK and Maven)"
    )
    runs.add_argument("--spark", action="store_true", help="two groups more, on Spark executors, which are killed too")
    judges = commands.add_parser("judge", help="judge a run again, for example with a newer model")
    judges.add_argument("directory", type=Path, help="of the run")
    return parser


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
