"""A group's definition with every kind of topic, under a name of its own, for views of a shared broker."""

from assignor.configs import AssignmentConfigs
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.topology.builder import TopologyBuilder
from assignor.topology.cluster import Cluster


def definition_of(name: str) -> RebalanceSnapshot:
    """Subtopology 0 reads `<name>-orders` and a table `<name>-prices` that is its own changelog; subtopology 1 counts
    behind `<name>-totals-repartition`, with `<name>-counts-changelog`.
    """
    builder = TopologyBuilder()
    builder.add_repartition_topic("totals-repartition")
    builder.add_source("orders", f"{name}-orders")
    builder.add_source("prices", f"{name}-prices")
    builder.add_processor("join", ["orders", "prices"])
    builder.add_state_store("price-store", "join")
    builder.use_source_topic_as_changelog("price-store", f"{name}-prices")
    builder.add_sink("to-totals", "totals-repartition", "join")
    builder.add_source("totals", "totals-repartition")
    builder.add_processor("count", "totals")
    builder.add_state_store("counts", "count")
    return RebalanceSnapshot(
        assignor="HighAvailabilityTaskAssignor",
        configs=AssignmentConfigs(),
        application_id=name,
        topology=builder.build(name),
        cluster=Cluster((), {}),
        members={},
    )
