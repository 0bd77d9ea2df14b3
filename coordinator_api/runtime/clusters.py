"""The clusters that the definitions of groups name. If a definition names a cluster, every rebalance of the group polls
the cluster.

A definition names a cluster by `"cluster": {"provider": name, "bootstrap.servers": address}`. The service opens only
addresses that its own settings list, because an address may be a directory of this machine. The service finds providers
by the entry point group `assignor.cluster_providers`, so that this package does not depend on any provider. A provider
is a function that receives an address and returns a `ClusterProvider`. While a cluster is out of reach, its rebalance
waits. After any other error of a provider, the rebalance fails, and the group handles it like any other failed
rebalance.

Calls to a cluster run in threads, and each call has a time limit. Each cluster has `THREADS_OF_A_CLUSTER` threads. A
cluster that does not answer therefore blocks neither the event loop nor the groups of other clusters. If the cluster is
out of reach, the provider's error becomes `ClusterOutOfReach`. Any other error of the provider is raised unchanged.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

from assignor.errors import AssignorFault, InputError, NotBuiltYet, TopologyError
from assignor.names.printable import shown_address
from assignor.pipeline.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.group_topology import GroupTopology, Subtopology
from assignor.topology.internal_topics import CreatedTopic
from coordinator_api.runtime.telemetry import GroupTelemetry

ENTRY_POINT_GROUP = "assignor.cluster_providers"
PROVIDER = "provider"
BOOTSTRAP_SERVERS = "bootstrap.servers"
SETTING = "cluster.bootstrap.servers"


class ClusterProvider(Protocol):
    """One cluster. The methods are called from several threads, never on the event loop. The provider limits the time
    of each call.

    An error whose attribute `retriable` is True means that the cluster is temporarily out of reach (see
    `is_retriable`).
    """

    def view(self, group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        """Returns the present state of the topology's topics. End offsets of changelogs are None if they are
        unknown.
        """
        ...

    def topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        """Returns the present partition counts of the topology's existing topics, including internal topics.

        A call may send at most one metadata request, because `ClusterWatch` calls this method often.
        """
        ...

    def all_topics(self) -> Mapping[str, int]:
        """Returns the present partition counts of all topics of the cluster, for definitions with source patterns. A
        call may send at most one metadata request.
        """
        ...

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """Create the topics. All topics exist when the call returns. It is no error if a topic already exists with the
        same number of partitions.
        """
        ...

    def close(self) -> None: ...


def is_retriable(error: BaseException) -> bool:
    """Returns whether the error means that the cluster could not be reached or was too slow. A later call to the
    cluster may succeed.

    Source: `RetriableException`; Python clients of Kafka have the same attribute `retriable`.
    """
    return getattr(error, "retriable", False) is True or isinstance(error, TimeoutError | ConnectionError)


@dataclass(frozen=True, slots=True)
class ProviderAddress:
    """The address of a cluster. `provider`: a name such as `embedded`. `bootstrap_servers`: the servers; None stands
    for the cluster in the settings, if the settings list exactly one.
    """

    provider: str
    bootstrap_servers: str | None

    def __str__(self) -> str:
        if self.bootstrap_servers is None:
            return self.provider
        # an address may already begin with the name of the provider, such as `embedded:/var/lib/words`
        names_it = self.bootstrap_servers.startswith(f"{self.provider}:")
        return self.bootstrap_servers if names_it else f"{self.provider} {self.bootstrap_servers}"


def provider_address(cluster: object) -> ProviderAddress | None:
    """Returns the address in the `cluster` of a definition. Returns None if the definition describes the cluster
    itself. Raises InputError.
    """
    if not isinstance(cluster, Mapping) or PROVIDER not in cluster:
        return None
    unknown = set(cluster) - {PROVIDER, BOOTSTRAP_SERVERS}
    if unknown:
        raise InputError(f"unknown field {min(unknown)!r}; a provider takes {BOOTSTRAP_SERVERS!r}", "cluster")
    provider, servers = cluster[PROVIDER], cluster.get(BOOTSTRAP_SERVERS)
    if not isinstance(provider, str) or not provider:
        raise InputError("must be the name of a provider, for example 'embedded'", f"cluster.{PROVIDER}")
    if servers is not None and (not isinstance(servers, str) or not servers):
        raise InputError("must be an address", f"cluster.{BOOTSTRAP_SERVERS}")
    return ProviderAddress(provider, servers)


def _servers_in(provider: str, address: str) -> frozenset[str]:
    """Returns the set of servers in an address. The servers are separated by commas or semicolons, and the provider's
    name may stand before them.

    An address names a cluster if every server in the address is a server of the cluster. The order of the servers does
    not matter.
    """
    servers = re.split("[;,]", address.removeprefix(f"{provider}:"))
    return frozenset(server.strip() for server in servers)


def _entry_point(name: str) -> EntryPoint:
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in found:
        installed = ", ".join(sorted(found)) or "none"
        raise NotBuiltYet(f"there is no provider {name[:100]!r} here (installed: {installed})", f"cluster.{PROVIDER}")
    return found[name]


def _refused(reason: str) -> InputError:
    return InputError(reason, f"cluster.{BOOTSTRAP_SERVERS}")


Answer = TypeVar("Answer")

THREADS_OF_A_CLUSTER = 4


class ClusterOutOfReach(AssignorFault):
    """The cluster did not answer in time. A later call may succeed. The error message is one line for people."""


class ClusterConnection:
    """One cluster, for use on the event loop. Every method may raise ClusterOutOfReach and the other errors of the
    cluster's provider.
    """

    def __init__(self, clusters: Clusters, address: ProviderAddress, timeout_ms: int) -> None:
        self.address = address
        self._clusters = clusters
        self._timeout_ms = timeout_ms
        self._threads = ThreadPoolExecutor(max_workers=THREADS_OF_A_CLUSTER, thread_name_prefix="cluster")

    async def view(self, group_id: str, definition: RebalanceSnapshot, timeout_ms: int | None = None) -> ClusterView:
        return await self._ask(lambda provider: provider.view(group_id, definition), timeout_ms)

    async def topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        return await self._ask(lambda provider: provider.topics(definition))

    async def written_topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        """Returns the present partition counts of the topics that a topology writes, without missing topics."""
        written = GroupTopology((Subtopology(0, tuple(definition.topology.written_topics)),))
        return await self.topics(replace(definition, topology=written))

    async def all_topics(self) -> Mapping[str, int]:
        return await self._ask(lambda provider: provider.all_topics())

    async def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        await self._ask(lambda provider: provider.create_topics(topics))

    def close(self) -> None:
        """Start no further calls to the cluster. A running call is not interrupted."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, call: Callable[[ClusterProvider], Answer], timeout_ms: int | None = None) -> Answer:
        bound_ms = self._timeout_ms if timeout_ms is None else min(timeout_ms, self._timeout_ms)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(bound_ms / 1000):
                return await loop.run_in_executor(self._threads, self._in_thread, call)
        except TimeoutError:
            raise ClusterOutOfReach(
                f"{self.address} did not answer within {bound_ms} ms (cluster.request.timeout.ms)"
            ) from None

    def _in_thread(self, call: Callable[[ClusterProvider], Answer]) -> Answer:
        try:
            return call(self._clusters.provider(self.address))
        except Exception as error:
            if is_retriable(error):
                why = str(error) or type(error).__name__
                raise ClusterOutOfReach(f"{self.address} is out of reach: {why}") from error
            raise


