"""Operators of streams in random chains: record by record, processors, and joins."""

from tests.oracle.generated_dsl_functions import LONG, STRING, any_joiner, any_key, any_mapper, any_predicate
from tests.oracle.generated_dsl_variables import Chain, Op, Variable, on

# streams, record by record


@on("stream", 3)
def filter_stream(chain: Chain, stream: Variable) -> list[Variable]:
    result = chain.stream_of(stream)
    chain.add(chain.random.choice(("filter", "filterNot")), [stream], result, f=any_predicate(chain.random))
    return [result]


@on("stream", 4)
def change_keys(chain: Chain, stream: Variable) -> list[Variable]:
    if chain.chance(0.5):
        result = chain.with_new_keys(stream, key=STRING)
        chain.add("selectKey", [stream], result, f=any_key(chain.random, stream.key))
        return [result]
    function, value = any_mapper(chain.random, stream.value, with_key=True)
    result = chain.with_new_keys(stream, key=STRING, value=value)
    chain.add("map", [stream], result, f=["pair", any_key(chain.random, stream.key), function])
    return [result]


@on("stream", 4)
def map_values(chain: Chain, stream: Variable) -> list[Variable]:
    with_key = chain.chance(0.4)
    function, value = any_mapper(chain.random, stream.value, with_key=with_key)
    if chain.has_faults and stream.value == STRING and chain.chance(0.5):
        function, value = ["throwOn", "boom"], STRING
    result = chain.stream_of(stream, value=value)
    chain.add("mapValues", [stream], result, f=function, withKey=with_key or None)
    return [result]


@on("stream", 2)
def flat_map(chain: Chain, stream: Variable) -> list[Variable]:
    drawn: list[list[object]] = [["perWord"], ["spread", chain.random.choice((0, 2, 3))], ["none"]]
    if stream.key == STRING:
        drawn.append(["nullKeys"])
    result = chain.with_new_keys(stream, key=STRING)
    chain.add("flatMap", [stream], result, f=chain.random.choice(drawn))
    return [result]


@on("stream", 2)
def flat_map_values(chain: Chain, stream: Variable) -> list[Variable]:
    function = chain.random.choice([["words"], ["words"], ["copies", chain.random.choice((0, 1, 3))], ["none"]])
    result = chain.stream_of(stream, value=STRING)
    chain.add("flatMapValues", [stream], result, f=function, withKey=chain.chance(0.4) or None)
    return [result]


@on("stream", 0.7)
def peek(chain: Chain, stream: Variable) -> list[Variable]:
    result = chain.stream_of(stream)
    chain.add("peek", [stream], result)
    return [result]


@on("stream", 0.2)
def for_each(chain: Chain, stream: Variable) -> list[Variable]:
    chain.add("foreach", [stream], None)
    return []


@on("stream", 1.5)
def split(chain: Chain, stream: Variable) -> list[Variable]:
    named = chain.chance(0.4)

    def branch(number: int) -> tuple[Variable, Op]:
        result = chain.stream_of(stream)
        return result, {"out": result.name, **({"name": f"-branch-{number}"} if named and chain.chance(0.7) else {})}

    branches = [branch(number) for number in range(chain.random.randint(1, 3))]
    default = branch(9) if chain.chance(0.5) else None
    chain.add(
        "split",
        [stream],
        None,
        branches=[{"f": any_predicate(chain.random), **written} for _, written in branches],
        defaultBranch=None if default is None else default[1],
        name=chain.new_name("split") if named else None,
    )
    return [result for result, _ in (branches if default is None else [*branches, default])]


@on("stream", 2)
def merge(chain: Chain, stream: Variable) -> list[Variable] | None:
    other = chain.other("stream", stream.key, stream.value)
    assert other is not None, "the stream itself fits"
    if stream != other and stream.changers & other.changers:
        chain.merges_branches = True
    joined_streams = max(stream.joined_streams, other.joined_streams)
    result = chain.stream_of(stream, changers=stream.changers | other.changers, joined_streams=joined_streams)
    chain.add("merge", [stream, other], result)
    return [result]


@on("stream", 1.5)
def repartition(chain: Chain, stream: Variable) -> list[Variable]:
    result = chain.stream_of(stream, changers=frozenset())
    name = chain.new_name("named") if chain.chance(0.3) else None
    chain.add("repartition", [stream], result, keySerde=stream.key, valueSerde=stream.value, name=name)
    return [result]


