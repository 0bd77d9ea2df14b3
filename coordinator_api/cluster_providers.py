"""Groups whose definition names a cluster instead of describing one: it is looked at anew for every round.

Rules: a definition says `"cluster": {"provider": name, "bootstrap.servers": address}`, and only addresses that the
service's own settings list are ever opened, because an address may be a directory of this machine. Providers are found
by entry point, so that this package knows no log: `assignor.cluster_providers`, each a function from an address to a
`ClusterProvider`. A look-up that fails fails the round, which then is tried again like any failed one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from assignor.errors import InputError, NotBuiltYet
from assignor.snapshot import ClusterView, RebalanceSnapshot
from assignor.topology.internal_topics import CreatedTopic

ENTRY_POINT_GROUP = "assignor.cluster_providers"
PROVIDER = "provider"
BOOTSTRAP_SERVERS = "bootstrap.servers"
SETTING = "cluster.bootstrap.servers"


class ClusterProvider(Protocol):
    """One cluster. Called from the threads in which rounds are computed."""

    def view(self, group_id: str, definition: RebalanceSnapshot) -> ClusterView:
        """What the topology's topics look like now. Changelog end offsets that cannot be had are None."""
        ...

    def create_topics(self, topics: Mapping[str, CreatedTopic]) -> None:
        """On return they are there. A topic that is there already with as many partitions is fine."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ProviderAddress:
    """`provider`: a name such as `embedded`. `bootstrap_servers`: None when the settings' only one is meant."""

    provider: str
    bootstrap_servers: str | None


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


class ClusterProviders:
    """The clusters that groups of this service may name; each is opened once, when it is first needed."""

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = allowed
        self._opened: dict[ProviderAddress, ClusterProvider] = {}
        self._lock = threading.Lock()

    def check(self, address: ProviderAddress) -> None:
        """Raises InputError for an address that the settings do not list, NotBuiltYet for an unknown provider."""
        _entry_point(address.provider)
        self._servers(address)

    def provider(self, address: ProviderAddress) -> ClusterProvider:
        """Raises as `check` does, and whatever opening the cluster raises."""
        with self._lock:
            if address not in self._opened:
                factory: Callable[[str], ClusterProvider] = _entry_point(address.provider).load()
                self._opened[address] = factory(self._servers(address))
            return self._opened[address]

    def close(self) -> None:
        with self._lock:
            for provider in self._opened.values():
                provider.close()
            self._opened.clear()

    def _servers(self, address: ProviderAddress) -> str:
        if address.bootstrap_servers is None and len(self._allowed) == 1:
            return self._allowed[0]
        if address.bootstrap_servers is None:
            raise _refused(f"is missing, and the setting {SETTING} lists {len(self._allowed)} clusters, not one")
        if address.bootstrap_servers not in self._allowed:
            raise _refused(f"{address.bootstrap_servers[:200]!r} is not listed in this service's setting {SETTING}")
        return address.bootstrap_servers


def _entry_point(name: str) -> EntryPoint:
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in found:
        installed = ", ".join(sorted(found)) or "none"
        raise NotBuiltYet(f"there is no provider {name[:100]!r} here (installed: {installed})", f"cluster.{PROVIDER}")
    return found[name]


def _refused(reason: str) -> InputError:
    return InputError(reason, f"cluster.{BOOTSTRAP_SERVERS}")
