"""Finds the joins and cogroups of a described topology, and the sources that each of them co-partitions.

Kafka's DSL tells its builder, for each join and cogroup, which sources have to be co-partitioned. A join is a
stream-stream join, a table-table join, a stream-table join or a foreign-key join. In the text, a join appears as a
processor that uses the store of another processor. If the DSL generated the name of a processor, the name shows whether
the processor is a join. If the user named the DSL call, the name of a node consists of the user's name and a suffix.
The suffix shows a stream-stream join, a table-table join, a foreign-key join or a cogroup. The text of
`Topology#describe` is ambiguous in three cases:

- A processor that the user has named uses the store of another processor. The named processor may be a stream-table
  join (`Joined.as`). The named processor may also be a processor that the user wrote. Kafka does not co-partition the
  topics of a processor that the user wrote.
- A cogroup reads a repartition topic that the user has named. If the cogroup created this repartition topic
  (`Grouped.as`), Kafka co-partitions the topics upstream of this repartition topic. If the user created this
  repartition topic (`Repartitioned.as`), Kafka co-partitions the topic itself.
- A repartition topic that the user has named has several readers. If a DSL call created the topic for the first reader,
  Kafka's builder records another source for each later reader. The sources for later readers do not become nodes, so
  Kafka does not co-partition the topic for these readers.

`copartition.py` decides these ambiguous cases. Source: `AbstractStream.ensureCopartitionWith`,
`KStreamImpl.repartitionForJoin`, `InternalTopologyBuilder.copartitionSources`, `CogroupedStreamAggregateBuilder`,
`KTableImpl.doJoinOnForeignKey`.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assignor.topology.definition import Node, ProcessorNode, SinkNode, SourceNode, TopologyDefinition
from kafka_groups.described.stores import users_of_stores

_NUMBER = r"-\d{10}"
_JOIN = re.compile(
    rf"KSTREAM-(?:JOIN|LEFTJOIN|JOINTHIS|JOINOTHER|OUTERTHIS|OUTEROTHER){_NUMBER}|KTABLE-JOIN(?:THIS|OTHER){_NUMBER}"
    rf"|KTABLE-FK-JOIN-SUBSCRIPTION-(?:PROCESSOR|RESPONSE-RESOLVER-PROCESSOR){_NUMBER}",
    re.ASCII,
)
_SELF_JOIN = re.compile(rf"KSTREAM-MERGE{_NUMBER}|.+-merge", re.ASCII)
"""Matches the names of merge nodes. The optimizer turns a join of a stream with itself into a single merge node. Only
this kind of merge node uses a store.
"""
_NAMED_JOIN = re.compile(
    r"(?P<name>.+?)-(?:(?P<streams>(?:outer-)?(?:this|other)-join)|(?P<tables>join-(?:this|other))"
    r"|(?P<foreign>subscription-join-foreign|subscription-response-resolver))",
    re.ASCII | re.DOTALL,
)
_GENERATED = re.compile(rf"K(?:STREAM|TABLE)-[A-Z-]+{_NUMBER}|COGROUPKSTREAM-[A-Z-]+{_NUMBER}", re.ASCII)
_FILLER = re.compile(
    rf"KSTREAM-(?:WINDOWED|TOTABLE|AGGREGATE|REDUCE){_NUMBER}|KTABLE-(?!JOIN(?:THIS|OTHER)-|FK-JOIN-SUB)[A-Z-]+{_NUMBER}"
    r"|.+-(?:table-source|this-windowed|other-windowed)",
    re.ASCII | re.DOTALL,
)
"""Matches the names of processors of the DSL that fill a store."""
_WINDOW_FILLER = re.compile(rf"KSTREAM-WINDOWED{_NUMBER}|.+-(?:this|other)-windowed", re.ASCII | re.DOTALL)
_MOVED_OWNER = re.compile(rf"KSTREAM-TOTABLE{_NUMBER}|.+-STATE-STORE{_NUMBER}", re.ASCII)
"""Matches names of nodes and stores. From such a name, the DSL makes the name of a repartition topic. Normally the
named node, or a node that uses the named store, reads the repartition topic. If a different node reads the repartition
topic, the optimizer has moved the topic.
"""
_ENDS_WITH_NUMBER = re.compile(r"-(\d{10})\Z", re.ASCII)
_STORE_OF_JOIN = re.compile(r"KSTREAM-(?:JOIN|OUTER)(?:THIS|OTHER|SHARED)-(\d{10})-store", re.ASCII)
"""Matches the generated store names of a stream-stream join. The store name contains the number of the DSL call, even
if the user has named the join.
"""
_NO_CALL_LATER = 10**10
_MOST_ALTERNATIVES = 16
_ALL = frozenset({"all sources"})
_ONE_SIDE = re.compile(
    rf"KSTREAM-(?:JOIN|OUTER)(?:THIS|OTHER){_NUMBER}|KTABLE-JOIN(?:THIS|OTHER){_NUMBER}"
    r"|.+-(?:this|other)-join|.+-join-(?:this|other)",
    re.ASCII | re.DOTALL,
)
"""Matches the names of the two nodes that process the two sides of a join. A merge node below these nodes merges their
results.
"""
_SUBSCRIPTIONS = re.compile(rf"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE{_NUMBER}|.+-subscription-store", re.ASCII)
"""Matches the subscription store of a foreign-key join. Both sides of a foreign-key join use the subscription store. So
the processors that use this store do not show that Kafka co-partitions the two sides.
"""
_OF_BOTH_SIDES = re.compile(
    rf"KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR{_NUMBER}|.+-subscription-response-resolver"
    rf"|KSTREAM-(?:LEFT)?JOIN{_NUMBER}",
    re.ASCII | re.DOTALL,
)
"""Matches the names of nodes that join with a table. The table's node is not a parent of the matched node. The join
also depends on the sources of the table.
"""
_COGROUP_AGGREGATE = re.compile(rf"COGROUPKSTREAM-AGGREGATE{_NUMBER}|(?P<name>.+)-cogroup-agg-\d+", re.ASCII)
_COGROUP_MERGE = re.compile(rf"COGROUPKSTREAM-MERGE{_NUMBER}|.+-cogroup-merge", re.ASCII)
_GENERATED_REPARTITION = re.compile(rf"KSTREAM-REPARTITION{_NUMBER}-repartition", re.ASCII)

Sources = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copartitioning:
    """The source nodes that one join or cogroup co-partitions. `alternatives`: the possible groups of source nodes. If
    the text does not show which sources are co-partitioned, `alternatives` has several groups. An empty group means
    that no sources are co-partitioned. `reason`: the reason why there are several alternatives.

    `node`: the node that shows the join or cogroup. `call`: an id of the DSL call; all nodes of one join have the same
    id. `earliest`, `latest`: the smallest and the largest number that the DSL can have given to the call. `earliest`
    and `latest` differ only if the user has named the node.
    """

    node: str
    call: str
    alternatives: tuple[Sources, ...]
    reason: str = ""
    earliest: int = 0
    latest: int = 0


@dataclass(frozen=True, slots=True)
class _UnnotedReaders:
    """Sources that are parents of a node although Kafka's builder does not record them for this node. `certain`: for
    each node, the parent sources that the builder certainly did not record. `possible`: for each node, the parent
    sources that the builder may not have recorded.
    """

    certain: Mapping[str, frozenset[str]]
    possible: Mapping[str, frozenset[str]]


def copartitionings(definition: TopologyDefinition) -> tuple[Copartitioning, ...]:
    """Returns the joins and cogroups of the topology, with the sources that each of them co-partitions. The names and
    stores of the nodes show the joins and cogroups.
    """
    return tuple(_ShownJoins(definition).found())


class _ShownJoins:
    """Finds the joins and cogroups that a text shows, each with the source nodes of its sides."""

    def __init__(self, definition: TopologyDefinition) -> None:
        self._definition = definition
        self._users = users_of_stores(definition)
        self._order = _order_of_calls(definition, self._users)
        self._latest = _latest_calls(definition, self._order)
        self._writers: dict[str, list[str]] = {}
        for name, node in definition.nodes.items():
            if isinstance(node, SinkNode):
                self._writers.setdefault(node.topic, []).append(name)
        unnoted = self._unnoted_readers()
        self._above = _sources_above(definition, self._users, unnoted.certain)
        self._least_above = _sources_above(definition, self._users, {**unnoted.certain, **unnoted.possible})
        self._unnoted = unnoted

    def found(self) -> Iterator[Copartitioning]:
        """Yields a `Copartitioning` for each join and cogroup, in the order of the DSL calls. The numbers in generated
        names of nodes show this order. Names that the user chose contain no number.
        """
        global_nodes = self._definition.global_nodes()
        seen: set[str] = set()
        for name in sorted(self._definition.nodes, key=self._order.__getitem__):
            node = self._definition.nodes[name]
            if not isinstance(node, ProcessorNode) or name in global_nodes:
                continue
            if not self._is_cogroup_aggregate(name):
                yield from self._join(name, node)
            elif node.stores[0] not in seen:
                seen.add(node.stores[0])
                yield self._cogroup(name, node.stores[0])

    def _join(self, name: str, node: ProcessorNode) -> Iterator[Copartitioning]:
        certain = self._is_join(name)
        fillers = {
            store: found
            for store in node.stores
            if not _SUBSCRIPTIONS.fullmatch(store) and (found := self._possible_fillers(store, name, certain))
        }
        if fillers and (certain or self._may_be_join(name, node)):
            choices = itertools.islice(itertools.product(*fillers.values()), _MOST_ALTERNATIVES)
            groups = [
                self._together(above, left_out, name, each)
                for each in choices
                for above, left_out in (
                    (self._above, self._unnoted.certain),
                    (self._least_above, {**self._unnoted.certain, **self._unnoted.possible}),
                )
            ]
            yield self._copartitioning(
                name,
                tuple(dict.fromkeys(groups if certain else [*groups, ()])),
                f"{name} is a join below a repartition topic that several nodes read"
                if certain
                else f"{name} uses store {', '.join(fillers)}, as a join with a name of the user's own does",
            )

    def _copartitioning(self, name: str, alternatives: tuple[Sources, ...], reason: str) -> Copartitioning:
        return Copartitioning(name, self._call_of(name), alternatives, reason, self._order[name], self._latest[name])

    def _call_of(self, name: str) -> str:
        node = self._definition.nodes[name]
        if isinstance(node, ProcessorNode) and self._is_join(name):
            for store in node.stores:
                if _SUBSCRIPTIONS.fullmatch(store):  # both sides of a join by foreign key use this store
                    return store
            if _ONE_SIDE.fullmatch(name):
                return next((below for below, each in self._definition.nodes.items() if name in each.parents), name)
        return name

    def _cogroup(self, name: str, store: str) -> Copartitioning:
        """Returns the Copartitioning of a cogroup: the sources of all aggregates that share the store."""
        names = [user.name for user in self._users[store] if self._is_cogroup_aggregate(user.name)]
        sides = dict.fromkeys(self._cogroup_sources(name, store) for name in names)
        choices = itertools.islice(itertools.product(*sides), _MOST_ALTERNATIVES)
        groups = dict.fromkeys(frozenset(itertools.chain.from_iterable(each)) for each in choices)
        in_order = tuple(dict.fromkeys(source for side in sides for sources in side for source in sources))
        return self._copartitioning(
            name,
            tuple(tuple(source for source in in_order if source in group) for group in groups),
            f"{', '.join(names)} read repartition topics that either the cogroup or the user asked for",
        )

    def _possible_fillers(self, store: str, user: str, certain: bool) -> tuple[str, ...]:
        """Returns the processors that may fill the store of a join. `user`: the node that may be the join. The result
        is empty if this node itself fills the store.
        """
        users = [each.name for each in self._users[store]]
        known = [each for each in users if _FILLER.fullmatch(each) or self._is_cogroup_aggregate(each)]
        if known:
            ours = [each for each in known if certain or not _WINDOW_FILLER.fullmatch(each)]
            return () if user in known else tuple(ours[:1])
        return tuple(
            each for each in users if each != user and not _GENERATED.fullmatch(each) and not self._is_join(each)
        )

    def _together(
        self, above: Mapping[str, Sources], left_out: Mapping[str, frozenset[str]], name: str, fillers: Sequence[str]
    ) -> Sources:
        """Returns the co-partitioned sources of a join: the sources of its own stream and of the joined tables.
        `left_out`: sources of the stream that are left out. A table that is the result of a cogroup adds no source,
        because Kafka records no source for this table.
        """
        own = left_out.get(name, frozenset())
        parents = () if own is _ALL else self._definition.nodes[name].parents
        sides = (
            *(tuple(source for source in above[parent] if source not in own) for parent in parents),
            *(() if self._is_cogroup_aggregate(each) else above[each] for each in fillers),
        )
        return tuple(dict.fromkeys(source for side in sides for source in side))

    def _cogroup_sources(self, aggregate: str, store: str) -> tuple[Sources, ...]:
        """Returns the alternatives for the sources of an aggregate. The first alternative has the sources upstream of
        the aggregate's repartition topic. The second alternative has the sources that the aggregate reads itself. The
        result has one element if only one alternative is possible.
        """
        own_topic = f"{store}-repartition"
        # The optimizer may move the repartition topic of a cogroup upstream. Kafka's builder records the sources before
        # the optimizer moves the topic.
        read = tuple(
            dict.fromkeys(
                each
                for source in self._above[aggregate]
                for each in (self._upstream(own_topic) if self._reads(source) == (own_topic,) else (source,))
            )
        )
        (parent,) = self._definition.nodes[aggregate].parents
        topics = self._reads(parent)
        if len(topics) != 1 or topics[0] not in self._definition.repartition_topics or topics[0] == own_topic:
            return (read,)
        return (read,) if _GENERATED_REPARTITION.fullmatch(topics[0]) else (self._upstream(topics[0]), read)

    def _upstream(self, topic: str) -> Sources:
        return tuple(dict.fromkeys(s for sink in self._writers.get(topic, ()) for s in self._above[sink]))

    def _repartitioned(self, topic: str) -> set[str]:
        """Returns the nodes whose streams are written to a repartition topic, through its filter."""
        nodes = self._definition.nodes
        filters = (each for sink in self._writers.get(topic, ()) for each in nodes[sink].parents)
        return {parent for each in filters for parent in nodes[each].parents}

    def _reads(self, source: str) -> Sources:
        return self._definition.source_topics(source)

    def _unnoted_readers(self) -> _UnnotedReaders:
        """Returns the parent sources that Kafka's builder did not record for a node that reads a repartition topic."""
        certain: dict[str, frozenset[str]] = {}
        possible: dict[str, frozenset[str]] = {}
        for source, node in self._definition.nodes.items():
            if not isinstance(node, SourceNode) or len(node.topics) != 1:
                continue
            (topic,) = node.topics
            if topic not in self._definition.repartition_topics or _GENERATED_REPARTITION.fullmatch(topic):
                continue
            readers = [name for name, each in self._definition.nodes.items() if source in each.parents]
            readers.sort(key=self._order.__getitem__)
            owner = topic.removesuffix("-repartition")
            if _GENERATED.fullmatch(owner) and owner in self._repartitioned(topic):
                # Only joins create a repartition topic of this name, and they read it directly. For any other reader
                # the optimizer has moved another topic here, whose source did not become a node.
                others = {name for name in readers if _GENERATED.fullmatch(name) and not self._begins_join(name)}
                certain |= {name: frozenset((source,)) for name in others}
                readers = [name for name in readers if name not in others]
            if _MOVED_OWNER.fullmatch(owner):
                if not self._owns(owner, readers):
                    possible |= {name: frozenset((source,)) for name in readers}
                    possible |= {name: _ALL for name in self._definition.nodes if self._owns(owner, [name])}
            # for each later reader, the builder recorded a different source, which did not become a node
            elif _GENERATED.fullmatch(owner) and _GENERATED.fullmatch(source):
                certain |= {name: frozenset((source,)) for name in readers[1:]}
            else:
                later = dict(self._later_joins(source))
                if _GENERATED.fullmatch(owner):
                    certain |= {name: frozenset((source,)) for name, is_certain in later.items() if is_certain}
                possible |= {name: frozenset((source,)) for name in (*readers[1:], *later)}
        return _UnnotedReaders(certain, possible)

    def _later_joins(self, source: str) -> Iterator[tuple[str, bool]]:
        """Finds each join that is not the first join of its stream. Yields the name of the join, and True if another
        join of the stream is certainly earlier. The method starts at `source`, the source node of a repartition topic
        that the optimizer may have moved. From there, the method follows the streams down to the first stateful
        operators. For each join of a stream, the builder records a new source for the repartition topic of the stream.
        The second join reuses the repartition topic of the first join. So the source of the second join does not become
        a node of the topology.
        """
        streams = [source]
        while streams:
            stream = streams.pop()
            children = [name for name, each in self._definition.nodes.items() if stream in each.parents]
            joins = [name for name in children if self._begins_join(name)]
            joins.sort(key=self._order.__getitem__)
            for name in filter(_GENERATED.fullmatch, joins):
                others = [other for other in joins if other != name and self._order[other] < self._order[name]]
                if others:
                    yield name, any(self._latest[other] < self._order[name] for other in others)
            streams += [
                name
                for name in children
                if name not in joins and not _FILLER.fullmatch(name) and not self._is_cogroup_aggregate(name)
            ]

    def _owns(self, owner: str, names: Iterable[str]) -> bool:
        """Returns True if one of the named nodes is the owner of a repartition topic. `owner`: the name of a node or of
        a store. A node that uses the store is treated as the owner of the store.
        """
        users = {user.name for user in self._users.get(owner, ())}
        return any(name == owner or name in users for name in names)

    def _is_join(self, name: str) -> bool:
        """Returns True if the name of the node shows that it is a join. A merge node is a self-join if its parent fills
        a window store.
        """
        if _JOIN.fullmatch(name):
            return True
        if _SELF_JOIN.fullmatch(name) and any(map(_WINDOW_FILLER.fullmatch, self._definition.nodes[name].parents)):
            return True
        match = _NAMED_JOIN.fullmatch(name)
        if match is None:
            return False
        nodes, given = self._definition.nodes, match["name"]
        if match["streams"]:
            return f"{given}-this-windowed" in nodes and f"{given}-other-windowed" in nodes
        if match["tables"]:
            return {f"{given}-join-this", f"{given}-join-other"} <= set(nodes[given].parents if given in nodes else ())
        return f"{given}-subscription-registration-topic" in self._definition.repartition_topics

    def _begins_join(self, name: str) -> bool:
        """Returns True if the node is the first node that a join adds to one of its streams."""
        return self._is_join(name) or _WINDOW_FILLER.fullmatch(name) is not None

    def _is_cogroup_aggregate(self, name: str) -> bool:
        return _is_cogroup_aggregate(self._definition, name)

    def _may_be_join(self, name: str, node: ProcessorNode) -> bool:
        """Returns True if the node may be a stream-table join with a name that the user chose."""
        known = _GENERATED.fullmatch(name) or _FILLER.fullmatch(name) or self._is_cogroup_aggregate(name)
        return not known and len(node.parents) == 1


