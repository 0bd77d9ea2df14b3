"""The group of `assignor demo`: orders and clicks, three subtopologies with a store each, 24 tasks, one standby a
task.
"""

from __future__ import annotations

from assignor.cluster import Broker, Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.builder import TopologyBuilder
from assignor.topology.topology import Topology
from spark_jobs.definition import GroupDefinition
from spark_jobs.member_process import EXECUTOR_TAG

GROUP_ID = "demo"
PARTITIONS = 8
RECORDS_A_PARTITION = 60_000


def demo_topology(application_id: str) -> Topology:
    """Orders by customer, their totals behind a repartition topic, and clicks by page."""
    builder = TopologyBuilder()
    builder.add_repartition_topic("totals-repartition")
    builder.add_source("orders", "orders")
    builder.add_processor("by-customer", "orders")
    builder.add_state_store("customers", "by-customer")
    builder.add_sink("to-totals", "totals-repartition", "by-customer")
    builder.add_source("order-values", "totals-repartition")
    builder.add_processor("sum", "order-values")
    builder.add_state_store("totals", "sum")
    builder.add_source("clicks", "clicks")
    builder.add_processor("by-page", "clicks")
    builder.add_state_store("pages", "by-page")
    return builder.build(application_id)


def demo_definition(records_a_partition: int = RECORDS_A_PARTITION, *, group_id: str = GROUP_ID) -> GroupDefinition:
    """The whole definition. `records_a_partition`: end offset of every changelog partition.

    The internal topics are there already: a changelog that a round creates counts as empty, and there would be no state
    to restore, no lag and no warm-up to see.
    """
    topology = demo_topology(group_id)
    changelogs = [
        store.changelog_topic for sub in topology.subtopologies for store in sub.stores if store.changelog_topic
    ]
    repartitions = [topic.name for sub in topology.subtopologies for topic in sub.repartition_source_topics]
    metadata = TopicMetadata(PARTITIONS, replicas=((1,),) * PARTITIONS, leaders=(1,) * PARTITIONS)
    return GroupDefinition(
        group_id,
        RebalanceSnapshot(
            assignor="HighAvailabilityTaskAssignor",
            configs=AssignmentConfigs(num_standby_replicas=1, rack_aware_assignment_tags=(EXECUTOR_TAG,)),
            application_id=group_id,
            topology=topology,
            cluster=Cluster((Broker(1),), {"orders": metadata, "clicks": metadata}),
            members={},
            existing_internal_topics=dict.fromkeys([*changelogs, *repartitions], metadata),
            changelog_end_offsets=dict.fromkeys(changelogs, (records_a_partition,) * PARTITIONS),
        ),
    )
