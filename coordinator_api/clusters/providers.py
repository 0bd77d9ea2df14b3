"""Clusters that a group's definition names instead of describing: every rebalance looks at them anew.

Rules: a definition says `"cluster": {"provider": name, "bootstrap.servers": address}`. The service opens only addresses
that its own settings list, because an address may be a directory of this machine. It finds providers by entry point, so
that this package knows no log: `assignor.cluster_providers`, each a function from an address to a `ClusterProvider`. A
rebalance waits for a cluster that is out of reach. Any other error of a provider fails the rebalance, which is then
tried again like any failed one.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple, Protocol

from assignor.errors import InputError, NotBuiltYet
from assignor.printable import shown_address
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.internal_topics import CreatedTopic

ENTRY_POINT_GROUP = "assignor.cluster_providers"
PROVIDER = "provider"
BOOTSTRAP_SERVERS = "bootstrap.servers"
SETTING = "cluster.bootstrap.servers"


class ClusterProvider(Protocol):
    """One cluster. Called from several threads, never from the event loop; the provider limits the time of each call.

    An error whose attribute `retriable` is true means that the cluster is out of reach just now (see `is_retriable`).
    """

    def view(self, group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        """What the topology's topics look like now. Changelog end offsets that are not known are None."""
        ...

    def topics(self, definition: RebalanceSnapshot) -> Mapping[str, int]:
        """How many partitions the topology's topics have now, internal ones included, without those that do not exist.

        Called often: it may cost no more than one request for metadata.
        """
        ...

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """On return the topics exist. One that existed before with as many partitions is fine."""
        ...

    def close(self) -> None: ...


def is_retriable(error: BaseException) -> bool:
    """Whether the cluster could not be reached, or was too slow, and asking again may help.

    Source: `RetriableException`; the attribute has the name that Python clients of Kafka give it.
    """
    return getattr(error, "retriable", False) is True or isinstance(error, TimeoutError | ConnectionError)


@dataclass(frozen=True, slots=True)
class ProviderAddress:
    """`provider`: a name such as `embedded`. `bootstrap_servers`: None for the only cluster that the settings list."""

    provider: str
    bootstrap_servers: str | None

    def __str__(self) -> str:
        if self.bootstrap_servers is None:
            return self.provider
        names_it = self.bootstrap_servers.startswith(f"{self.provider}:")  # `embedded:/var/lib/words` says it itself
        return self.bootstrap_servers if names_it else f"{self.provider} {self.bootstrap_servers}"


def provider_address(cluster: object) -> ProviderAddress | None:
    """What a definition's `cluster` names; None when it describes the cluster itself. Raises InputError."""
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


class _Listed(NamedTuple):
    """A cluster that the setting lists."""

    provider: str
    servers: str


class ClusterProviders:
    """The clusters that groups of this service may name. Each is opened once, when it is first needed."""

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = allowed
        self._opened: dict[_Listed, ClusterProvider] = {}
        self._opening: dict[_Listed, threading.Lock] = {}
        self._lock = threading.Lock()
        self._closed = False

    def check(self, address: ProviderAddress) -> None:
        """Raises InputError for an address that the settings do not list and for a provider whose packages are missing,
        NotBuiltYet for an unknown provider. Loads the provider, which may take time.
        """
        point = _entry_point(address.provider)
        self._servers(address)
        point.load()

    def provider(self, address: ProviderAddress) -> ClusterProvider:
        """Raises as `check` does, and whatever opening the cluster raises. Opening may take time."""
        point = _entry_point(address.provider)
        listed = _Listed(address.provider, self._servers(address))
        with self._lock:
            opening = self._opening.setdefault(listed, threading.Lock())
        # a cluster that is slow to open holds up only those who want the same one
        with opening:
            if listed not in self._opened:
                factory: Callable[[str], ClusterProvider] = point.load()
                opened = factory(listed.servers)
                with self._lock:
                    if self._closed:
                        opened.close()
                        raise InputError("the service is stopping", "cluster")
                    self._opened[listed] = opened
            return self._opened[listed]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for provider in self._opened.values():
                provider.close()

    def _servers(self, address: ProviderAddress) -> str:
        if address.bootstrap_servers is None and len(self._allowed) == 1:
            return self._allowed[0]
        if address.bootstrap_servers is None:
            raise _refused(f"is missing, and the setting {SETTING} lists {len(self._allowed)} clusters, not one")
        named = _servers_in(address.provider, address.bootstrap_servers)
        for listed in self._allowed:
            if named <= _servers_in(address.provider, listed):
                return listed
        shown = shown_address(address.bootstrap_servers)[:200]
        raise _refused(f"{shown!r} is not listed in this service's setting {SETTING}")


def _servers_in(provider: str, address: str) -> frozenset[str]:
    """The servers of an address, separated by commas or semicolons, with or without the provider's name before them.

    Any of its servers name a cluster, in any order.
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
