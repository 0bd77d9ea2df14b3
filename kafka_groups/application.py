"""Reads an operator's description of an application. The description has three parts: a file with the topology, the
application's properties, and facts from command-line options.

The file with the topology contains the text of the application's `Topology#describe`, or JSON. The JSON can be the
field `input.topology` of rebalance/1, or a line of a recording. The JSON can also be a definition in the coordinator's
format. The field `input` of rebalance/1 has the same format. The members and the cluster of a definition are ignored.
This module uses only those properties of the application that Kafka's leader reads.

Options add facts that the text of `Topology#describe` lacks:

- `--store STORE=not-logged`: The store has no changelog.
- `--store STORE=topic:NAME`: The store has no changelog, and is restored from the application's source topic NAME.
- `--store STORE=key-value`: The store is neither windowed nor versioned.
- `--store STORE=retention.ms:N`: The store is windowed, with a retention of N ms. Kafka Streams adds
  windowstore.changelog.additional.retention.ms to the retention of its changelog.
- `--store STORE=history.retention.ms:N`: The store is versioned, with a history retention of N ms.
- `--copartitioned A,B`: Kafka requires equal numbers of partitions of these topics, for example for a join.
- `--not-copartitioned A,B`: Kafka does not require equal numbers of partitions of these topics. Only the user's own
  processor combines records of these topics.

The application's property `topology.optimization` determines whether the tables of the DSL are restored from their
source topics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assignor.configs import KNOWN_KEYS, TOPIC_PREFIX
from assignor.errors import InputError
from assignor.recording.fields import as_assignor, as_object, document_of_line
from assignor.recording.topology_fields import as_topology
from assignor.topology.group_topology import GroupTopology
from kafka_groups.described.copartition import COPARTITIONED, NOT_COPARTITIONED, CopartitionFacts
from kafka_groups.described.stores import StoreFacts
from operating_system.whole_files import input_errors

DEFAULT_ASSIGNOR = "HighAvailabilityTaskAssignor"
_PUBLIC_KEY, _INTERNAL_KEY = "task.assignor.class", "internal.task.assignor.class"
_OLD_STICKY = "StickyTaskAssignor"
TOPOLOGY_OPTIMIZATION = "topology.optimization"
_REUSES_SOURCE_TOPICS = frozenset({"all", "reuse.ktable.source.topics"})
_OPTIMIZATIONS = _REUSES_SOURCE_TOPICS | {"none", "merge.repartition.topics", "single.store.self.join"}
_STORE_FORMS = (
    "STORE=not-logged, STORE=topic:NAME, STORE=key-value, STORE=retention.ms:N or STORE=history.retention.ms:N"
)


@dataclass(frozen=True, slots=True)
class ApplicationFile:
    """The content of an application file. Either `topology` or `description` is set. `description`: the text of
    `Topology#describe`. `configs`: the configs that the assignor uses, under Kafka's dotted names.
    """

    path: str
    topology: GroupTopology | None
    description: str | None
    configs: Mapping[str, object]
    assignor: str | None


def read_application_file(path: Path) -> ApplicationFile:
    """Reads an application file. Raises InputError if the file cannot be used; the message names the file and the
    fault.
    """
    with input_errors("cannot be read", path):
        content = path.read_bytes()
    if not content.lstrip().startswith(b"{"):
        return ApplicationFile(str(path), None, _as_text(content, path), {}, None)
    try:
        document: Mapping[str, object] = document_of_line(content)
    except InputError as error:
        raise InputError(str(error), str(path)) from None
    if "subtopologies" in document:
        return ApplicationFile(str(path), as_topology(document, str(path)), None, {}, None)
    if "input" in document:
        document = as_object(document["input"], f"{path}: input")
    if "topology" not in document:
        raise InputError(
            "has neither 'subtopologies' (input.topology of rebalance/1) nor 'topology' (a whole definition)", str(path)
        )
    configs = document.get("configs")
    assignor = document.get("assignor")
    return ApplicationFile(
        str(path),
        as_topology(document["topology"], f"{path}: topology"),
        None,
        {} if configs is None else as_object(configs, f"{path}: configs"),
        None if assignor is None else as_assignor(assignor, f"{path}: assignor"),
    )


def placement_configs(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties that the assignor uses, and leaves out all others."""
    return {key: value for key, value in properties.items() if key in KNOWN_KEYS or key.startswith(TOPIC_PREFIX)}


