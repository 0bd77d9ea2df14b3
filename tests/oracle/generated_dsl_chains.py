"""Random chains of 2 to 8 operators of the DSL, with inputs and configs, as cases of `tests/dsl_vectors`.

Case `number` of a seed is made of these two alone. As a program, it writes cases as JSON lines:
`python -m tests.oracle.generated_dsl_chains SEED COUNT`.
"""

import json
import sys
from random import Random
from typing import Any

from tests.oracle import generated_dsl_aggregations, generated_dsl_streams  # noqa: F401 - they register their operators
from tests.oracle.generated_dsl_functions import LONG, STRING
from tests.oracle.generated_dsl_tables import to_stream
from tests.oracle.generated_dsl_variables import TABLE, Chain, Variable, add_global_table, add_stream, add_table

Case = dict[str, Any]
Input = dict[str, Any]

_KEYS = ("a", "b", "c", "ab", "B", "", "é", "ключ", "🔑", "a:1", "key with space")
_TEXTS = (
    *("", "x", "yy", "hello world", "naïve café", "b:1", "a:2", "c:7 x", "日本", "z!", "7", "-12", "a b c", " x  y "),
    *("a", "b", "c", "😀 smile", "longer value of some words", "0", "100", "ab", "B:é"),
)
_NUMBERS = (0, 1, 2, 3, -1, 5, 7, 10, 100, -40, 1 << 40, 12)
_HEADERS = ([["h", "1"]], [["h", "1"], ["h", "é"]], [["drop", "x"], ["n", None]])
_STRING_SERDE = "org.apache.kafka.common.serialization.Serdes$StringSerde"
_ERRORS = "org.apache.kafka.streams.errors"


def dsl_chain(seed: int | str, number: int) -> Case:
    random = Random(f"{seed}/{number}")
    chain = Chain(random, random.choice((10, 100, 1_000, 5_000, 60_000)))
    chain.has_faults = chain.chance(0.08)
    _grow(chain)
    inputs = _inputs(chain)
    case = {"id": f"chain-{seed}-{number}", "family": "fresh", "kind": "chain", "configs": _configs(chain)}
    return case | {"topics": chain.topics, "topology": chain.ops, "inputs": inputs}


# the topology


def _grow(chain: Chain) -> None:
    chain.variables.append(add_stream(chain))
    for add, probability in ((add_table, 0.6), (add_stream, 0.35), (add_table, 0.2), (add_global_table, 0.2)):
        if chain.chance(probability):
            chain.variables.append(add(chain))
    steps = chain.random.randint(2, 8)
    while steps > 0:
        variable = _next(chain)
        weights, operators = zip(*TABLE[variable.kind], strict=True)
        made = chain.random.choices(operators, weights)[0](chain, variable)
        if made is not None:
            chain.variables += made
            steps -= 1
    _end(chain)


def _next(chain: Chain) -> Variable:
    """Mostly a new variable, so that the chain gets long."""
    usable = [each for each in chain.variables if each.kind in TABLE]
    return chain.random.choice(usable[-3:] if chain.chance(0.75) else usable)


def _end(chain: Chain) -> None:
    """What nothing uses goes to a topic, and so do some others. Some share a topic."""
    shared: dict[tuple[str, str], str] = {}
    for variable in list(chain.variables):
        if variable.kind == "global table" or (variable.name in chain.used and not chain.chance(0.1)):
            continue
        stream = variable
        if variable.kind == "table":
            (stream,) = to_stream(chain, variable)
        types = (stream.key, stream.value)
        if types not in shared or not chain.chance(0.3):
            shared[types] = chain.new_topic("out", *types)
        chain.add("to", [stream], None, topic=shared[types], keySerde=stream.key, valueSerde=stream.value)


# inputs


