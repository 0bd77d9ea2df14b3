"""What the DSL calls the topics that it writes and reads itself: `...-repartition`, and two of a foreign-key join.

Source: `KStreamImpl.REPARTITION_TOPIC_SUFFIX`, `KTableImpl.doJoinOnForeignKey`.
"""

from __future__ import annotations

import re

_NAME = re.compile(
    r".+-repartition|KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d{10}-topic"
    r"|.+-subscription-(?:registration|response)-topic",
    re.ASCII,
)


def is_repartition_name(topic: str) -> bool:
    """Whether the DSL may have given this name, without the application id in front, to a topic of its own."""
    return _NAME.fullmatch(topic) is not None
