"""How long a record takes through an application with the default configs: from `send` of its producer to a reader.

A record passes one task, and one more behind each repartition topic. The goal counts per passage: 99th percentile 50 ms
under at-least-once, 1.2 commit intervals of 100 ms under exactly-once. With a kill, one of two instances gets SIGKILL
in the middle, and records of its tasks wait for their next owner: there is no goal for that, and `longest` says how
long. The coordinator, the instances, the feeder and the reader share the machine, and the broker does. One stream
thread does all the work, so a rate that it cannot process has a backlog and no latency worth the name.

`--readme` measures README's application with its configs: three instances with two threads each, a repartition topic, a
store with its cache, exactly-once. README starts the instances on Spark; here they are processes as well.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from rich.console import Console

from assignor.errors import AssignorFault
from benchmarks.latency.measuring import AT_MOST_MS, Cell, Place, measure
from benchmarks.latency.results import Latency, latency_of, markdown, show, title
from benchmarks.turns import progress
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from tests.oracle.broker import Broker
from tests.oracle.jars import JarsUnavailable

EMBEDDED, KAFKA = "embedded", "kafka"
LOGS = {"embedded": (EMBEDDED,), "kafka": (KAFKA,), "both": (EMBEDDED, KAFKA)}
KILLS = {"no": (False,), "yes": (True,), "both": (False, True)}
GUARANTEES = tuple(AT_MOST_MS)
RATES, HOPS, SECONDS = (100, 1_000, 10_000, 50_000), (0, 1, 2), 10.0
QUICK = Cell(EMBEDDED, "at_least_once", 1, 100, killed=False)
QUICK_SECONDS = 0.5
README_RATES = (100,)


def run(console: Console, *, quick: bool = False) -> None:
    """Measure everything, or with `quick` one cell on the embedded log; print the table."""
    if quick:
        show(console, measured([QUICK], None, QUICK_SECONDS, console))
        return
    show(console, measured(cells(LOGS["both"], GUARANTEES, HOPS, RATES, KILLS["both"]), None, SECONDS, console))


def run_with_options(console: Console, arguments: Sequence[str]) -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=__doc__)
    parser.add_argument("--log", choices=LOGS, default="both")
    parser.add_argument("--guarantee", choices=GUARANTEES, action="append", help="default: both")
    parser.add_argument("--rates", type=_numbers, metavar="N,N", help="records a second")
    parser.add_argument("--hops", type=_numbers, default=HOPS, metavar="N,N", help="repartition topics on the way")
    parser.add_argument("--kill", choices=KILLS, default="both", help="of one of two instances, in the middle")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each cell, without the two of its warm-up")
    parser.add_argument(
        "--kafka", metavar="HOST:PORT", help="a broker that runs; default: one is started from its jars"
    )
    parser.add_argument("--readme", action="store_true", help="README's application alone, on the logs of --log")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables of docs/results.md")
    options = parser.parse_args(arguments)
    logs, kills = LOGS[options.log], KILLS[options.kill]
    if options.readme:
        chosen = product(logs, ["exactly_once_v2"], [1], options.rates or README_RATES, kills)
        wanted = [Cell(*each, readme=True) for each in chosen]
    else:
        wanted = cells(logs, options.guarantee or GUARANTEES, options.hops, options.rates or RATES, kills)
    results = measured(wanted, options.kafka, options.seconds, console)
    show(console, results)
    if options.markdown is not None:
        options.markdown.write_text(markdown(results), encoding="utf-8")


def cells(
    logs: Sequence[str], guarantees: Sequence[str], hops: Sequence[int], rates: Sequence[int], kills: Sequence[bool]
) -> list[Cell]:
    """Those of one log follow each other."""
    return [Cell(*each) for each in product(logs, guarantees, hops, rates, kills)]


def measured(wanted: Sequence[Cell], broker: str | None, seconds: float, console: Console) -> list[Latency]:
    """`broker`: of a Kafka that runs; None: one is started where it is needed."""
    results = []
    with progress() as bar:
        work = bar.add_task("latency", total=len(wanted))
        for log in dict.fromkeys(cell.log for cell in wanted):
            with tempfile.TemporaryDirectory(prefix="bench-latency-", ignore_cleanup_errors=True) as temporary:
                directory = Path(temporary)
                try:
                    with log_of(log, directory, broker) as servers, _coordinator(servers, directory) as url:
                        for number, cell in enumerate(each for each in wanted if each.log == log):
                            bar.update(work, description=title(cell))
                            name = f"latency-{number}"
                            try:
                                run = measure(cell, Place(servers, url, name, directory / name), seconds)
                                results.append(latency_of(cell, run))
                            except AssignorFault as error:
                                console.print(f"{title(cell)}: {error}")
                            bar.advance(work)
                except JarsUnavailable as reason:
                    console.print(f"{log} needs a real broker: {reason}")
    return results


@contextmanager
def log_of(log: str, directory: Path, broker: str | None) -> Iterator[str]:
    """Its bootstrap.servers. Raises JarsUnavailable."""
    if log == EMBEDDED:
        yield f"embedded:{directory / 'log'}"
    elif broker is not None:
        yield broker
    else:
        started = Broker(directory / "broker")
        started.start()
        try:
            yield started.bootstrap_servers
        finally:
            started.stop()


@contextmanager
def _coordinator(servers: str, directory: Path) -> Iterator[str]:
    """Its URL. All instances of a cell start together, so the first rebalance waits for nobody."""
    settings = {"cluster.bootstrap.servers": servers, "group.initial.rebalance.delay.ms": 0}
    with CoordinatorProcess(directory / "coordinator", settings) as process:
        yield process.url


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))
