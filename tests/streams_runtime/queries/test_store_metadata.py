"""Where a key is, by the host maps of an assignment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.types import HostInfo, TopicPartition
from streams_runtime.membership.member_events import PartitionHosts
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.queries.store_metadata import KeyQueryMetadata, key_query_metadata
from tests.streams_runtime.queries.fake_instance import KEY, PARTITION, PARTITIONS, hosts, location

A, B, C = HostInfo("a", 1), HostInfo("b", 2), HostInfo("c", 3)


def test_should_name_active_and_standbys_of_the_keys_partition_when_the_host_maps_have_them() -> None:
    maps = PartitionHosts(
        {**hosts("a:1", partitions=range(PARTITION)), **hosts("b:2", partitions=range(PARTITION, PARTITIONS))},
        hosts("c:3", "a:1"),
    )
    assert key_query_metadata(location(), maps, KEY) == KeyQueryMetadata(PARTITION, B, (A, C))


def test_should_name_nobody_as_active_when_no_host_with_an_endpoint_has_it() -> None:
    assert key_query_metadata(location(), PartitionHosts(), KEY) == KeyQueryMetadata(PARTITION, None, ())


def test_should_count_the_partitions_of_the_largest_topic_when_the_subtopology_has_several() -> None:
    other = {B: frozenset({TopicPartition("more", 3)})}
    found = key_query_metadata(location(words=2, more=4), PartitionHosts(other), KEY, partition=3)
    assert found == KeyQueryMetadata(3, B, ())


def test_should_take_the_callers_partition_when_a_partitioner_of_the_application_places_keys() -> None:
    one = location(own_partitioner=True)
    elsewhere = (PARTITION + 1) % PARTITIONS
    assert key_query_metadata(one, PartitionHosts(hosts("a:1")), KEY, elsewhere) == KeyQueryMetadata(elsewhere, A, ())
    with pytest.raises(QueryProblem, match="say the partition") as refused:
        key_query_metadata(one, PartitionHosts(hosts("a:1")), KEY)
    assert refused.value.code is QueryCode.INVALID_REQUEST


@pytest.mark.parametrize("partition", [-1, PARTITIONS, 2**40])
def test_should_refuse_a_partition_when_it_is_out_of_range(partition: int) -> None:
    with pytest.raises(QueryProblem, match=f"partitions 0 to {PARTITIONS - 1}, not {partition}") as refused:
        key_query_metadata(location(), PartitionHosts(hosts("a:1")), KEY, partition)
    assert refused.value.code is QueryCode.INVALID_REQUEST


def test_should_not_guess_a_partition_when_one_of_several_topics_is_not_known_yet() -> None:
    """By the two that are known the key would be in 0 or 1, by all of them it may be in 2 or 3."""
    with pytest.raises(QueryProblem, match="waits for topics: later not known yet") as refused:
        key_query_metadata(location(words=2, later=0), PartitionHosts(hosts("a:1")), KEY)
    assert refused.value.code is QueryCode.STORE_NOT_READY


@given(key=st.binary(max_size=64), partitions=st.integers(1, 50))
def test_should_find_a_partition_in_range_for_any_bytes(key: bytes, partitions: int) -> None:
    found = key_query_metadata(location(words=partitions), PartitionHosts(), key)
    assert 0 <= found.partition < partitions
