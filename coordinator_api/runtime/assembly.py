"""Builds the parts of the coordinator from the settings, in the order of their dependencies.

Each part gets its dependencies in its constructor. The coordinator closes all parts in the opposite order.
"""

import ipaddress
from collections.abc import Callable
from contextlib import AsyncExitStack

import structlog

from coordinator_api.clock import LoopMonitor, ServiceClock
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.metrics import MeasuredService, Metrics
from coordinator_api.runtime.admission import Quotas
from coordinator_api.runtime.allowed_assignors import AllowedAssignors
from coordinator_api.runtime.clusters import Clusters
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.durable_group import GroupEnvironment
from coordinator_api.runtime.rebalance_runner import RebalanceResources
from coordinator_api.runtime.store_access import StoreReadiness
from coordinator_api.settings import Settings
from coordinator_api.store.opening import OpenStore, open_store
from coordinator_api.workers.worker_pool import ServiceWorkers


async def open_coordinator(
    settings: Settings, url: str = "", is_tenant: Callable[[str], bool] = lambda prefix: False
) -> Coordinator:
    """Open the store, upgrade its schema, and replay every group that this coordinator owns. Raises StoreError,
    SettingsError.

    If the log of a group cannot be read, the group is left out (`Coordinator.unreadable`). Other groups are not
    affected. `url`: this coordinator's address, which the other coordinators of the database use. `is_tenant`: as in
    `Quotas`.
    """
    async with AsyncExitStack() as opening:
        resources = AsyncExitStack()
        opening.push_async_exit(resources)
        store = await resources.enter_async_context(open_store(settings))
        coordinator = _coordinator(settings, store, resources, _advertised(settings, store, url), is_tenant)
        await coordinator.start()
        structlog.get_logger("coordinator_api").info(
            "store_opened",
            schema=store.schema,
            schema_before=store.schema_before,
            groups=len(coordinator.groups),
            unreadable=len(coordinator.unreadable),
        )
        opening.pop_all()
        return coordinator


def _coordinator(
    settings: Settings, store: OpenStore, resources: AsyncExitStack, url: str, is_tenant: Callable[[str], bool]
) -> Coordinator:
    assignors = AllowedAssignors(settings.task_assignor_classes)
    clusters = Clusters(settings.cluster_bootstrap_servers, settings.cluster_request_timeout_ms)
    resources.callback(clusters.close)
    workers = ServiceWorkers(settings.computation_max_count)
    resources.push_async_callback(workers.close)
    metrics, clock = Metrics(), ServiceClock()
    environment = GroupEnvironment(
        repository=store.repository,
        clock=clock,
        limits=GroupLimits(
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            max_size=settings.group_max_size,
            disconnect_grace_ms=settings.group_disconnect_grace_ms,
        ),
        compaction_bytes=settings.records_compaction_bytes,
        metadata_max_age_ms=settings.cluster_metadata_max_age_ms,
        metrics=metrics,
        quotas=Quotas(settings, is_tenant),
        readiness=StoreReadiness(store.repository, clock.now_ms),
    )
    rebalances = RebalanceResources(
        assignors, workers.rebalances, clusters, clock, settings.group_max_partitions, settings.task_assignor_timeout_ms
    )
    monitor = LoopMonitor(clock, metrics.loop_lag.observe)
    coordinator = Coordinator(settings, store, environment, rebalances, workers, monitor, url, resources)
    metrics.registry.register(MeasuredService(coordinator.measures, settings.metrics_group_max_count))
    return coordinator


def _advertised(settings: Settings, store: OpenStore, url: str) -> str:
    """Returns the address at which other coordinators of the database reach this coordinator."""
    reached_at = settings.advertised_url or url or f"http://{settings.host}:{settings.port}"
    if store.lease_store.times.expires and settings.advertised_url is None and _is_any_address(settings.host):
        structlog.get_logger("coordinator_api").warning(
            "advertised_url_needed",
            message=f"callers of other coordinators are sent to {reached_at}: set advertised.url, unless "
            "this is the only one",
        )
    return reached_at


def _is_any_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
