"""What an application declares to the coordinator: its topology, its placement configs, and where its log is.

Topics and offsets are not part of it: the coordinator looks at the log in every rebalance.
"""

from __future__ import annotations

from assignor.cluster import Cluster
from assignor.configs import AssignmentConfigs
from assignor.recording import rebalance_input
from assignor.snapshot import RebalanceSnapshot
from streams_runtime.application import Application
from streams_runtime.logs.opening import cluster_address, cluster_provider_name

ASSIGNOR = "HighAvailabilityTaskAssignor"
_DECLARED = ("assignor", "configs", "application_id", "topology")


def group_body(app: Application) -> dict[str, object]:
    """The body of PUT /v1/groups/{application id}. Raises InputError for a log that only this process can find."""
    servers = app.configs.bootstrap_servers
    document = rebalance_input(
        RebalanceSnapshot(
            assignor=ASSIGNOR,
            configs=AssignmentConfigs.from_dotted(app.configs.assignment),
            application_id=app.id,
            topology=app.parsed(),
            cluster=Cluster((), {}),  # the coordinator asks the cluster provider
            members={},
        )
    )
    return {
        **{name: document[name] for name in _DECLARED},
        "cluster": {"provider": cluster_provider_name(servers), "bootstrap.servers": cluster_address(servers)},
    }
