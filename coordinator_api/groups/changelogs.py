"""How long the changelogs of a group are, and how far behind them a member is, as the leader would say now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assignor.clients.end_offsets import EndOffsets, end_offset_sums
from assignor.clients.task_lags import compute_task_lags
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.group_topology import Subtopology
from assignor.types import TaskId


class Changelogs:
    """End-offset sums by the definition. A changelog that does not exist yet is empty, as it is for the leader."""

    def __init__(self, definition: RebalanceSnapshot) -> None:
        self._definition = definition
        self._subtopologies: Mapping[int, Subtopology] = {each.id: each for each in definition.topology.subtopologies}
        self._source_topics = frozenset(
            store.source_topic_as_changelog
            for each in definition.topology.subtopologies
            for store in each.stores
            if store.source_topic_as_changelog is not None
        )
        self._offsets = EndOffsets(definition.changelog_end_offsets, definition.committed_offsets, definition.failures)

    def looked(
        self, tasks: Sequence[TaskId], offset_sums: Mapping[TaskId, int]
    ) -> Mapping[TaskId, tuple[int, int | None]]:
        """Of the stateful ones of `tasks`: records behind, LATEST_OFFSET for a running active, see `TaskLags`; and the
        sum of the end offsets, None when it is not known.
        """
        topics = {
            each: found for each in {task.subtopology for task in tasks} if (found := self._topics(each)) is not None
        }
        stateful = [task for task in tasks if task.subtopology in topics]
        ends = end_offset_sums(stateful, topics, self._source_topics, self._offsets)
        lags = compute_task_lags(offset_sums, ends.by_task)
        known = {task: end if end >= 0 else None for task, end in ends.by_task.items()}
        return {task: (lags.lag_for(task), known.get(task)) for task in stateful}

    def _topics(self, subtopology_id: int) -> list[str] | None:
        """The changelogs that exist; None for a subtopology without state."""
        subtopology = self._subtopologies.get(subtopology_id)
        stores = subtopology.stores if subtopology is not None else ()
        topics = [store.changelog_topic or store.source_topic_as_changelog for store in stores]
        logged = [topic for topic in dict.fromkeys(topics) if topic is not None]
        if not logged:
            return None
        existing = self._definition.existing_internal_topics
        return [topic for topic in logged if topic in existing or topic in self._source_topics]
