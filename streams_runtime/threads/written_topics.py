"""Topics that tasks write to, looked up before a task needs them: one that takes over should not have to ask first.

The log remembers what it finds. Topics that the group's leader has still to create are found later. Source: none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from streams_runtime.application import Application
from streams_runtime.logs.base import Log

_logger = logging.getLogger(__name__)


def written_topics(application: Application) -> frozenset[str]:
    """By full name, with changelogs and repartition topics."""
    topics: set[str] = set()
    for each in application.parsed().subtopologies:
        topics.update(each.sink_topics, each.repartition_sink_topics)
        topics.update(store.changelog_topic for store in each.stores if store.changelog_topic is not None)
    return frozenset(topics)


def look_up(log: Log, topics: Collection[str], is_over: Callable[[], bool]) -> None:
    """Ask the log for each, until it `is_over`. Raises nothing."""
    for topic in sorted(topics):
        if is_over():
            return
        try:
            log.partitions_of(topic)
        except Exception as error:
            _logger.info("topic %s could not be looked up; trying again later: %s", topic, error)
