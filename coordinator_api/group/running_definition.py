"""What two definitions of a group differ in, as far as living members could not go from one to the other.

That is the topology, because a member can only start tasks that its own topology has, and the cluster, because it reads
and writes the one that it was started with. Everything else in a definition (the assignor, configs, what a described
cluster looks like) may change under living members.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assignor.recording import as_topology
from assignor.topology.group_topology import GroupTopology, Subtopology

_MOST_NAMED = 5
_SERVERS = "bootstrap.servers"


def differences(running: str, declared: str) -> list[str]:
    """A clause for each difference; empty when members go on as they are. Both: `input_json` of `DeclareGroup`.

    Of two addresses of the same Kafka cluster, one broker in common is enough: lists of brokers grow.
    """
    before, after = json.loads(running), json.loads(declared)
    return [*_of_clusters(before["cluster"], after["cluster"]), *_of_topologies(before["topology"], after["topology"])]


def shortened(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first ones, and how many more there are."""
    more = len(names) - most
    return separator.join(names[:most]) + (f"{separator}and {more} more" if more > 0 else "")


def _of_clusters(running: Mapping[str, str], declared: Mapping[str, str]) -> Iterator[str]:
    """Only of clusters that both definitions name with an address: no member reads one that a definition describes,
    and without an address the only cluster of the service is meant.
    """
    before, after = running.get(_SERVERS), declared.get(_SERVERS)
    if before is None or after is None or not _brokers(before).isdisjoint(_brokers(after)):
        return
    yield f"it reads and writes {before}, the new one {after}"


def _brokers(address: str) -> set[str]:
    return {each.strip() for each in address.replace(";", ",").split(",")}


def _of_topologies(running: object, declared: object) -> Iterator[str]:
    if running == declared:
        return
    before, after = as_topology(running, "topology"), as_topology(declared, "topology")
    if before == after:
        return
    found = list(_of_subtopologies(before, after))
    yield from found or ["the same topics are grouped or ordered in another way"]


def _of_subtopologies(before: GroupTopology, after: GroupTopology) -> Iterator[str]:
    old = {each.id: each for each in before.subtopologies}
    new = {each.id: each for each in after.subtopologies}
    for number in sorted(old.keys() - new.keys()):
        yield f"{_in_words(old[number])} is not in the new one"
    for number in sorted(new.keys() - old.keys()):
        yield f"{_in_words(new[number])} is only in the new one"
    for number in sorted(old.keys() & new.keys()):
        yield from _of_subtopology(old[number], new[number])


def _of_subtopology(old: Subtopology, new: Subtopology) -> Iterator[str]:
    name = f"subtopology {old.id}"
    yield from _of_names(name, ("reads", "read"), old.source_topics, new.source_topics)
    yield from _of_names(name, ("keeps", "keep"), _stores(old), _stores(new))
    yield from _of_names(name, ("writes to", "write to"), _sinks(old), _sinks(new))
    stores = {store.name: store for store in new.stores}
    for store in old.stores:
        if store.name in stores and store != stores[store.name]:
            yield f"store {store.name} has another changelog in the new one"
    partitions = {topic.name: topic.partitions for topic in new.repartition_source_topics}
    for topic in old.repartition_source_topics:
        if topic.name in partitions and topic.partitions != partitions[topic.name]:
            yield f"repartition topic {topic.name} is to have another number of partitions in the new one"


def _of_names(whose: str, verb: tuple[str, str], old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    """`verb`: of the third person, and its plain form."""
    does, do = verb
    gone, added = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    if gone and added:
        yield f"{whose} {does} {_names(gone)}, in the new one {_names(added)}"
    elif gone:
        yield f"{whose} {does} {_names(gone)}, in the new one it does not"
    elif added:
        yield f"{whose} does not {do} {_names(added)}, in the new one it does"


def _in_words(subtopology: Subtopology) -> str:
    stores = _stores(subtopology)
    keeps = f", keeps {_names(stores)}" if stores else ""
    return f"subtopology {subtopology.id} (reads {_names(subtopology.source_topics)}{keeps})"


def _stores(subtopology: Subtopology) -> list[str]:
    return [store.name for store in subtopology.stores]


def _sinks(subtopology: Subtopology) -> tuple[str, ...]:
    return (*subtopology.sink_topics, *subtopology.repartition_sink_topics)


def _names(names: Sequence[str]) -> str:
    return shortened(names, _MOST_NAMED)
