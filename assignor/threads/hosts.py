"""Step 3: which host answers queries for which partitions.

The maps contain every process with an endpoint, even one without tasks: it would otherwise ask for another rebalance
at once. They show where tasks belong after this rebalance, including tasks that another process has yet to give up.
When processes claim the same endpoint, the last one in the order of the leader's HashMap gets it. Source:
`StreamsPartitionAssignor.populatePartitionsByHostMaps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from assignor.clients.client_metadata import ClientMetadata
from assignor.errors import NullPointerError
from assignor.java.order import hash_set_order, host_hash, topic_partition_hash
from assignor.task_assignors.base import Placement
from assignor.threads.partition_order import PartitionsInJavaOrder
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition


class HostMaps(NamedTuple):
    """Partitions of active tasks and of standby tasks by host; hosts and partitions in Kafka's order."""

    active: Mapping[HostInfo, tuple[TopicPartition, ...]]
    standby: Mapping[HostInfo, tuple[TopicPartition, ...]]


NO_HOSTS = HostMaps({}, {})


def host_maps(
    clients: Mapping[ProcessId, ClientMetadata], placement: Placement, partitions: PartitionsInJavaOrder
) -> HostMaps:
    process_of_host = {client.host: process_id for process_id, client in clients.items() if client.host is not None}
    active: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    standby: dict[HostInfo, tuple[TopicPartition, ...]] = {}
    for host in hash_set_order(process_of_host, host_hash):
        placed = placement.clients[process_of_host[host]]
        active[host] = _partitions(placed.active_in_order(), partitions)
        standby[host] = _partitions(placed.standby_in_order(), partitions)
    return HostMaps(active, standby)


def _partitions(tasks: Iterable[TaskId], partitions: PartitionsInJavaOrder) -> tuple[TopicPartition, ...]:
    """Raises NullPointerError for a task that is none of the group's: of an answer of the public interface that has
    another error as well.
    """
    try:
        as_added = [partition for task in tasks for partition in partitions.of(task)]
    except KeyError as unknown:
        reason = 'Cannot invoke "java.util.Collection.iterator()" because "c" is null'
        raise NullPointerError(reason, f"{unknown.args[0]} is no task of this group") from None
    return tuple(hash_set_order(as_added, topic_partition_hash))