def configured_assignor(properties: Mapping[str, str]) -> str | None:
    """Returns the simple name of the configured task assignor class, or None if no class is configured."""
    for key in (_PUBLIC_KEY, _INTERNAL_KEY):
        name = properties.get(key, "").strip().rpartition(".")[2]
        if name:
            is_old = key == _INTERNAL_KEY and name == _OLD_STICKY
            return "LegacyStickyTaskAssignor" if is_old else name
    return None


def _as_text(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("is neither JSON nor the text of Topology#describe: it is not UTF-8", str(path)) from None


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """The facts about a topology that an operator adds by command-line options. `topology_from_description` describes
    `stores` and `copartition`.
    """

    stores: StoreFacts = field(default_factory=StoreFacts)
    copartition: CopartitionFacts = field(default_factory=CopartitionFacts)

    def check_unused(self, path: str) -> None:
        """Raises InputError if the command-line options give any facts. Call this method if the file at `path` already
        has the complete topology.
        """
        for option, facts in (("--store", self.stores), (COPARTITIONED, self.copartition)):
            if facts:
                raise InputError(f"goes with the text of Topology#describe only; {path} already has it all", option)


def topology_facts(
    stores: Sequence[str] = (),
    copartitioned: Sequence[str] = (),
    not_copartitioned: Sequence[str] = (),
    optimization: str | None = None,
) -> TopologyFacts:
    """Parses the command-line options that add facts about the topology. `optimization`: the application's property
    `topology.optimization`; None if the application's properties are not known. Raises InputError.
    """
    return TopologyFacts(
        _stores(stores, None if optimization is None else _reuses_source_topics(optimization)),
        CopartitionFacts(_topics(copartitioned, COPARTITIONED), _topics(not_copartitioned, NOT_COPARTITIONED)),
    )


def _reuses_source_topics(optimization: str) -> bool:
    chosen = {each.strip() for each in optimization.split(",")}
    if not chosen <= _OPTIMIZATIONS:
        raise InputError(f"must be of {', '.join(sorted(_OPTIMIZATIONS))}, not {optimization!r}", TOPOLOGY_OPTIMIZATION)
    return not chosen.isdisjoint(_REUSES_SOURCE_TOPICS)


def _topics(options: Sequence[str], option: str) -> tuple[frozenset[str], ...]:
    groups = tuple(frozenset(filter(None, (topic.strip() for topic in text.split(",")))) for text in options)
    for text, group in zip(options, groups, strict=True):
        if len(group) < 2:
            raise InputError(f"must be at least two topics, as A,B, not {text!r}", option)
    return groups


def _stores(options: Sequence[str], reuses_source_topics: bool | None) -> StoreFacts:
    """Parses `--store` options. The module's docstring lists the forms of `--store`."""
    facts_by_store: dict[str, str] = {}
    names: dict[str, set[str]] = {"not-logged": set(), "key-value": set()}
    topics: dict[str, str] = {}
    times: dict[str, dict[str, int]] = {"retention.ms": {}, "history.retention.ms": {}}
    for option in options:
        store, _, fact = option.partition("=")
        kind, _, value = fact.partition(":")
        if store in facts_by_store:
            raise InputError(f"{store} is given twice", "--store")
        facts_by_store[store] = fact
        if store and fact in names:
            names[fact].add(store)
        elif store and kind == "topic" and value:
            topics[store] = value
        elif store and kind in times and value.isascii() and value.isdecimal():
            times[kind][store] = int(value)
        else:
            raise InputError(f"must be {_STORE_FORMS}, not {option!r}", "--store")
    return StoreFacts(
        not_logged=frozenset(names["not-logged"]),
        source_changelogs=topics,
        retention_ms=times["retention.ms"],
        history_retention_ms=times["history.retention.ms"],
        key_value=frozenset(names["key-value"]),
        reuses_source_topics=reuses_source_topics,
    )
