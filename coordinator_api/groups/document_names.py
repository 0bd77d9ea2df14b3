"""The names in a document that a caller sends. What becomes a topic or a directory later is checked here, before it is
stored or computed with.

Rules: groups that an earlier release has stored are never checked again, so they are served and can be deleted. A
report and a computation may have what Kafka itself accepts: stores that are not logged have any name there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assignor.errors import InputError
from assignor.legal_names import LONGEST_NAME, checked_name, is_legal_name
from assignor.recording.fields import child
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.group_topology import Subtopology, SubtopologyStore

_TOPIC = "the name of a topic"


def check_names(snapshot: RebalanceSnapshot, where: str, *, of_stores: bool = False) -> None:
    """`where`: the path of the snapshot in its document, empty for all of it. `of_stores`: also those of stores that
    are not logged, because members keep them in directories of these names. Raises InputError with the path.
    """
    checked_name(snapshot.application_id, "an application id", child(where, "application_id"))
    for name, topics in (
        ("existing_internal_topics", snapshot.existing_internal_topics),
        ("changelog_end_offsets", snapshot.changelog_end_offsets or ()),
        ("committed_offsets", snapshot.committed_offsets),
        ("created_internal_topics", snapshot.created_internal_topics or ()),
    ):
        _check_keys(topics, child(where, name))
    _check_keys(snapshot.cluster.topics, f"{child(where, 'cluster')}.topics")
    topology = child(where, "topology")
    for number, subtopology in enumerate(snapshot.topology.subtopologies):
        at = f"{topology}.subtopologies[{number}]"
        for topic, topic_at in _topics(subtopology, at):
            checked_name(topic, _TOPIC, topic_at)
        for index, store in enumerate(subtopology.stores):
            _check_store(store, f"{at}.stores[{index}]", named=of_stores)
    for number, group in enumerate(snapshot.topology.copartition_groups):
        for index, topic in enumerate(group):
            checked_name(topic, _TOPIC, f"{topology}.copartition_groups[{number}][{index}]")


def _check_keys(topics: Iterable[str], where: str) -> None:
    for topic in topics:
        if not is_legal_name(topic):
            checked_name(topic, _TOPIC, child(where, topic))


def _topics(subtopology: Subtopology, at: str) -> Iterator[tuple[str, str]]:
    for name in ("source_topics", "sink_topics", "repartition_sink_topics"):
        for index, topic in enumerate(getattr(subtopology, name)):
            yield topic, f"{at}.{name}[{index}]"
    for index, repartition in enumerate(subtopology.repartition_source_topics):
        yield repartition.name, f"{at}.repartition_source_topics[{index}].name"


def _check_store(store: SubtopologyStore, at: str, *, named: bool) -> None:
    if named:
        checked_name(store.name, "the name of a store", f"{at}.name")
    changelog = store.changelog_topic
    if changelog is not None and len(changelog) > LONGEST_NAME:
        raise InputError(
            f"has {len(changelog)} characters, and Kafka's topics have up to {LONGEST_NAME}: choose a shorter "
            "application id, or a shorter name of the store",
            f"{at}.changelog_topic",
        )
    for name in ("changelog_topic", "source_topic_as_changelog"):
        topic = getattr(store, name)
        if topic is not None:
            checked_name(topic, _TOPIC, f"{at}.{name}")
