"""Whether the members read what the topology reads: they do not while another version of the application is rolled out.

The leader's topology decides, as in Kafka, where every leader has the one of its own version. Topics that it does not
have are given to nobody, and a member that is given topics it does not subscribe to joins again and again. Source:
`ConsumerCoordinator.onJoinComplete`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

_NAMES_SHOWN = 3


def strangers(topics: Collection[str], subscribed: Mapping[str, Collection[str]]) -> set[str]:
    """Topics that a member subscribes to and the topology does not read. `subscribed`: by member id."""
    return {topic for each in subscribed.values() for topic in each}.difference(topics)


def mismatch_in_words(topics: Collection[str], subscribed: Mapping[str, Collection[str]]) -> str:
    """Empty when every member subscribes to exactly the topics that the topology reads."""
    said = []
    if more := strangers(topics, subscribed):
        who = [member for member, each in subscribed.items() if not more.isdisjoint(each)]
        said.append(f"{_names(more)} of the subscription of {_names(who)} {_are(more)} not in it, and given to nobody")
    lacking = [member for member, each in subscribed.items() if not set(topics) <= set(each)]
    if lacking:
        less = {topic for member in lacking for topic in topics if topic not in subscribed[member]}
        said.append(f"{_names(lacking)} {'do' if len(lacking) > 1 else 'does'} not subscribe to {_names(less)} of it")
    if not said:
        return ""
    return (
        f"not all members run the topology that was given here: {'; '.join(said)}. Let all instances run one version, "
        "and lead with its topology"
    )


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = len(ordered) - _NAMES_SHOWN
    return ", ".join(ordered[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _are(names: Collection[str]) -> str:
    return "are" if len(names) > 1 else "is"
