"""The names of an application's internal topics. A name begins with the application id and ends with a suffix such as
`-changelog`. Names can be ambiguous: the internal topics of the application "words-2" also begin with "words".
Source: `StreamsResetter.isInferredInternalTopic`.
"""

import re
from collections.abc import Iterable

_INTERNAL = re.compile(
    r".*-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)\Z",
    re.DOTALL,
)


def claims_topic(group_id: str) -> str:
    """Returns the name of a group's claims topic. If a log has no other storage for claims, it stores them in this
    topic.
    """
    return f"{group_id}-claims"


def has_internal_suffix(topic: str) -> bool:
    """Returns True if the name ends as the names of internal topics do. The name does not say to which application the
    topic belongs, and a topic of a user may have such a name.
    """
    return _INTERNAL.match(topic) is not None


def is_internal_topic(application_id: str, topic: str, others: Iterable[str] = ()) -> bool:
    """Returns True for an internal topic of the application.

    `others`: the ids of other applications. A topic belongs to the application with the longest matching id.
    """
    if topic == claims_topic(application_id):
        return True
    if not topic.startswith(f"{application_id}-") or not has_internal_suffix(topic):
        return False
    return not any(other.startswith(f"{application_id}-") and topic.startswith(f"{other}-") for other in others)