def _inputs(chain: Chain) -> list[Input]:
    random, unit = chain.random, chain.unit_ms
    keys = random.sample(_KEYS, random.randint(2, 4))
    null_key, null_value = random.choice(((0.0, 0.1), (0.06, 0.12), (0.1, 0.25), (0.0, 0.0)))
    has_headers = chain.chance(0.3)
    wall_clock = 0.1 if any("Tick" in str(op.get("processor")) for op in chain.ops) else 0.02
    # Kafka's session store with a cache fails on a record whose time is less than the gap.
    has_sessions = any("session" in (op.get("storeType"), op.get("windows", {}).get("type")) for op in chain.ops)
    earliest_ms = 10 * unit if has_sessions or chain.chance(0.7) else 0
    now_ms = earliest_ms + random.choice((0, 0, unit, 1000, 10 * unit, 1_000_000, 100_000_000 // unit * unit))
    inputs: list[Input] = []
    for number in range(random.randint(8, 30)):
        if chain.chance(wall_clock):
            inputs.append({"advanceWallClock_ms": random.choice((1, unit, 10 * unit))})
            continue
        topic = random.choice(chain.inputs)
        time_ms = _next_time(chain, now_ms)
        now_ms = max(now_ms, time_ms)
        record: Input = {"topic": topic, "key": None if chain.chance(null_key) else random.choice(keys)}
        if chain.has_faults and topic in chain.faulty_inputs and chain.chance(0.15):
            record["value_hex"] = random.choice(("", "00", "616263", "000000000000000000"))
        else:
            record["value"] = None if chain.chance(null_value) else _value(chain, topic)
        record["timestamp_ms"] = max(earliest_ms, time_ms)
        if has_headers and chain.chance(0.5):
            record["headers"] = random.choice((*_HEADERS, [["id", str(number)]]))
        inputs.append(record)
    return inputs


def _value(chain: Chain, topic: str) -> object:
    if chain.topics[topic]["value"] == LONG:
        return chain.random.choice(_NUMBERS)
    if chain.has_faults and chain.chance(0.15):
        return "boom"
    script = chain.script.get(topic)
    if script and chain.chance(0.4):
        return chain.random.choice(script)
    return chain.random.choice(_TEXTS)


def _next_time(chain: Chain, now_ms: int) -> int:
    """Equal times, steps, edges of windows and of grace periods, late and very late ones, gaps."""
    random, unit = chain.random, chain.unit_ms
    edge_ms = random.choice(chain.edges_ms)
    start_ms = now_ms // unit * unit
    drawn = (
        (18, now_ms),
        (22, now_ms + random.randint(1, max(1, unit // 4))),
        (12, now_ms + unit),
        (8, start_ms + unit),
        (6, start_ms + unit - 1),
        (12, now_ms - random.randint(1, max(1, unit // 2))),
        (12, now_ms - edge_ms + random.choice((-1, 0, 1))),
        (2, start_ms - edge_ms + random.choice((-1, 0))),
        (4, now_ms - random.choice((3, 10)) * unit - edge_ms),
        (7, now_ms + random.choice((2 * unit, 3 * unit + 1, 10 * unit, unit + edge_ms, edge_ms + 1, edge_ms))),
        (2, now_ms + 100 * unit),
        (1, 0),
    )
    return max(0, random.choices([time_ms for _, time_ms in drawn], [weight for weight, _ in drawn])[0])


# configs


def _configs(chain: Chain) -> dict[str, str]:
    configs: dict[str, str] = {}
    if not chain.merges_branches and chain.chance(0.3):
        configs["topology.optimization"] = "all"
    if chain.chance(0.25):
        configs["statestore.cache.max.bytes"] = "0"
    if chain.has_faults:
        for name, noun in (("processing", "ProcessingException"), ("deserialization", "Exception")):
            kind = chain.random.choice(("LogAndContinue", "LogAndContinue", "LogAndFail"))
            configs[f"{name}.exception.handler"] = f"{_ERRORS}.{kind}{noun}Handler"
        if chain.chance(0.3):
            configs["errors.dead.letter.queue.topic.name"] = "dead"
            chain.topics["dead"] = {"key": "bytes", "value": "bytes"}
    if "dead" not in chain.topics and chain.chance(0.1):  # with it, Kafka's driver loses dead letters
        configs["processing.guarantee"] = "exactly_once_v2"
    if not chain.lacks_serdes and chain.chance(0.1):
        configs["default.key.serde"] = configs["default.value.serde"] = _STRING_SERDE
        for op in chain.ops:
            for serde in ("keySerde", "valueSerde", "otherValueSerde"):
                if op.get(serde) == STRING and not op["op"].startswith("add") and chain.chance(0.6):
                    del op[serde]
    return configs


def main(seed: str, count: int) -> None:
    for number in range(count):
        print(json.dumps(dsl_chain(seed, number), ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
