"""Sources whose topics are given by a pattern.

A definition has the patterns (`Subtopology.source_patterns`), because the topics that match may change at any time. For
each rebalance, `expanded` puts the matching topics of the cluster in place of the patterns. So a recorded rebalance has
only the names of topics.

A topic matches if the pattern matches its whole name. Kafka's own topics never match. A topic can match only one
pattern, because a topic has one source.
Source: `InternalTopologyBuilder.updateSubscribedTopics`, `SourceNodeFactory.topics`; `exclude.internal.topics`.
Differs from Kafka: patterns are regular expressions of Python. The application's own internal topics never match; in
Kafka, an application can read its own changelog, which then grows for ever. A subtopology whose pattern matches no
topic has no tasks, as in Kafka. Subtopologies that get all their records from it then also have no tasks; in Kafka, the
rebalance fails.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from assignor.errors import TopologyError
from assignor.java.hash_codes import string_hash
from assignor.java.order import hash_set_order
from assignor.names.internal_names import is_internal_topic
from assignor.topology.group_topology import GroupTopology, Subtopology

_NEVER_MATCHING = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_FLAGS = {re.ASCII: "a", re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}


def pattern_text(pattern: re.Pattern[str]) -> str:
    """Returns the text of a compiled pattern, with the flags of `re.compile` at its beginning. Raises TopologyError for
    a pattern of bytes.
    """
    text = pattern.pattern
    if not isinstance(text, str):
        raise TopologyError(f"Invalid topology: The pattern {text!r} must be text, not bytes.")
    extra = pattern.flags & ~re.compile(text).flags
    return f"(?{''.join(letter for flag, letter in _FLAGS.items() if extra & flag)}){text}" if extra else text


def matches(pattern: str, topic: str) -> bool:
    return re.fullmatch(pattern, topic) is not None


def matching(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics of a cluster that match the pattern, sorted. Raises re.error."""
    fits = re.compile(pattern).fullmatch
    return tuple(sorted(topic for topic in topics if topic not in _NEVER_MATCHING and fits(topic)))


def reads_topic(subtopology: Subtopology, topic: str) -> bool:
    """Returns True if the subtopology names the topic, or has a pattern that matches the topic."""
    return topic in subtopology.source_topics or any(matches(each, topic) for each in subtopology.source_patterns)


@dataclass(frozen=True, slots=True)
class ExpandedTopology:
    """A topology without patterns. `unmatched`: the patterns that match no topic."""

    topology: GroupTopology
    unmatched: tuple[str, ...]


def expanded(topology: GroupTopology, application_id: str, topics: Iterable[str]) -> ExpandedTopology:
    """Puts the topics that match in place of each pattern. `topics`: the names of all topics of the cluster. Raises
    TopologyError if a topic matches two patterns.
    """
    own = topology.internal_topics
    others = [topic for topic in topics if topic not in own and not is_internal_topic(application_id, topic)]
    found = {pattern: matching(pattern, others) for pattern in topology.source_patterns}
    matched_by: dict[str, str] = {}
    for pattern, matched in found.items():
        for topic in matched:
            if (other := matched_by.setdefault(topic, pattern)) != pattern:
                raise TopologyError(
                    f"Invalid topology: Topic {topic} matches the pattern {pattern} and the pattern {other}; change "
                    "one of them, because a topic has one source."
                )
    kept = _fed([_with_matches(each, found) for each in topology.subtopologies])
    read = {topic for each in kept for topic in each.source_topics}
    groups = (
        tuple(hash_set_order([t for topic in group for t in found.get(topic, (topic,)) if t in read], string_hash))
        for group in topology.copartition_groups
    )
    return ExpandedTopology(
        replace(topology, subtopologies=tuple(kept), copartition_groups=tuple(filter(None, groups))),
        tuple(pattern for pattern, matched in found.items() if not matched),
    )


def _with_matches(subtopology: Subtopology, found: dict[str, tuple[str, ...]]) -> Subtopology:
    if not subtopology.source_patterns:
        return subtopology
    matched = (topic for pattern in subtopology.source_patterns for topic in found[pattern])
    topics = hash_set_order([*subtopology.source_topics, *matched], string_hash)
    return replace(subtopology, source_topics=tuple(topics), source_patterns=())


def _fed(subtopologies: list[Subtopology]) -> list[Subtopology]:
    """Leaves out subtopologies without source topics, and then those whose repartition topics no subtopology writes. A
    repartition topic with a fixed number of partitions needs no writer.
    """
    count = len(subtopologies)
    kept = [each for each in subtopologies if each.source_topics]
    while len(kept) < count:
        count = len(kept)
        written = {topic for each in kept for topic in each.repartition_sink_topics}
        needed = {each.id: {t.name for t in each.repartition_source_topics if t.partitions is None} for each in kept}
        kept = [each for each in kept if needed[each.id] <= written]
    return kept
