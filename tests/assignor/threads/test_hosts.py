"""Which host answers for which partitions."""

from __future__ import annotations

from assignor.clients.client_metadata import ClientMetadata
from assignor.task_assignors.base import ClientPlacement, Placement
from assignor.threads.consumer_assignments import HostMaps, PartitionsInJavaOrder, host_maps
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.types import HostInfo, TaskId, TopicPartition
from tests.group_model import process_id

TASKS = {TaskId(0, number): (TopicPartition("in", number),) for number in range(3)}
TOPOLOGY = GroupTopology((Subtopology(0, ("in",)),))


def client(number: int, host: HostInfo | None) -> ClientMetadata:
    return ClientMetadata(process_id(number), host, {}, None, (f"c{number}",))


def placed(active: list[int], standby: list[int] | None = None) -> ClientPlacement:
    return ClientPlacement(
        frozenset(TaskId(0, number) for number in active), frozenset(TaskId(0, number) for number in standby or [])
    )


def maps_of(hosts: list[HostInfo | None], placements: list[ClientPlacement]) -> HostMaps:
    clients = {process_id(number): client(number, host) for number, host in enumerate(hosts)}
    placement = Placement(False, {process_id(number): each for number, each in enumerate(placements)})
    return host_maps(clients, placement, PartitionsInJavaOrder(((0, ("in",)),), TASKS))


def test_should_map_active_and_standby_partitions_to_hosts() -> None:
    a, b = HostInfo("a", 1), HostInfo("b", 2)
    maps = maps_of([a, b], [placed([0, 2], [1]), placed([1], [0])])
    assert {host: set(partitions) for host, partitions in maps.active.items()} == {
        a: {TopicPartition("in", 0), TopicPartition("in", 2)},
        b: {TopicPartition("in", 1)},
    }
    assert maps.standby == {a: (TopicPartition("in", 1),), b: (TopicPartition("in", 0),)}


def test_should_have_a_host_without_tasks_and_no_process_without_a_host() -> None:
    a = HostInfo("a", 1)
    assert maps_of([a, None], [placed([]), placed([0])]) == HostMaps({a: ()}, {a: ()})


def test_should_give_an_endpoint_that_two_processes_claim_to_the_last_one() -> None:
    same = HostInfo("same", 1)
    maps = maps_of([same, same], [placed([0]), placed([1])])
    assert maps.active == {same: (TopicPartition("in", 1),)}


def test_should_write_the_partitions_of_a_task_in_the_order_of_javas_hash_set() -> None:
    """Two entries need four buckets; "ip" falls into the first and "io" into the last, though it sorts before."""
    partitions = (TopicPartition("io", 0), TopicPartition("ip", 0))
    ordered = PartitionsInJavaOrder(((0, ("io", "ip")),), {TaskId(0, 0): partitions}).of(TaskId(0, 0))
    assert ordered == (TopicPartition("ip", 0), TopicPartition("io", 0))
