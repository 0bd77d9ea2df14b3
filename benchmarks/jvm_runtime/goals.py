"""The goals, what was measured of each, and whether it was reached."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.jvm_leader.tables import Page
from benchmarks.jvm_runtime.cells import APPLICATIONS, KEYS_OF, PROCESSOR, TITLES
from benchmarks.jvm_runtime.contenders import EMBEDDED, EMBEDDED_2_INSTANCES, KAFKA, QUIX
from benchmarks.jvm_runtime.measuring import MeasuredCell
from benchmarks.jvm_runtime.programs import has_quix
from benchmarks.jvm_runtime.spark_row import GROUP_BY, IN_PANDAS, OURS, CountOnSpark
from benchmarks.jvm_runtime.tables import ratios

MOST_OF_KAFKA_STREAMS = 1.0
MOST_ON_KAFKA = 1.3
"""For the applications of `KEYS_OF`, on Kafka."""
MOST_OF_A_PROCESSOR_US = 6.0
MOST_OF_QUIX = 0.3
LEAST_OF_TWO_INSTANCES = 1.9
MOST_OF_THE_CLIENT_US = 1.0
MOST_ON_SPARK = {IN_PANDAS: 0.1, GROUP_BY: 1.0}
REACHED, MISSED, NOT_MEASURED = "reached", "missed", "not measured"


class Goal(NamedTuple):
    """`reached`: None when it was not measured."""

    goal: str
    measured: str
    reached: bool | None


def goals_page(measured: Sequence[MeasuredCell], on_spark: Mapping[str, CountOnSpark]) -> Page:
    rows = [
        (each.goal, each.measured, NOT_MEASURED if each.reached is None else REACHED if each.reached else MISSED)
        for each in goals(measured, on_spark)
    ]
    return Page("goals", ("goal", "measured", ""), rows, 3)


def goals(measured: Sequence[MeasuredCell], on_spark: Mapping[str, CountOnSpark]) -> list[Goal]:
    beside = [_beside_kafka_streams(application, measured) for application in APPLICATIONS if application != PROCESSOR]
    return [
        *beside,
        _processor(measured),
        _quix(measured),
        _two_instances(measured),
        _client(measured),
        *(_on_spark(way, limit, on_spark) for way, limit in MOST_ON_SPARK.items()),
        Goal("failover flat out: under 1 s, counts exact", "python -m benchmarks failover", None),
    ]


def _beside_kafka_streams(application: str, measured: Sequence[MeasuredCell]) -> Goal:
    found = [each for each in ratios(measured) if each.cell.application == application]
    limit, where = MOST_OF_KAFKA_STREAMS, ""
    if application in KEYS_OF:
        found, limit, where = [each for each in found if each.contender == KAFKA], MOST_ON_KAFKA, " on Kafka"
    words = f"{TITLES[application]}{where}: at most {limit} x Kafka Streams, CPU a record"
    if not found:
        return Goal(words, "-", None)
    worst = max(found)
    reached = sum(each.value <= limit for each in found)
    said = f"worst {worst.value:.2f} x; {reached} of {len(found)} reached"
    return Goal(words, said, worst.value <= limit)


def _processor(measured: Sequence[MeasuredCell]) -> Goal:
    found = [
        each.typical(contender).cpu_us
        for each in measured
        if each.cell.application == PROCESSOR
        for contender in (EMBEDDED, KAFKA)
        if contender in each.runs
    ]
    words = f"processor with a store: at most {MOST_OF_A_PROCESSOR_US:g} µs a record"
    return _at_most(words, found, MOST_OF_A_PROCESSOR_US, lambda value: f"{value:.2f} µs")


def _quix(measured: Sequence[MeasuredCell]) -> Goal:
    """Ours on Kafka, where Quix runs, too."""
    words = f"processor with a store: at most {MOST_OF_QUIX} x Quix Streams, CPU a record"
    found = [
        each.typical(KAFKA).cpu_us / each.typical(QUIX).cpu_us for each in measured if {KAFKA, QUIX} <= each.runs.keys()
    ]
    if not found:
        return Goal(words, "-" if has_quix() else "left out: quixstreams is not installed", None)
    return _at_most(words, found, MOST_OF_QUIX, lambda value: f"{value:.2f} x")


def _two_instances(measured: Sequence[MeasuredCell]) -> Goal:
    found = [
        each.records_a_second(EMBEDDED_2_INSTANCES) / each.records_a_second(EMBEDDED)
        for each in measured
        if {EMBEDDED, EMBEDDED_2_INSTANCES} <= each.runs.keys()
    ]
    words = f"2 instances, embedded log: at least {LEAST_OF_TWO_INSTANCES} x the records/s of one"
    if not found:
        return Goal(words, "-", None)
    return Goal(words, f"worst {min(found):.2f} x", min(found) >= LEAST_OF_TWO_INSTANCES)


def _client(measured: Sequence[MeasuredCell]) -> Goal:
    found = [
        each.typical(KAFKA).cpu_us - each.typical(EMBEDDED).cpu_us
        for each in measured
        if {EMBEDDED, KAFKA} <= each.runs.keys()
    ]
    words = f"on Kafka: at most {MOST_OF_THE_CLIENT_US:g} µs a record more than on the embedded log"
    return _at_most(words, found, MOST_OF_THE_CLIENT_US, lambda value: f"{value:+.2f} µs")


def _on_spark(way: str, limit: float, found: Mapping[str, CountOnSpark]) -> Goal:
    words = f"keyed count on Spark: at most {limit} x {way}, CPU of the executors"
    if not {OURS, way} <= found.keys():
        return Goal(words, "-", None)
    ratio = found[OURS].cpu_us / found[way].cpu_us
    return Goal(words, f"{ratio:.2f} x", ratio <= limit)


def _at_most(words: str, found: Sequence[float], limit: float, shown: Callable[[float], str]) -> Goal:
    if not found:
        return Goal(words, "-", None)
    return Goal(words, f"worst {shown(max(found))}", max(found) <= limit)
