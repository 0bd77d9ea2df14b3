"""Authenticates the callers of this project's HTTP services, and checks their rights. A caller has a name, a right, and
a set of groups that the caller may see.

The four rights, from the lowest to the highest, are reader, member, operator and admin. A right includes all lower
rights. A prefix limits a right to groups whose ids begin with the prefix, as Kafka's ACLs do with the pattern type
PREFIXED. Source of the idea: `org.apache.kafka.common.acl`. This module has four rights instead of Kafka's many
operations, because the services have only a few calls for a group.

A service without tokens listens on loopback only. But a web page of another site can make a browser on the same machine
call the service. So a service without tokens refuses calls from web pages of other sites. A service without tokens also
refuses a call if the header Host does not name a loopback host. If a service has tokens, every call has to carry a
token. Differs from Kafka: clients of Kafka authenticate with SASL. Callers of these services send a bearer token,
because every Spark executor can send one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit


class Right(StrEnum):
    """The rights of callers.

    A reader may make calls that change nothing. A member may also declare, join and leave a group, and report a
    rebalance. An operator may also drain, delete and repair groups, and replace a running topology. An admin may also
    create and revoke tokens.
    """

    READER = "reader"
    MEMBER = "member"
    OPERATOR = "operator"
    ADMIN = "admin"

    def includes(self, other: Right) -> bool:
        """Returns True if this right includes `other`."""
        return _ORDER[self] >= _ORDER[other]


_ORDER = {right: place for place, right in enumerate(Right)}


class Need(NamedTuple):
    """The permission that a call needs. `group_id`: the group that the call concerns; None for a call about the
    service. `all_groups`: True if the call returns data about the groups of every tenant.
    """

    right: Right
    group_id: str | None = None
    all_groups: bool = False


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. `group_prefix`: the prefix of the ids of the caller's groups; empty for all groups. Quotas use the
    prefix as the name of the tenant.
    """

    name: str
    right: Right
    group_prefix: str = ""

    @property
    def sees_all(self) -> bool:
        """True if this principal may see the groups of every tenant."""
        return not self.group_prefix

    def sees(self, group_id: str) -> bool:
        """Returns True if this principal may see the group."""
        return group_id.startswith(self.group_prefix)

    def may(self, right: Right) -> bool:
        return self.right.includes(right)

    def refusal(self, need: Need) -> str | None:
        """Returns the reason why this principal may not make a call that needs the permission `need`. The result is
        None if this principal may make the call.
        """
        if need.group_id is not None and not self.sees(need.group_id):
            return f"the token of {self.name} is for groups whose ids begin with {self.group_prefix}"
        if need.all_groups and not self.sees_all:
            return f"this shows all groups, and the token of {self.name} is not for all"
        if not self.may(need.right):
            return f"this needs the right {need.right}, and the token of {self.name} has the right {self.right}"
        return None


ANYBODY = Principal("anybody on this machine", Right.ADMIN)
"""The caller of a service without tokens, which listens on loopback only."""

FindPrincipal = Callable[[bytes], Principal | None]
"""The type of a function that finds the principal of a token. A `FindPrincipal` returns None for an unknown or expired
token.
"""


class ExpiredToken(NamedTuple):
    """A token that was valid until `expired_ms`, in milliseconds since the epoch."""

    principal: Principal
    expired_ms: int


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """The reason why a call is refused. `challenge`: the header WWW-Authenticate of an answer with status 401; None if
    the status is 403.
    """

    detail: str
    challenge: str | None = None


def caller(find: FindPrincipal | None, headers: Mapping[str, str]) -> Principal | AccessRefusal:
    """Finds the caller of a request. `find`: the function that finds the principal of a token; None for a service
    without tokens. `headers`: the headers of the request by lower-case name.
    """
    if find is None:
        return _foreign_page(headers) or ANYBODY
    token, given = bearer_token(headers), headers.get("authorization", "").partition(" ")[2]
    if token is not None:
        principal = find(token)
        if principal is not None:
            return principal
    challenge = 'Bearer realm="assignor"' + (', error="invalid_token"' if given else "")
    detail = "the bearer token is none of this service's" if given else "send Authorization: Bearer <token>"
    return AccessRefusal(detail, challenge)


def bearer_token(headers: Mapping[str, str]) -> bytes | None:
    """Returns the token of a request as the bytes that the caller sent; None if it has none. `headers`: the headers by
    lower-case name.
    """
    scheme, _, given = headers.get("authorization", "").partition(" ")
    # the server decoded the headers as latin-1, so encoding the token as latin-1 restores the bytes
    return given.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def is_loopback(host: str) -> bool:
    """Returns True if only this machine can reach the host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _foreign_page(headers: Mapping[str, str]) -> AccessRefusal | None:
    if not is_loopback(_host_of("//" + headers.get("host", "localhost"))):
        return AccessRefusal("without a token this service answers to loopback hosts only")
    origin = headers.get("origin")
    if origin is not None and not is_loopback(_host_of(origin)):
        return AccessRefusal("without a token this service refuses calls from foreign web pages")
    return None


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
