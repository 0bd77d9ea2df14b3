"""Finds the address at which a browser sees this service. A proxy may change the path, the host and the scheme of the
address.

If a call comes from a trusted proxy, the headers X-Forwarded-Prefix, -Host and -Proto are used. Without these headers,
the prefix is the setting root.path. The prefix is removed from the path, if the proxy has not removed it already.
Routes and the table of rights therefore contain no prefix.

Rule: links and redirects to this service are relative to the requested address (`reference`). Relative links and
redirects also work if a proxy adds a prefix that the service does not know. Source of the headers' names: Traefik and
Spring. Source of the trusted addresses: uvicorn's `--forwarded-allow-ips`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import quote

from starlette.types import Scope

from coordinator_api.settings import ANY_ADDRESS, is_root_path

_STATE = "public_address"


class PublicAddress(NamedTuple):
    """The public address of the service. `prefix`: the path below which browsers see the service; empty if there is no
    prefix or the prefix is unknown. `host`: the Host header that a trusted proxy received; None if the call has no
    X-Forwarded-Host.
    """

    prefix: str = ""
    host: str | None = None


class Proxies:
    """Determines the public address of each call. `root_path`, `allowed`: the settings root.path and
    forwarded.allow.ips.
    """

    def __init__(self, root_path: str, allowed: Iterable[str]) -> None:
        self.root_path = root_path
        self._is_trusted = _trust(tuple(allowed))

    def note(self, scope: Scope, forwarded: Mapping[bytes, bytes]) -> None:
        """Sets three values in the scope of the call: the public address, the browser's scheme, and the path without
        the prefix.

        `forwarded`: the call's X-Forwarded headers. Call `note` only if the call has an X-Forwarded header, or if there
        is a root path.
        """
        client = scope.get("client")
        found = PublicAddress(self.root_path)
        if client is not None and self._is_trusted(client[0]):
            found = _from_headers(forwarded, found, scope)
        scope.setdefault("state", {})[_STATE] = found
        _cut(scope, found.prefix)


def public_address(scope: Scope) -> PublicAddress:
    found: PublicAddress = scope.get("state", {}).get(_STATE, PublicAddress())
    return found


def way_to_root(scope: Scope) -> str:
    """Returns the relative reference from the call's address to the root of the service, such as `../../` for
    /ui/groups/a.
    """
    prefix = public_address(scope).prefix
    if prefix and scope["path"] == "/":
        # If a browser requested the prefix without a slash at its end, a relative link would begin one directory above
        # the prefix.
        return f"{prefix}/"
    return "../" * (raw_path(scope).count("/") - 1) or "./"


def reference(scope: Scope, address: str) -> str:
    """Converts an address of this service, such as `/ui/groups?q=a`, to a relative reference for the answer to this
    call.
    """
    return way_to_root(scope) + address.removeprefix("/")


def raw_path(scope: Scope) -> str:
    """Returns the percent-encoded path of the call, without the query and the prefix."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode("ascii")
    return raw.partition(b"?")[0].decode("latin-1")


def _from_headers(headers: Mapping[bytes, bytes], known: PublicAddress, scope: Scope) -> PublicAddress:
    prefix = known.prefix
    if b"x-forwarded-prefix" in headers:
        # if there are several proxies, each adds its own prefix, and the prefix of the outermost proxy is first
        parts = headers[b"x-forwarded-prefix"].decode("latin-1").split(",")
        joined = "".join(part.strip().rstrip("/") for part in parts)
        prefix = joined if is_root_path(joined) else prefix
    scheme = _first(headers.get(b"x-forwarded-proto")).lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme
    return PublicAddress(prefix, _first(headers.get(b"x-forwarded-host")) or None)


def _first(value: bytes | None) -> str:
    """Returns the first value of a header that may have several values. The outermost proxy set the first value."""
    return (value or b"").decode("latin-1").partition(",")[0].strip()


def _cut(scope: Scope, prefix: str) -> None:
    path, raw = scope["path"], raw_path(scope)
    if prefix and (path == prefix or path.startswith(f"{prefix}/")):
        scope["path"] = path[len(prefix) :] or "/"
        is_plain = raw.startswith(prefix)  # False if a letter of the prefix was percent-encoded
        scope["raw_path"] = (raw[len(prefix) :] or "/").encode("latin-1") if is_plain else b""


def _trust(allowed: tuple[str, ...]) -> Callable[[str], bool]:
    if ANY_ADDRESS in allowed:
        return lambda client: True
    networks: list[IPv4Network | IPv6Network] = [ip_network(each, strict=False) for each in allowed]

    @lru_cache(1_024)
    def is_trusted(client: str) -> bool:
        try:
            address = ip_address(client)
        except ValueError:
            return False
        # a dual-stack socket shows IPv4 addresses as IPv6 addresses
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in networks)

    return is_trusted
