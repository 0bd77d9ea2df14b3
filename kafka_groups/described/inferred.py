"""Infers the topology of a group from its tasks and topics, if the text of `Topology#describe` is not available.

A task's id and its source partitions show which topics a subtopology reads. Internal topics are recognised by Kafka's
names (`<application id>-...-repartition`, `-changelog`). A changelog is assigned to a subtopology that has as many
tasks as the changelog has partitions. If several subtopologies fit, the changelog's name decides. This name may contain
the name of a topic that a subtopology reads. The tasks and topics of a group do not show the sinks of its topology. So
repartition topics keep their present partition counts.
Source: `InternalTopologyBuilder.decorateTopic`, `ProcessorStateManager.storeChangelogTopic`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from assignor.errors import InputError
from assignor.java.hash_codes import string_hash
from assignor.java.order import hash_set_order
from assignor.topology.builder import LOGGED
from assignor.topology.group_topology import GroupTopology, RepartitionTopic, Subtopology, SubtopologyStore
from assignor.types import TaskId, TopicPartition
from kafka_groups.described.described_topology import DescribedTopology
from kafka_groups.described.graph import is_repartition_name

_CHANGELOG = "-changelog"
_REPARTITION = "-repartition"
_STORE_OF_TOPIC = "-STATE-STORE-"
_WORD = re.compile(r"[a-z]+")
_UNINFORMATIVE = frozenset(
    {"store", "state", "topic", "repartition", "changelog", "kstream", "ktable", "aggregate", "by"}
)


@dataclass(slots=True)
class _InferredSubtopology:
    """A subtopology while it is being assembled. `tasks`: the number of tasks, which is the number of partitions of the
    subtopology's largest topic.
    """

    id: int
    tasks: int
    topics: tuple[str, ...]
    stateful: bool
    stores: list[SubtopologyStore] = field(default_factory=list)


def topology_from_cluster(
    application_id: str,
    partition_counts: Mapping[str, int],
    subscribed: Collection[str],
    assigned: Mapping[TaskId, Collection[TopicPartition]],
    *,
    stateful: Collection[TaskId] = (),
    changelogs: Mapping[str, int] | None = None,
) -> DescribedTopology:
    """Infers the topology of a group from its tasks and topics. The result lists each guess as an assumption.

    `partition_counts`: the number of partitions of each topic of the cluster. `subscribed`: the topics to which members
    subscribe. `assigned`: the active and standby tasks of all known generations, with their source partitions.
    `stateful`: the tasks for which members report offset sums. `changelogs`: the subtopology ids that the caller knows
    for changelogs, and for source topics that serve as changelogs. Raises InputError if no task is given, or if tasks
    and partitions contradict each other.
    """
    stateful_ids = {task.subtopology for task in stateful}
    subtopologies = []
    for subtopology, topics in sorted(_topics_of(assigned).items()):
        highest = max(task.partition for task, of in assigned.items() if task.subtopology == subtopology and of)
        tasks = max(highest + 1, *(partition_counts.get(topic, 0) for topic in topics))
        in_order = tuple(hash_set_order(sorted(topics), string_hash))
        subtopologies.append(_InferredSubtopology(subtopology, tasks, in_order, subtopology in stateful_ids))
    if not subtopologies:
        raise InputError("no task has been assigned yet; give the Topology#describe text", "assigned")
    return _Inference(application_id, partition_counts, subtopologies, changelogs or {}).topology(subscribed)


def _topics_of(assigned: Mapping[TaskId, Collection[TopicPartition]]) -> dict[int, set[str]]:
    topics: dict[int, set[str]] = {}
    reader: dict[str, int] = {}
    for task, partitions in assigned.items():
        if task.topology_name is not None:
            raise InputError(f"named topologies cannot be inferred ({task})", "assigned")
        for topic, partition in partitions:
            if partition != task.partition:
                raise InputError(f"task {task} cannot have partition {topic}-{partition}", "assigned")
            if reader.setdefault(topic, task.subtopology) != task.subtopology:
                raise InputError(
                    f"{topic} is read by subtopologies {reader[topic]} and {task.subtopology}: members have different "
                    "topologies, or a topology was changed in between",
                    "assigned",
                )
            topics.setdefault(task.subtopology, set()).add(topic)
    return topics


@dataclass(slots=True)
class _Inference:
    """Infers one topology. `known`: the subtopology ids that the caller knows, by topic."""

    application_id: str
    partition_counts: Mapping[str, int]
    subtopologies: Sequence[_InferredSubtopology]
    known: Mapping[str, int]
    assumptions: list[str] = field(
        default_factory=lambda: [
            "inferred from assignments and topic names: sinks and co-partitioned topics are not known, repartition "
            "topics keep the partitions they have, changelogs are assumed to be compacted only"
        ]
    )

    def topology(self, subscribed: Collection[str]) -> DescribedTopology:
        """Returns the topology that this object inferred. Raises InputError."""
        self._note_gaps(subscribed)
        self._check_known()
        self._place_changelogs()
        self._place_source_changelogs()
        topology = GroupTopology(tuple(map(self._subtopology, self.subtopologies)))
        return DescribedTopology(topology, tuple(self.assumptions))

    def _note_gaps(self, subscribed: Collection[str]) -> None:
        idle = sorted(set(subscribed).difference(*(each.topics for each in self.subtopologies)))
        if idle:
            self.assumptions.append(f"subscribed, but in no task that was seen, and so left out: {', '.join(idle)}")
        ids = {each.id for each in self.subtopologies}
        gaps = [str(number) for number in range(max(ids)) if number not in ids]
        if gaps:
            self.assumptions.append(
                f"no task of subtopology {', '.join(gaps)} was seen: a global store, or not assigned yet; left out"
            )

    def _check_known(self) -> None:
        ids = {each.id: each for each in self.subtopologies}
        for topic, subtopology in self.known.items():
            where = f"changelogs[{topic!r}]"
            if subtopology not in ids:
                raise InputError(f"no task of subtopology {subtopology} was seen", where)
            if not topic.endswith(_CHANGELOG) and topic not in ids[subtopology].topics:
                raise InputError(f"is neither a changelog nor read by subtopology {subtopology}", where)

    def _place_changelogs(self) -> None:
        """Assigns changelogs to subtopologies. Changelogs whose subtopology is certain are assigned first. Each
        remaining changelog is assigned to the likeliest subtopology.
        """
        sums_known = any(each.stateful for each in self.subtopologies)
        unsure: list[tuple[str, str, list[_InferredSubtopology]]] = []
        for topic, partitions in sorted(self.partition_counts.items()):
            if not (topic.startswith(f"{self.application_id}-") and topic.endswith(_CHANGELOG)):
                continue
            store = topic[len(self.application_id) + 1 : -len(_CHANGELOG)]
            fitting = [
                each
                for each in self.subtopologies
                if self.known.get(topic, each.id) == each.id
                and each.tasks == partitions
                and (each.stateful or not sums_known)
            ]
            named = [each for each in fitting if self._is_named_after(store, each)]
            if not fitting:
                self.assumptions.append(
                    f"{topic} has {partitions} partitions, as no subtopology with state has: left out"
                )
            elif len(named) == 1 or len(fitting) == 1:
                (named if len(named) == 1 else fitting)[0].stores.append(SubtopologyStore(store, topic, None, LOGGED))
            else:
                unsure.append((store, topic, named or fitting))
        unsure.sort(key=lambda each: -max(self._words_in_common(each[0], one) for one in each[2]))
        for store, topic, fitting in unsure:
            chosen = min(fitting, key=lambda each: self._unlikely(store, each))
            chosen.stores.append(SubtopologyStore(store, topic, None, LOGGED))
            others = ", ".join(str(each.id) for each in fitting if each is not chosen)
            self.assumptions.append(
                f"{topic} is assumed to belong to subtopology {chosen.id}; it could belong to {others}"
            )

    def _place_source_changelogs(self) -> None:
        """For each subtopology, determines the source topics that serve as changelogs. The caller names some of these
        topics in `known`. A stateful subtopology that has no changelog gets one of its source topics as changelog.
        """
        for each in self.subtopologies:
            named = sorted(topic for topic in each.topics if topic in self.known)
            each.stores += [SubtopologyStore(f"{topic}-STORE", None, topic, LOGGED) for topic in named]
            if not each.stateful or each.stores:
                continue
            topics = sorted(topic for topic in each.topics if not self._is_repartition(topic))
            if not topics:
                self.assumptions.append(
                    f"subtopology {each.id} has state, but no changelog was found: assumed to be stateless"
                )
                continue
            each.stores.append(SubtopologyStore(f"{topics[0]}-STORE", None, topics[0], LOGGED))
            others = f"; it could be {', '.join(topics[1:])}" if topics[1:] else ""
            self.assumptions.append(
                f"subtopology {each.id} has state and no changelog: assumed to be restored from source topic "
                f"{topics[0]}{others}"
            )

    def _subtopology(self, seen: _InferredSubtopology) -> Subtopology:
        repartition = tuple(
            RepartitionTopic(topic, self.partition_counts.get(topic, seen.tasks))
            for topic in seen.topics
            if self._is_repartition(topic)
        )
        return Subtopology(seen.id, seen.topics, repartition, stores=tuple(seen.stores))

    def _unlikely(self, store: str, seen: _InferredSubtopology) -> tuple[int, bool, bool, int]:
        """Returns a sort key. The subtopology that most probably has the store gets the lowest key. The first
        criterion: the subtopology's topics share many words with the store's name. The second criterion: the
        subtopology has no changelog. The third criterion: the subtopology reads a repartition topic, as an aggregate
        does.
        """
        aggregates = any(map(self._is_repartition, seen.topics))
        return -self._words_in_common(store, seen), bool(seen.stores), not aggregates, seen.id

    def _words_in_common(self, store: str, seen: _InferredSubtopology) -> int:
        of_topics = {word for topic in seen.topics for word in _words(topic)} - _words(self.application_id)
        return len(_words(store) & of_topics)

    def _is_named_after(self, store: str, seen: _InferredSubtopology) -> bool:
        """Returns True if the names show that the store belongs to the subtopology. The name of a table's store
        contains the name of the table's topic. The name of an aggregate's repartition topic contains the name of the
        aggregate's store.
        """
        topic_of_table, named_by_kafka, _ = store.rpartition(_STORE_OF_TOPIC)
        return f"{self.application_id}-{store}{_REPARTITION}" in seen.topics or (
            bool(named_by_kafka) and topic_of_table in seen.topics
        )

    def _is_repartition(self, topic: str) -> bool:
        prefix = f"{self.application_id}-"
        return topic.startswith(prefix) and is_repartition_name(topic[len(prefix) :])


def _words(name: str) -> set[str]:
    return {word for word in _WORD.findall(name.lower()) if word not in _UNINFORMATIVE}
