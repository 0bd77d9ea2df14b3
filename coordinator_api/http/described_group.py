"""`GET /v1/groups/{group}`: the group between two events, and its cluster as it looks now.

A description without lags is still one: a cluster that does not answer soon, or is known to be out of reach, costs the
lags and makes nothing fail.
"""

from __future__ import annotations

import asyncio

from assignor.snapshot import RebalanceSnapshot
from coordinator_api.clusters.clusters import Clusters
from coordinator_api.clusters.providers import ProviderAddress
from coordinator_api.groups.group_runtime import GroupRuntime
from coordinator_api.http.advice import advice
from coordinator_api.http.description import cluster_document, description_document

LONGEST_LOOK_MS = 5_000


async def described_group(runtime: GroupRuntime, clusters: Clusters) -> dict[str, object]:
    """The document. Takes time in proportion to the group's tasks, in a thread."""
    group, image = await runtime.describe()
    definition = await runtime.definition(image)
    snapshot, address = definition.snapshot, definition.provider
    if address is not None:
        snapshot = await _seen(runtime, clusters, address, snapshot)
    cluster = None if address is None else cluster_document(address, runtime.cluster)
    told = advice(group, snapshot, None if address is None else str(address), runtime.cluster.error)
    return await asyncio.to_thread(
        lambda: {**description_document(group, snapshot), "cluster": cluster, "advice": told}
    )


async def _seen(
    runtime: GroupRuntime, clusters: Clusters, address: ProviderAddress, definition: RebalanceSnapshot
) -> RebalanceSnapshot:
    if runtime.cluster.error is not None and runtime.is_looking_at_its_cluster():
        return definition
    try:
        view = await clusters.cluster(address).view(runtime.group_id, definition, LONGEST_LOOK_MS)
    except Exception as error:  # whatever a provider raises
        runtime.cluster.failed(error)
        return definition
    runtime.cluster.answered()
    return definition.seen(view)
