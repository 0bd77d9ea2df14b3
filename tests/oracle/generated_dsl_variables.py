"""The parts of a random chain of the DSL: variables, the chain while it grows, its sources, and the table of operators.

The table says on which kind of variable an operator is drawn, and how often. An operator is a function of the chain and
of a variable. It adds its ops to the chain and returns the new variables, or returns None where it does not fit the
variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

from tests.oracle.generated_dsl_functions import LONG, STRING

Op = dict[str, Any]


@dataclass(frozen=True)
class Variable:
    """A result of an op. `kind`: stream, table, global table, or what grouping and windowing make of them.

    `key`, `value`: the names of the serdes; `has_serdes`: whether the DSL knows them. `windows`: those of a windowed
    table, and of what it is made of. `history_ms`: of a versioned table. `is_source`: whether it has the inputs as they
    are. `joinable`: not so for cogrouped windows, whose table has no store that a join could read: Kafka fails at the
    start. `changers`: the key changes above a stream, as far as its next repartition topic. `joined_streams`: how many
    streams are joined in it. The number of its records grows with this power of the number of inputs.
    """

    name: str
    kind: str
    key: str = STRING
    value: str = STRING
    has_serdes: bool = True
    windows: Op | None = None
    history_ms: int | None = None
    is_source: bool = False
    joinable: bool = True
    changers: frozenset[str] = frozenset()
    joined_streams: int = 1


@dataclass
class Chain:
    """The topology of a case while it grows.

    `unit_ms`: of windows, and of the times of inputs. `edges_ms`: how late a record may just be, or is just too late,
    in the windows that were drawn. `script`: values for inputs that a processor reads as questions. `has_faults`:
    whether user functions may fail, and records of the topics `faulty_inputs` cannot be read; no topics of global
    tables, for Kafka's driver passes over such a record whatever the handler says. `merges_branches`: whether several
    branches below one key change are merged; when Kafka optimizes such a topology, only one goes through the topic.
    """

    random: Random
    unit_ms: int
    ops: list[Op] = field(default_factory=list)
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    edges_ms: list[int] = field(default_factory=lambda: [0])
    script: dict[str, list[str]] = field(default_factory=dict)
    has_faults: bool = False
    faulty_inputs: set[str] = field(default_factory=set)
    lacks_serdes: bool = False
    merges_branches: bool = False
    _names: int = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new_name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}-{self._names}"

    def add(self, op: str, inputs: list[Variable], result: Variable | None, /, **options: object) -> None:
        written: Op = {"op": op}
        if inputs:
            names = [each.name for each in inputs]
            self.used.update(names)
            written["in"] = names if len(names) > 1 else names[0]
        if result is not None:
            written["out"] = result.name
        if "name" not in options and op not in _WITHOUT_NAME and self.chance(0.08):
            written["name"] = self.new_name("node")
        self.ops.append(written | {option: value for option, value in options.items() if value is not None})

    def result(self, kind: str, like: Variable, **changes: Any) -> Variable:
        """A new variable with the types of another one, but for what is changed."""
        return replace(like, name=self.new_name("v"), kind=kind, history_ms=None, is_source=False, **changes)

    def stream_of(self, like: Variable, **changes: Any) -> Variable:
        return self.result("stream", like, windows=None, joinable=True, **changes)

    def with_new_keys(self, like: Variable, **changes: Any) -> Variable:
        """A stream after a key change."""
        result = self.stream_of(like, **changes)
        return replace(result, changers=frozenset((result.name,)))

    def table_of(self, like: Variable, store: Op | None = None, **changes: Any) -> Variable:
        """`store`: in which the table is kept."""
        stored = store is not None and "name" in store
        joinable = like.joinable or stored
        return self.result("table", like, joinable=joinable, changers=frozenset(), **{"has_serdes": True, **changes})

    def new_topic(self, prefix: str, key: str, value: str) -> str:
        name = f"{prefix}{len(self.topics)}"
        self.topics[name] = {"key": key, "value": value}
        return name

    def new_input(self, value: str) -> str:
        topic = self.new_topic("in", STRING, value)
        self.inputs.append(topic)
        return topic

    def other(self, kind: str, key: str, value: str | None = None) -> Variable | None:
        """A variable to join or merge with."""
        fit = [
            each
            for each in self.variables
            if (each.kind, each.key) == (kind, key) and value in (None, each.value) and each.joinable
        ]
        return self.random.choice(fit) if fit else None

    def materialized(self, key: str, value: str, *, named: float = 0.7) -> Op:
        store: Op = {"keySerde": key, "valueSerde": value}
        if self.chance(named):
            store["name"] = self.new_name("store")
        if self.chance(0.6):
            store["storeType"] = self.random.choice(("in_memory", "in_memory", "rocksDB"))
        if self.chance(0.5):
            store["caching"] = self.chance(0.5)
        if self.chance(0.06):
            store["logging"] = False
        return store

    def may_need_serdes(self, *tables: Variable) -> bool:
        """Whether an operator is drawn that needs the serdes of these tables. Without them, the topology is refused. At
        most one operator of a chain lacks serdes, for the order in which several are found is not compared.
        """
        if all(table.has_serdes for table in tables):
            return True
        if self.lacks_serdes or not self.chance(0.05):
            return False
        self.lacks_serdes = True
        return True

    def perhaps_materialized(self, table: Variable, value: str) -> Op | None:
        return self.materialized(table.key, value) if self.chance(0.4) else None

    def perhaps_versioned(self, store: Op | None, probability: float = 0.1) -> int | None:
        """Makes a store a versioned one, by chance. Returns its history."""
        if store is None or "name" not in store or store["keySerde"] != STRING or not self.chance(probability):
            return None
        for option in ("storeType", "caching"):
            store.pop(option, None)
        store["historyRetention_ms"] = self.random.choice((0, self.unit_ms, 5 * self.unit_ms, 100 * self.unit_ms))
        return int(store["historyRetention_ms"])

    def grace(self, *lengths_ms: int) -> int | None:
        """None: no grace. `lengths_ms`: of the windows."""
        unit = self.unit_ms
        grace_ms = self.random.choice((None, 0, unit // 2, unit, 5 * unit))
        self.edges_ms += [length_ms + (grace_ms or 0) for length_ms in (0, *lengths_ms)]
        return grace_ms

    def new_store(self, kind: str, key: str, value: str, **options: object) -> str:
        name = self.new_name("store")
        # A session store with a cache fails in Kafka when it is asked for all sessions before anything was put.
        caching = True if kind not in ("versioned", "session") and self.chance(0.25) else None
        logging = False if self.chance(0.1) else None
        serdes = {"keySerde": key, "valueSerde": value}
        persistent = self.chance(0.4)
        more = {"persistent": persistent, "caching": caching, "logging": logging, **options}
        self.add("addStateStore", [], None, store=name, storeType=kind, **serdes, **more)
        return name


_WITHOUT_NAME = frozenset(("addStateStore", "addGlobalStore", "windowedBy", "cogroup", "globalTable", "process"))

Step = Callable[[Chain, Variable], list[Variable] | None]
AnyStep = TypeVar("AnyStep", bound=Step)
TABLE: dict[str, list[tuple[float, Step]]] = {}
"""By kind of variable: operators with their weights."""


def on(kind: str, weight: float) -> Callable[[AnyStep], AnyStep]:
    def register(step: AnyStep) -> AnyStep:
        TABLE.setdefault(kind, []).append((weight, step))
        return step

    return register


# sources


def add_stream(chain: Chain) -> Variable:
    value = chain.random.choice((STRING, STRING, STRING, LONG))
    topics = [chain.new_input(value) for _ in range(chain.random.choice((1, 1, 1, 1, 2)))]
    stream = Variable(chain.new_name("v"), "stream", STRING, value, is_source=True)
    extractor = None
    if chain.chance(0.08):
        drawn = [["plus", chain.unit_ms], ["plus", 1], ["partitionTime"], ["FailOnInvalidTimestamp"]]
        extractor = chain.random.choice(drawn)
    chain.faulty_inputs.update(topics if value == LONG else ())
    chain.add("stream", [], stream, topics=topics, keySerde=STRING, valueSerde=value, timestampExtractor=extractor)
    return stream


def add_table(chain: Chain) -> Variable:
    value = chain.random.choice((STRING, STRING, STRING, LONG))
    store = chain.materialized(STRING, value, named=0.8) if chain.chance(0.7) else None
    history_ms = chain.perhaps_versioned(store, 0.25)
    if store is not None:
        del store["keySerde"], store["valueSerde"]
    table = Variable(chain.new_name("v"), "table", STRING, value, history_ms=history_ms, is_source=True)
    topic = chain.new_input(value)
    chain.faulty_inputs.update((topic,) if value == LONG else ())
    chain.add("table", [], table, topic=topic, keySerde=STRING, valueSerde=value, materialized=store)
    return table


def add_global_table(chain: Chain) -> Variable:
    value = chain.random.choice((STRING, STRING, LONG))
    store = chain.materialized(STRING, value, named=1) if chain.chance(0.6) else None
    if store is not None:
        store.pop("logging", None)
    table = Variable(chain.new_name("v"), "global table", STRING, value)
    topic = chain.new_input(value)
    chain.add("globalTable", [], table, topic=topic, keySerde=STRING, valueSerde=value, materialized=store)
    chain.used.add(table.name)
    return table
