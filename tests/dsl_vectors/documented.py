"""The closed list of differences from Kafka that are on purpose, or that Kafka's TopologyTestDriver brings about.

Each has a rule that makes this project's answer what Kafka's has to be. A case is documented if one of them, or several
together, make its answer equal to Kafka's in everything; so a wrong answer of a documented case is still different.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from tests.dsl_vectors.cases import Case
from tests.dsl_vectors.comparing import differences
from tests.dsl_vectors.processors import PUNCTUATION_TYPES
from tests.dsl_vectors.running import DEAD_LETTER_TOPIC, AsKafka, Run, run


@dataclass(frozen=True)
class Documented:
    """`concerns`: whether a case, and what its run answered, may differ in this. `as_kafka`: how it is run again.
    `changed`: its answer as Kafka's would be.
    """

    text: str
    concerns: Callable[[Case, Run], bool]
    as_kafka: AsKafka = AsKafka()  # noqa: RUF009 - it is frozen
    changed: Callable[[Case, Run], Run] | None = None


def documented(case: Case, first: Run) -> tuple[str, ...]:
    """The texts of the differences that explain all that differs; empty if none do. `first`: the run as it is."""
    for together in _candidates(case, first):
        as_kafka = AsKafka(
            initial_values=any(each.as_kafka.initial_values for each in together),
            metadata_of_punctuators=any(each.as_kafka.metadata_of_punctuators for each in together),
            one_task=any(each.as_kafka.one_task for each in together),
        )
        tried = first if as_kafka == AsKafka() else run(case, as_kafka)
        for each in together:
            if each.changed is not None:
                tried = each.changed(case, tried)
        if not differences(case, tried):
            return tuple(each.text for each in together)
    return ()


def _candidates(case: Case, first: Run) -> Iterator[tuple[Documented, ...]]:
    """Few first."""
    concerned = [each for each in DOCUMENTED if each.concerns(case, first)]
    for size in range(1, len(concerned) + 1):
        yield from combinations(concerned, size)


def _processor_kinds(case: Case) -> set[str]:
    return {operator["processor"][0] for operator in case.operators if isinstance(operator.get("processor"), list)}


# the value of the initializer as the old value of a new aggregate


def _has_stream_aggregate(case: Case, _first: Run) -> bool:
    return any(
        operator["op"] in ("count", "cogroup") or not {"aggregator", "reducer"}.isdisjoint(operator)
        for operator in case.operators
    )


# punctuators have metadata in Kafka, without a topic


def _shows_metadata_of_punctuators(case: Case, _first: Run) -> bool:
    kinds = _processor_kinds(case)
    return "context" in kinds and not kinds.isdisjoint(PUNCTUATION_TYPES)


# Kafka's driver has one task for all subtopologies


def _has_several_subtopologies(_case: Case, first: Run) -> bool:
    return first.subtopologies > 1


# Kafka has freed key and value of a record when it sends the dead letter


def _has_dead_letters(case: Case, first: Run) -> bool:
    return DEAD_LETTER_TOPIC in case.configs and bool(first.failures)


def _without_freed_bytes(case: Case, tried: Run) -> Run:
    """Dead letters without key and value, where Kafka's has none, and the input has sent something else."""
    topic = case.configs[DEAD_LETTER_TOPIC]
    theirs = [output for output in case.written["outputs"] if output["topic"] == topic]
    outputs = []
    number = 0
    for output in tried.answer["outputs"]:
        changed = output
        if output["topic"] == topic:
            kafka = theirs[number] if number < len(theirs) else output
            number += 1
            freed = kafka["key"] is None and kafka["value"] is None
            if freed and output["after"] in tried.failures and tried.sent[output["after"]] > 1:
                changed = {**output, "key": None, "value": None}
        outputs.append(changed)
    return replace(tried, answer={**tried.answer, "outputs": outputs})


# Kafka's driver loses dead letters of records that cannot be read, with exactly-once


def _loses_dead_letters(case: Case, first: Run) -> bool:
    """The handler of processing errors does not go on, so all dead letters are of records that cannot be read."""
    goes_on = "Continue" in case.configs.get("processing.exception.handler", "")
    exactly_once = case.configs.get("processing.guarantee") == "exactly_once_v2"
    return exactly_once and not goes_on and _has_dead_letters(case, first)


def _without_dead_letters(case: Case, tried: Run) -> Run:
    topic = case.configs[DEAD_LETTER_TOPIC]
    outputs = [output for output in tried.answer["outputs"] if output["topic"] != topic]
    return replace(tried, answer={**tried.answer, "outputs": outputs})


# Kafka's cached session store fails on a record whose time is less than the gap, and on a search before the first put


def _fails_in_the_session_cache(case: Case, _first: Run) -> bool:
    error = case.written.get("error", {})
    match error.get("rootMessage"):
        case "Error iterating over segments: segment interval has changed":
            windows = [each["windows"] for each in case.operators if each.get("windows", {}).get("type") == "session"]
            return any(case.inputs[error["at"]]["timestamp_ms"] < each["gap_ms"] for each in windows)
        case "Window startMs time cannot be negative.":
            return any(each.get("storeType") == "session" and each.get("caching") for each in case.operators)
    return False


# Kafka's cached window store, read backward, fails on an entry that is deleted in the cache


def _fails_on_a_deleted_window(case: Case, _first: Run) -> bool:
    """Sliding windows alone are read backward. `AbstractMergedSortedCacheStoreIterator.hasNext` skips deleted entries
    of the cache as in a forward iteration.
    """
    message = case.written.get("error", {}).get("rootMessage") or ""
    is_sliding = any(each.get("windows", {}).get("type") == "sliding" for each in case.operators)
    return is_sliding and message.endswith('ValueAndTimestamp.value()" because "next.value" is null')


def _ended_by_kafkas_error(case: Case, _tried: Run) -> Run:
    """The run up to the input that fails in Kafka, with Kafka's error. Nothing that a run shows follows an error."""
    error = case.written["error"]
    ended = run(case, AsKafka(fails_at=error["at"]))
    return replace(ended, answer={**ended.answer, "error": error})


DOCUMENTED = (
    Documented(
        "the old value of a new aggregate is None; in Kafka without a record cache the initializer's",
        _has_stream_aggregate,
        AsKafka(initial_values=True),
    ),
    Documented(
        "punctuators have no metadata; in Kafka they have some without a topic",
        _shows_metadata_of_punctuators,
        AsKafka(metadata_of_punctuators=True),
    ),
    Documented(
        "a dead letter has key and value; Kafka's has none once something of its record was sent",
        _has_dead_letters,
        changed=_without_freed_bytes,
    ),
    Documented(
        "driver: Kafka's has one task, and so one stream time and one order of records, for all subtopologies",
        _has_several_subtopologies,
        AsKafka(one_task=True),
    ),
    Documented(
        "a session store can be searched before the first gap and the first put; Kafka's with a record cache fails",
        _fails_in_the_session_cache,
        changed=_ended_by_kafkas_error,
    ),
    Documented(
        "a sliding window whose aggregate became None is skipped; Kafka's cached window store fails on it",
        _fails_on_a_deleted_window,
        changed=_ended_by_kafkas_error,
    ),
    Documented(
        "driver: Kafka's loses dead letters of records that cannot be read, with exactly-once",
        _loses_dead_letters,
        changed=_without_dead_letters,
    ),
)