def _sources_above(
    definition: TopologyDefinition, users: Mapping[str, Sequence[ProcessorNode]], unnoted: Mapping[str, frozenset[str]]
) -> dict[str, Sources]:
    """Returns, for each node, the source nodes that Kafka's builder records for the node. For a source node, the
    builder records this node itself. For a cogroup, the builder records no source. For a join with a table, the builder
    also records the sources of the table. `unnoted`: for each node, the parent sources that the builder does not
    record; the value `_ALL` means all parent sources.
    """
    above: dict[str, Sources] = {}

    def of(name: str) -> Sources:
        if name not in above:
            above[name] = ()  # ends the recursion if an invalid text has a cycle
            above[name] = found(name, definition.nodes[name])
        return above[name]

    def found(name: str, node: Node) -> Sources:
        left_out = unnoted.get(name, frozenset())
        if isinstance(node, SourceNode):
            return (name,)
        if left_out is _ALL or (
            _COGROUP_MERGE.fullmatch(name) and all(_is_cogroup_aggregate(definition, each) for each in node.parents)
        ):
            return ()
        before = node.parents
        if isinstance(node, ProcessorNode) and _OF_BOTH_SIDES.fullmatch(name):
            for store in node.stores:  # if the table is itself a join of tables, the node has several stores
                sharing = [user.name for user in users[store]]
                fillers = [each for each in sharing if not _JOIN.fullmatch(each) and not _NAMED_JOIN.fullmatch(each)]
                fillers = [each for each in fillers if _FILLER.fullmatch(each)] or fillers
                if not any(_is_cogroup_aggregate(definition, each) for each in sharing):
                    before = (*before, *fillers[:1])
        return tuple(dict.fromkeys(source for each in before for source in of(each) if source not in left_out))

    for name in definition.nodes:
        of(name)
    return above