class Clusters:
    """The clusters that groups of this service may name. Each cluster is opened once, when a call first needs it.

    `allowed`: the addresses that the settings list.
    """

    def __init__(self, allowed: tuple[str, ...] = (), timeout_ms: int = 30_000) -> None:
        self._allowed = allowed
        self._timeout_ms = timeout_ms
        self._connections: dict[ProviderAddress, ClusterConnection] = {}
        self._opened: dict[ProviderAddress, ClusterProvider] = {}
        self._opening: dict[ProviderAddress, threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False

    def check(self, address: ProviderAddress) -> None:
        """Raises InputError if the settings do not list the address, or if packages of the provider are missing. Raises
        NotBuiltYet for an unknown provider. The call loads the provider, which may take time.
        """
        point = _entry_point(address.provider)
        self._listed(address)
        point.load()

    def cluster(self, address: ProviderAddress) -> ClusterConnection:
        """Returns the connection to a cluster, for use on the event loop."""
        if address not in self._connections:
            self._connections[address] = ClusterConnection(self, address, self._timeout_ms)
        return self._connections[address]

    def provider(self, address: ProviderAddress) -> ClusterProvider:
        """Returns the provider of a cluster, for use in threads. The first call for a cluster opens the cluster, which
        may take time. Raises the errors of `check`, and any error of the provider while it opens the cluster.
        """
        point = _entry_point(address.provider)
        listed = self._listed(address)
        with self._lock:
            opening = self._opening.setdefault(listed, threading.Lock())
        # a cluster that opens slowly blocks only calls for the same cluster
        with opening:
            if listed not in self._opened:
                factory: Callable[[str | None], ClusterProvider] = point.load()
                opened = factory(listed.bootstrap_servers)
                with self._lock:
                    if self._closed:
                        opened.close()
                        raise InputError("the service is stopping", "cluster")
                    self._opened[listed] = opened
            return self._opened[listed]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        with self._lock:
            self._closed = True
            for provider in self._opened.values():
                provider.close()

    def _listed(self, address: ProviderAddress) -> ProviderAddress:
        """Returns the address as the settings spell it. Raises InputError if the settings do not list the address."""
        if address.bootstrap_servers is None and len(self._allowed) == 1:
            return ProviderAddress(address.provider, self._allowed[0])
        if address.bootstrap_servers is None:
            raise _refused(f"is missing, and the setting {SETTING} lists {len(self._allowed)} clusters, not one")
        named = _servers_in(address.provider, address.bootstrap_servers)
        for listed in self._allowed:
            if named <= _servers_in(address.provider, listed):
                return ProviderAddress(address.provider, listed)
        shown = shown_address(address.bootstrap_servers)[:200]
        raise _refused(f"{shown!r} is not listed in this service's setting {SETTING}")


class ClusterStanding:
    """Records whether the cluster of a group can be reached. The watches, the rebalances and the descriptions of the
    group report the result of each poll. All times are in milliseconds.

    `looked_at_ms`: the time of the cluster's last answer; None before the first answer. `failing_since_ms`: the time of
    the first failed poll since the cluster's last answer. `error`: the error of the last failed poll.
    `failing_since_ms` and `error` are None if the cluster answered the last poll. `topology_error`: the reason why the
    last poll for changed topics could not put the cluster's topics in place of the source patterns; None if it could.
    """

    def __init__(self, now_ms: Callable[[], int], telemetry: GroupTelemetry) -> None:
        self._now_ms = now_ms
        self._telemetry = telemetry
        self.looked_at_ms: int | None = None
        self.failing_since_ms: int | None = None
        self.error: str | None = None
        self.topology_error: str | None = None

    def answered(self) -> None:
        if self.failing_since_ms is not None:
            self._telemetry.logger.info("cluster_answers_again", after_ms=self._now_ms() - self.failing_since_ms)
        self.looked_at_ms = self._now_ms()
        self.failing_since_ms = self.error = None

    def failed(self, error: Exception) -> None:
        if isinstance(error, TopologyError):  # the cluster has answered, but its topics do not fit the patterns
            self.answered()
            self.topology_error = str(error)
            return
        # a path in the error may contain invalid bytes, and JSON cannot represent these bytes
        self.error = str(error).encode("utf-8", "backslashreplace").decode("utf-8") or type(error).__name__
        self._telemetry.metrics.failed_cluster_polls.inc()
        if self.failing_since_ms is None:
            self.failing_since_ms = self._now_ms()
            self._telemetry.logger.warning("cluster_out_of_reach", error=self.error)
