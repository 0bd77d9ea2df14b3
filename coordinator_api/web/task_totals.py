"""How many tasks a group has, whether or not anybody runs them: as many as its topology has over its topics."""

from __future__ import annotations

from dataclasses import replace

from assignor.cluster import TopicMetadata
from assignor.errors import InputError, KafkaError
from assignor.group_tasks import make_tasks
from assignor.protocol.versions import ReceivedVersions
from assignor.snapshot import RebalanceSnapshot
from coordinator_api.group.image import GroupImage
from coordinator_api.groups.definitions import Definition


def task_total(definition: Definition, image: GroupImage) -> int | None:
    """None when it is not known, such as while topics are missing. Takes time in proportion to the tasks.

    The topics of a cluster that the definition only names are those of the last rebalance.
    """
    snapshot = definition.snapshot
    if definition.provider is not None:
        if image.last_rebalance is None:
            return None
        snapshot = _over(snapshot, image)
    try:
        return len(make_tasks(snapshot, ReceivedVersions(), {}).partitions)
    except (KafkaError, InputError):
        return None


def _over(snapshot: RebalanceSnapshot, image: GroupImage) -> RebalanceSnapshot:
    assert image.last_rebalance is not None
    topics = {
        name: TopicMetadata(partitions) for name, partitions in image.last_rebalance.basis.topics.items() if partitions
    }
    return replace(snapshot, cluster=snapshot.cluster.with_topics(topics))