def _order_of_calls(definition: TopologyDefinition, users: Mapping[str, Sequence[ProcessorNode]]) -> dict[str, int]:
    """Returns, for each node, the number of the DSL call that added the node. The DSL counts its calls and writes the
    number into generated names. A node that the user has named has no number in its name. A node without a number gets
    the largest number of its parents, its stores, and the processors that fill its stores.
    """
    order: dict[str, int] = {}
    for name, node in definition.nodes.items():
        match = _ENDS_WITH_NUMBER.search(name)
        order[name] = int(match[1]) if match else max((order[parent] for parent in node.parents), default=-1)
    for name, node in definition.nodes.items():
        if isinstance(node, ProcessorNode) and _ENDS_WITH_NUMBER.search(name) is None:
            fillers = [each.name for store in node.stores for each in users[store] if _FILLER.fullmatch(each.name)]
            own_stores = [int(match[1]) for match in map(_STORE_OF_JOIN.fullmatch, node.stores) if match]
            order[name] = max((order[name], *own_stores, *map(order.__getitem__, (*fillers, *node.parents))))
    return _equal_in_a_call(order, max)


def _latest_calls(definition: TopologyDefinition, order: Mapping[str, int]) -> dict[str, int]:
    """Returns, for each node, the largest number that the node's DSL call can have. For a node with a generated name,
    the largest number is the number in the name. For a node that the user has named, this number is one less than the
    smallest number of the node's children.
    """
    children: dict[str, list[str]] = {}
    for name, node in definition.nodes.items():
        for parent in node.parents:
            children.setdefault(parent, []).append(name)
    latest: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in latest:
            latest[name] = order[name]  # This entry ends the recursion if an invalid text has a cycle.
            if _ENDS_WITH_NUMBER.search(name) is None:
                below = [of(child) - 1 for child in children.get(name, ())]
                latest[name] = max(order[name], min(below, default=_NO_CALL_LATER))
        return latest[name]

    for name in definition.nodes:
        of(name)
    return {name: max(order[name], number) for name, number in _equal_in_a_call(latest, min).items()}


def _equal_in_a_call(numbers: Mapping[str, int], choose: Callable[[Iterable[int]], int]) -> dict[str, int]:
    """Returns a copy of the numbers by node. If the user has named a join, all its nodes get the same number in the
    copy. `choose`: the function that selects this number, such as `max`.
    """
    of_call: dict[str, list[int]] = {}
    joins = {name: match["name"] for name in numbers if (match := _NAMED_JOIN.fullmatch(name)) is not None}
    for name, call in joins.items():
        of_call.setdefault(call, []).append(numbers[name])
    return {name: choose(of_call[joins[name]]) if name in joins else number for name, number in numbers.items()}


def _is_cogroup_aggregate(definition: TopologyDefinition, name: str) -> bool:
    match = _COGROUP_AGGREGATE.fullmatch(name)
    return match is not None and (match["name"] is None or f"{match['name']}-cogroup-merge" in definition.nodes)
