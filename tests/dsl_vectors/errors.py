"""Which error of this project is which of Kafka's. Class, message, root and place all have to fit.

Each language has its own classes and, where the DSL or the user's own code does not write the message, its own words.
A pair that is not in these lists is a difference.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.dsl_vectors.running import Run

Error = dict[str, Any]

_STREAMS_EXCEPTION = "org.apache.kafka.streams.errors.StreamsException"
_CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"
_BOOM = "org.apache.kafka.streams.Functions$Boom"
_HERE = re.compile(
    r"task \[\S+\] (?P<phase>processing|deserialization) failed: task=\S+, node=(?P<node>[^,]+), "
    r"record topic=(?P<topic>[^,]+), partition=(?P<partition>\d+), offset=(?P<offset>\d+): "
)


@dataclass(frozen=True)
class _Refusal:
    """An error when the topology is built or started that is worded in another way. Groups of one name have to agree.

    `kafka`, `here`: place, class and a pattern of the message.
    """

    kafka: tuple[str, str, str]
    here: tuple[str, str, str]

    def fits(self, kafka: Error, here: Error) -> bool:
        theirs, ours = _matched(self.kafka, kafka), _matched(self.here, here)
        if theirs is None or ours is None:
            return False
        shared = set(theirs) & set(ours)
        return all(theirs[name] == ours[name] for name in shared)


def _matched(expected: tuple[str, str, str], error: Error) -> dict[str, str] | None:
    place, kind, pattern = expected
    if (error["at"], error["class"]) != (place, kind):
        return None
    match = re.fullmatch(pattern, error["message"] or "", re.DOTALL)
    return None if match is None else match.groupdict()


_TOPOLOGY = "org.apache.kafka.streams.errors.TopologyException"
_ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
_CLASSES = {_TOPOLOGY: "TopologyError", _ILLEGAL_ARGUMENT: "IllegalArgumentError"}
"""Of errors whose messages are the same."""

_REFUSALS = (
    _Refusal(
        ("build", _TOPOLOGY, r"(?P<text>Invalid topology: A different StateStore has already been added .*)"),
        ("build", "TopologyError", r"(?P<text>Invalid topology: A different StateStore has already been added .*)\."),
    ),
    _Refusal(
        (
            "build",
            _TOPOLOGY,
            r"Invalid topology: cannot connect a state store (?P<store>.+) to a source node or a sink node\.",
        ),
        (
            "build",
            "TopologyError",
            r"Invalid topology: StateStore (?P<store>.+) cannot be connected to .+, a source or a sink\.",
        ),
    ),
    _Refusal(
        ("build", _TOPOLOGY, r"Invalid topology: A different GlobalStateStore has already .* name (?P<store>.+)"),
        ("build", "TopologyError", r"Invalid topology: A different StateStore has already .* name (?P<store>.+)\."),
    ),
    _Refusal(
        ("build", _TOPOLOGY, r"Invalid topology: Global StateStore (?P<store>.+) can be used by a Processor .*"),
        ("build", "TopologyError", r"Invalid topology: Global StateStore (?P<store>.+) is open to every processor .*"),
    ),
    _Refusal(
        ("build", _TOPOLOGY, r"Invalid topology: sourceName and processorName must be different\."),
        ("build", "TopologyError", r"Invalid topology: The source and the processor of a global store must be .*"),
    ),
    _Refusal(
        ("build", _TOPOLOGY, r"Invalid topology: predecessorNames cannot be empty"),
        ("build", "TopologyError", r"Invalid topology: Node .+ has no parents\."),
    ),
    _Refusal(
        ("build", _TOPOLOGY, r"Invalid topology: topics cannot be empty"),
        ("build", "TopologyError", r"Invalid topology: (Source .+ has no topics\.|a stream needs at least one topic)"),
    ),
    _Refusal(
        (
            "build",
            _ILLEGAL_ARGUMENT,
            r"Global stores must pass in suppliers with exactly one store but got 0",
        ),
        (
            "build",
            "IllegalArgumentError",
            r"The Materialized of the global table of topic .+ needs the name of the store\.",
        ),
    ),
    _Refusal(
        (
            "start",
            _ILLEGAL_ARGUMENT,
            r"topology-test-driver Illegal store name: (?P<name>.*), "
            r"which collides with the pre-defined checkpoint file name",
        ),
        ("build", "InputError", r"'(?P<name>.*)' cannot be the name of a store: .*"),
    ),
    _Refusal(
        (
            "start",
            _STREAMS_EXCEPTION,
            r"failed to initialize processor [^:]+: "
            r"Processor \S+ has no access to StateStore (?P<store>\S+) as .*",
        ),
        (
            "start",
            "StreamsRuntimeError",
            r"task \S+ failed to initialize processor [^:]+: "
            r".* has no access to state store (?P<store>\S+) .*",
        ),
    ),
)


@dataclass(frozen=True)
class _Cause:
    """What failed on a record: class and pattern of the message in Kafka, possible classes and a pattern here."""

    kafka: str
    kafka_message: str
    here: frozenset[str]
    here_message: str = r".*"

    def fits(self, kafka_class: str, kafka_message: str, here_class: str, here_message: str) -> bool:
        if kafka_class != self.kafka or here_class not in self.here:
            return False
        theirs = re.fullmatch(self.kafka_message, kafka_message, re.DOTALL)
        ours = re.fullmatch(self.here_message, here_message, re.DOTALL)
        if theirs is None or ours is None:
            return False
        shared = set(theirs.groupdict()) & set(ours.groupdict())
        return all(theirs[name] == ours[name] for name in shared)


_NO_SERDE_OF = (
    (
        r"(Failed to initialize (key|value) serdes for \w+ node|failed to initialize processor) (?P<node>.+)",
        r"task \S+ failed to initialize processor (?P<node>[^:]+): .*",
    ),
    (
        r"Failed to initialize (key|value) serdes for store (?P<node>.+)",
        r"Invalid topology: store (?P<node>\S+) needs a (key|value) serde, .*",
    ),
)

_WRONG_TYPE = frozenset({"SerdeMismatch", "AttributeError", "TypeError"})
_CAUSES = (
    _Cause(
        "java.lang.UnsupportedOperationException",
        r"Global store is read only",
        frozenset({"StreamsRuntimeError"}),
        r"global store \S+ is read only: .*",
    ),
    _Cause(_BOOM, r"(?P<text>.*)", frozenset({"Boom"}), r"(?P<text>.*)"),
    _Cause(
        "org.apache.kafka.common.errors.SerializationException",
        r"Size of data received by LongDeserializer is not 8",
        frozenset({"error"}),  # struct.error
        r"unpack requires a buffer of 8 bytes",
    ),
    _Cause(
        "java.lang.NullPointerException",
        r"The provided KeyValueMapper returned null which is not allowed\.",
        frozenset({"TypeError"}),
    ),
    _Cause(
        "java.lang.NullPointerException",
        r"key cannot be null",
        frozenset({"StreamsError"}),
        r"key cannot be null",
    ),
    _Cause(
        "java.lang.IllegalArgumentException",
        r"Timestamp may not be negative\. Got: (?P<timestamp>-\d+)",
        frozenset({"StreamsRuntimeError"}),
        r".* forwards a record that has the timestamp (?P<timestamp>-\d+); it must not be negative",
    ),
    _Cause(
        "java.lang.ClassCastException",
        r"class java\.lang\.Long cannot be cast to class java\.lang\.String "
        r"\(java\.lang\.Long and java\.lang\.String are in module java\.base of loader 'bootstrap'\)",
        _WRONG_TYPE,
        r".*(given a str, value serde StringSerde a int|'int' object has no attribute 'encode').*",
    ),
    _Cause(
        _STREAMS_EXCEPTION,
        r"(?P<text>\S+ buffer exceeded its max capacity\. .*)",
        frozenset({"StreamsError"}),
        r"(?P<text>.*)",
    ),
)

_CAUSES_IN_HEADERS = (
    *_CAUSES,
    _Cause(_STREAMS_EXCEPTION, r"Malformed Record", frozenset({"StreamsRuntimeError"}), r".*must not be negative"),
    _Cause(
        _STREAMS_EXCEPTION,
        r"A serializer \(\S+StringSerializer\) is not compatible to the actual value type "
        r"\(value type: java\.lang\.Long\)\. .*",
        _WRONG_TYPE,
        r".*'int' object has no attribute 'encode'.*",
    ),
    _Cause(
        _STREAMS_EXCEPTION,
        r"ClassCastException while producing data to topic (?P<topic>[^ ]+)\. "
        r"The value serializer \S+StringSerializer is not compatible to the actual value type: java\.lang\.Long\. .*",
        _WRONG_TYPE,
        r"sink \S+ cannot write to topic (?P<topic>[^ ]+): .*value serde StringSerde a int.*",
    ),
)


def headers_agree(kafka_class: str, kafka_message: str, here_class: str, here_message: str) -> bool:
    """The headers of a dead letter that name the error."""
    here = here_class.rpartition(".")[2]
    return any(cause.fits(kafka_class, kafka_message, here, here_message) for cause in _CAUSES_IN_HEADERS)


def error_difference(kafka: Error | None, run: Run) -> str | None:
    """None if both are the same error, or both none."""
    here: Error | None = run.answer.get("error")
    if kafka == here:
        return None
    if kafka is not None and here is not None and _agree(kafka, here, run):
        return None
    return f"error: Kafka {_shown(kafka)}, here {_shown(here)}"


def _shown(error: Error | None) -> str:
    if error is None:
        return "none"
    return f"{error['at']}: {error['class']}: {error['message']} (root: {error.get('rootMessage')})"


def _agree(kafka: Error, here: Error, run: Run) -> bool:
    if isinstance(kafka["at"], str) or isinstance(here["at"], str):
        return _refusals_agree(kafka, here)
    if kafka["at"] != here["at"]:
        return False
    match = _HERE.match(here["message"])
    if here["class"] != "ProcessingFailed" or match is None:
        return False
    if not any(
        cause.fits(*(each.get(part) or "" for each in (kafka, here) for part in ("rootClass", "rootMessage")))
        for cause in _CAUSES
    ):
        return False
    return any(fits(kafka, match, run) for fits in _FAILURES)


def _refusals_agree(kafka: Error, here: Error) -> bool:
    if "rootClass" in kafka:
        if kafka["rootClass"] == _CONFIG_EXCEPTION:
            return _missing_serdes_agree(kafka, here)
        if kafka["rootClass"] != _STREAMS_EXCEPTION:
            return False
        kafka = kafka | {"message": f"{kafka['message']}: {kafka['rootMessage']}"}
    same_place = kafka["at"] == here["at"]
    if same_place and _CLASSES.get(kafka["class"]) == here["class"] and kafka["message"] == here["message"]:
        return True
    return any(refusal.fits(kafka, here) for refusal in _REFUSALS)


def _missing_serdes_agree(kafka: Error, here: Error) -> bool:
    """Both name the same node or store, and the same kind of serde."""
    found = re.fullmatch(r"Please specify a (?P<what>key|value) serde or set one through .*", kafka["rootMessage"])
    root = str(here.get("rootMessage", here["message"]))
    if found is None or kafka["at"] != here["at"] or f" needs a {found['what']} serde, and no call before" not in root:
        return False
    for of_kafka, of_here in _NO_SERDE_OF:
        theirs, ours = re.fullmatch(of_kafka, kafka["message"]), re.fullmatch(of_here, here["message"], re.DOTALL)
        if theirs is not None and ours is not None:
            return theirs["node"] == ours["node"]
    return False


def _failed_in_process(kafka: Error, here: re.Match[str], run: Run) -> bool:
    match = re.fullmatch(
        r"Exception caught in process\. taskId=0_0, processor=(?P<node>[^,]+), topic=(?P<topic>[^,]+), "
        r"partition=(?P<partition>\d+), offset=(?P<offset>\d+)",
        kafka["message"] or "",
    )
    if kafka["class"] != _STREAMS_EXCEPTION or match is None or here["phase"] != "processing":
        return False
    # Kafka names the processor above a sink that cannot write
    places = {here["node"], *run.sink_parents.get(here["node"], ())}
    # the record that failed may be a buffered one, and Kafka names the one that is processed
    parts = () if run.buffer_changelogs else ("topic", "partition", "offset")
    return match["node"] in places and all(match[part] == here[part] for part in parts)


def _failed_in_flush(kafka: Error, here: re.Match[str], run: Run) -> bool:
    match = re.fullmatch(r"topology-test-driver Failed to flush cache of store (?P<store>\S+)", kafka["message"] or "")
    if kafka["class"] != "org.apache.kafka.streams.errors.ProcessorStateException" or match is None:
        return False
    return here["phase"] == "processing" and match["store"] in run.stores


def _failed_to_deserialize(kafka: Error, here: re.Match[str], _run: Run) -> bool:
    expected = (
        "Deserialization exception handler is set to fail upon a deserialization error. If you would rather have the "
        "streaming pipeline continue after a deserialization error, please set the deserialization.exception.handler "
        "appropriately."
    )
    return kafka["class"] == _STREAMS_EXCEPTION and kafka["message"] == expected and here["phase"] == "deserialization"


_FAILURES: tuple[Callable[[Error, re.Match[str], Run], bool], ...] = (
    _failed_in_process,
    _failed_in_flush,
    _failed_to_deserialize,
)