@on("stream", 0.5)
def to_extracted_topics(chain: Chain, stream: Variable) -> list[Variable]:
    prefix = f"{chain.new_name('by')}-"
    extractors: list[list[object]] = [["byHash", 2, prefix], ["byKeyHash", 2, prefix], ["byTimestamp", 2, prefix]]
    for number in range(2):
        chain.topics[f"{prefix}{number}"] = {"key": stream.key, "value": stream.value}
    serdes = {"keySerde": stream.key, "valueSerde": stream.value}
    chain.add("to", [stream], None, topicExtractor=chain.random.choice(extractors), **serdes)
    return []


# processors


@on("stream", 2.5)
def process(chain: Chain, stream: Variable) -> list[Variable]:
    """With a new key nothing is known of the old one, so that a join or an aggregation has to repartition."""
    random, unit = chain.random, chain.unit_ms
    kind = random.choice(
        ("identity", "copies", "shiftTime", "newKey", "headers", "context", "dedup", "countPerKey", "tick")
    )
    stores, key, value = None, stream.key, stream.value
    written: list[object] = [kind]
    match kind:
        case "copies":
            written, value = ["copies", random.choice((0, 1, 2))], STRING
        case "shiftTime":
            written = ["shiftTime", random.choice((0, 1, unit, 3 * unit, -(unit // 2)))]
        case "newKey":
            written, key = ["newKey", any_key(random, stream.key)], STRING
        case "context":
            value = STRING
        case "dedup":
            stores = [chain.new_store("keyValue", stream.key, stream.value)]
        case "countPerKey":
            stores, value = [chain.new_store("keyValue", stream.key, LONG)], LONG
        case "tick" if (stream.key, stream.value) == (STRING, STRING):
            written = [random.choice(("streamTick", "wallTick")), random.choice((unit, unit // 2 + 1, 3 * unit))]
            stores = [chain.new_store("keyValue", STRING, STRING)] if chain.chance(0.5) else None
        case "tick":
            written = ["identity"]
    result = chain.with_new_keys(stream, key=key, value=value)
    chain.add("process", [stream], result, processor=written, stores=stores)
    return [result]


@on("stream", 2)
def process_values(chain: Chain, stream: Variable) -> list[Variable]:
    kind = chain.random.choice(("identity", "value", "copies", "headers", "context", "dedup", "countPerKey"))
    stores, value = None, stream.value
    written: list[object] = [kind]
    match kind:
        case "value":
            function, value = any_mapper(chain.random, stream.value, with_key=True)
            written = ["value", function]
        case "copies":
            written, value = ["copies", chain.random.choice((0, 1, 2))], STRING
        case "context":
            value = STRING
        case "dedup":
            stores = [chain.new_store("keyValue", stream.key, stream.value)]
        case "countPerKey":
            stores, value = [chain.new_store("keyValue", stream.key, LONG)], LONG
    result = chain.stream_of(stream, value=value)
    chain.add("processValues", [stream], result, processor=written, stores=stores)
    return [result]


_QUESTIONS = {
    "keyValue": (
        *("?get:a", "?delete:a", "?putIfAbsent:b:new", "?putAll:a:one:b", "?all", "?reverseAll"),
        *("?range:a:b", "?range:*:b", "?reverseRange:a:*", "?prefix:a"),
    ),
    "window": ("?fetch", "?backwardFetch", "?fetchAll", "?fetchRange"),
    "session": ("?fetch", "?backwardFetch", "?find", "?backwardFind", "?fetchRange", "?one"),
    "versioned": ("?get", "?asof", "?delete"),
}


@on("stream", 1)
def ask_store(chain: Chain, stream: Variable) -> list[Variable] | None:
    """A processor that takes some inputs as questions to its store. They have to arrive unchanged, as text, and no
    store of another kind may get them.
    """
    if not stream.is_source or stream.value != STRING or chain.script.keys() & set(_topics_of(chain, stream)):
        return None
    unit = chain.unit_ms
    kind = chain.random.choice(sorted(_QUESTIONS))
    parameters: dict[str, list[object]] = {"window": [unit], "session": [unit]}
    options: dict[str, Op] = {
        "window": {"retention_ms": 2 * unit + chain.random.choice((0, unit, 120_000)), "windowSize_ms": unit},
        "session": {"retention_ms": 2 * unit + chain.random.choice((0, unit, 120_000))},
        "versioned": {"historyRetention_ms": chain.random.choice((0, unit, 10 * unit))},
    }
    store = chain.new_store(kind, STRING, STRING, **options.get(kind, {}))
    for topic in _topics_of(chain, stream):
        chain.script.setdefault(topic, []).extend(_QUESTIONS[kind])
    result = chain.with_new_keys(stream)
    chain.add("process", [stream], result, processor=[f"{kind}Script", *parameters.get(kind, [])], stores=[store])
    return [result]


def _topics_of(chain: Chain, stream: Variable) -> list[str]:
    return next(list(op["topics"]) for op in chain.ops if op.get("out") == stream.name)


@on("stream", 0.5)
def read_global_store(chain: Chain, stream: Variable) -> list[Variable] | None:
    if stream.value != STRING:
        return None
    store, topic = chain.new_name("store"), chain.new_input(STRING)
    serdes = {"keySerde": STRING, "valueSerde": STRING}
    kind = chain.random.choice(("keyValue", "timestampedKeyValue"))
    more: Op = {"storeType": kind, "persistent": chain.chance(0.5), "logging": False}
    chain.add("addGlobalStore", [], None, store=store, topic=topic, **serdes, **more)
    result = chain.with_new_keys(stream)
    chain.add("process", [stream], result, processor=["lookup"], globalStore=store, stores=[store])
    return [result]


# joins of streams


_MOST_JOINED_STREAMS = 4
"""With five, the results of 25 inputs can fill the memory of the oracle's JVM."""


@on("stream", 5)
def join_streams(chain: Chain, stream: Variable) -> list[Variable] | None:
    random, unit = chain.random, chain.unit_ms
    other = chain.other("stream", stream.key) if chain.chance(0.75) else stream
    assert other is not None, "the stream itself fits"
    joined_streams = stream.joined_streams + other.joined_streams
    if joined_streams > _MOST_JOINED_STREAMS:
        return None
    joiner, value = any_joiner(random, stream.value, other.value, with_key=True)
    half = unit // 2
    drawn = ((unit, unit), (unit, unit), (unit, 0), (0, unit), (0, 0), (2 * unit, half), (half, unit))
    before_ms, after_ms = random.choice((*drawn, (2 * unit, -half), (-half, unit)))
    windows: Op = {"before_ms": before_ms, "after_ms": after_ms}
    grace_ms = chain.grace(before_ms, after_ms)
    if grace_ms is not None:
        windows["grace_ms"] = grace_ms
    result = chain.stream_of(stream, value=value, changers=frozenset(), joined_streams=joined_streams)
    chain.add(
        random.choice(("join", "leftJoin", "outerJoin")),
        [stream, other],
        result,
        joiner=joiner,
        windows=windows,
        keySerde=stream.key,
        valueSerde=stream.value,
        otherValueSerde=other.value,
        storeName=chain.new_name("join-store") if chain.chance(0.25) else None,
        storeType=random.choice(("in_memory", "in_memory", "rocksDB")) if chain.chance(0.6) else None,
    )
    return [result]


@on("stream", 5)
def join_table(chain: Chain, stream: Variable) -> list[Variable] | None:
    table = chain.other("table", stream.key)
    if table is None:
        return None
    joiner, value = any_joiner(chain.random, stream.value, table.value, with_key=True)
    grace_ms = None
    if table.history_ms is not None and chain.chance(0.5):
        grace_ms = chain.random.choice((0, min(chain.unit_ms, table.history_ms), table.history_ms))
        chain.edges_ms.append(grace_ms)
    result = chain.stream_of(stream, value=value, changers=frozenset())
    chain.add(
        chain.random.choice(("join", "leftJoin")),
        [stream, table],
        result,
        joiner=joiner,
        keySerde=stream.key,
        valueSerde=stream.value,
        otherValueSerde=table.value,
        grace_ms=grace_ms,
    )
    return [result]


@on("stream", 3)
def join_global_table(chain: Chain, stream: Variable) -> list[Variable] | None:
    table = chain.other("global table", STRING)
    if table is None:
        return None
    joiner, value = any_joiner(chain.random, stream.value, table.value, with_key=True)
    result = chain.stream_of(stream, value=value)
    selector = any_key(chain.random, stream.key)
    kind = chain.random.choice(("join", "leftJoin"))
    chain.add(kind, [stream, table], result, joiner=joiner, keySelector=selector)
    return [result]
