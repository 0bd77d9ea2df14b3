"""What the service refuses, so that it can serve the rest.

- `Admission` bounds the requests of one kind at one time.
- `Overload` sheds load when the service cannot keep up, in this order: computations, descriptions, joins. A heartbeat
  is never refused: it is the cheapest request, and without it a member would lose its tasks, and everybody would have
  to rejoin. What is refused is tried again by its sender after `Retry-After`, so the load comes back later and
  thinner. The measure is the lag of the event loop, which is what every request waits for, and for joins also the
  number of events that wait for their commit.
- `Quotas` bounds what one tenant may have: groups, members, bytes in the store, and computations at one time.

A tenant is a prefix of group ids. It has what the groups have whose ids begin with it, whoever made them, and
whichever coordinator leads them: those of others are counted once a second. Prefixes may be nested: a caller of `a-b-`
keeps the quotas of that prefix and, if there are tokens for it, of `a-`, so that nobody gets more by giving himself
tokens for parts of what is his. A caller that sees all groups has no quota.

Quotas refuse what is new: a group, a member, a definition, a report. Members that are in go on, and so do their
rebalances. Nothing is scanned when somebody asks: each change of a group is added to the tenants that have it. Source
of the names and codes: Kafka's quotas (`THROTTLING_QUOTA_EXCEEDED` for what passes by itself) and its
`CreateTopicPolicy` (`POLICY_VIOLATION` for what does not).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from prometheus_client import Counter

from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from coordinator_api.clock import LoopMonitor
from coordinator_api.errors import TooManyGroups, TooManyRequests


class Admission:
    """Counts on one event loop. `setting`: the dotted name of the bound, for the message."""

    def __init__(self, most: int, setting: str) -> None:
        self._most = most
        self._setting = setting
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._most

    @contextmanager
    def one(self) -> Iterator[None]:
        """Counts one request while its block runs. Raises TooManyRequests when the bound is reached."""
        if self.is_full:
            raise TooManyRequests(
                f"{self.count} requests of this kind are under way already ({self._setting}): try again"
            )
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


Kind = Literal["computation", "describe", "join"]

MOST_LAG_MS: dict[Kind, float] = {"computation": 250, "describe": 500, "join": 1_000}
"""From this lag of the loop on, in milliseconds, requests of this kind are refused."""

MOST_EVENTS_WAITING = 10_000
"""From so many events that wait for their commit on, joins are refused."""


@dataclass(slots=True)
class Backlog:
    """How many events of all groups wait for their commit."""

    events: int = 0


class Overload:
    """`shed`: counts the refusals, by kind."""

    def __init__(self, monitor: LoopMonitor, backlog: Backlog, shed: Counter) -> None:
        self._monitor = monitor
        self._backlog = backlog
        self._shed = shed

    def admit(self, kind: Kind) -> None:
        """Raises TooManyRequests when a request of this kind has to wait for better times."""
        lag_ms = self._monitor.lag_ms
        if lag_ms >= MOST_LAG_MS[kind]:
            self._shed.labels(kind).inc()
            raise TooManyRequests(
                f"the service is overloaded: it is {lag_ms:.0f} ms behind, and refuses each {kind} from "
                f"{MOST_LAG_MS[kind]:.0f} ms on; try again later",
                retry_after_s=max(1, round(2 * lag_ms / 1000)),
            )
        if kind == "join" and self._backlog.events >= MOST_EVENTS_WAITING:
            self._shed.labels(kind).inc()
            raise TooManyRequests(f"the service is overloaded: {self._backlog.events} events wait; try again later")


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """For every tenant alike. Java's largest numbers stand for no limit."""

    groups: int = JAVA_INT_MAX
    members: int = JAVA_INT_MAX
    stored_bytes: int = JAVA_LONG_MAX
    computations: int = JAVA_INT_MAX


@dataclass(slots=True)
class _Use:
    groups: int = 0
    members: int = 0
    stored_bytes: int = 0


@dataclass(slots=True)
class _Tenant(_Use):
    computations: int = 0


class Quotas:
    """Of one service, on its event loop. No method waits, so nothing happens between a look and what follows from it.

    A `tenant` is a prefix; empty for who sees all groups.
    """

    def __init__(
        self, limits: TenantLimits = TenantLimits(), is_tenant: Callable[[str], bool] = lambda prefix: False
    ) -> None:
        """`is_tenant`: whether there are tokens for exactly this prefix."""
        self.limits = limits
        self._is_tenant = is_tenant
        self._groups: dict[str, _Use] = {}
        self._elsewhere: frozenset[str] = frozenset()
        self._tenants: dict[str, _Tenant] = {}

    def take_group(self, group_id: str, tenant: str = "") -> bool:
        """Count the group. Returns whether it is new. Raises TooManyGroups when its tenant may have no more."""
        if group_id in self._groups and self._groups[group_id].groups:
            return False
        for bound in self._bounds(tenant):
            if self._of(bound).groups >= self.limits.groups:
                used = _told(bound, tenant, f"are {self._of(bound).groups}")
                raise TooManyGroups(f"{used}, and {self.limits.groups} are allowed (tenant.max.groups)")
        self._change(group_id, groups=1)
        return True

    def give_back(self, group_id: str) -> None:
        """The group is no more."""
        self._change(group_id, groups=0, members=0, stored_bytes=0)

    def count_elsewhere(self, groups: Mapping[str, tuple[int, int | None]], here: Set[str]) -> None:
        """Count the groups that are not here: members and bytes of each, None for as many as before. `here`: groups of
        this coordinator. A group that was elsewhere before and is in neither was deleted.
        """
        for group_id in self._elsewhere - groups.keys() - here:
            self.give_back(group_id)
        for group_id, (members, stored_bytes) in groups.items():
            self._change(group_id, groups=1, members=members, stored_bytes=stored_bytes)
        self._elsewhere = frozenset(groups)

    def went_elsewhere(self, group_id: str) -> None:
        """It counts on, until it is found elsewhere, or found to be no more."""
        self._elsewhere |= {group_id}

    def note(self, group_id: str, members: int, stored_bytes: int) -> None:
        """What the group has now. `members`: that joined here, those included whose commit is under way."""
        self._change(group_id, members=members, stored_bytes=stored_bytes)

    def no_room_for_member(self, tenant: str, group_id: str, members_then: int) -> str | None:
        """Why the group may not have `members_then` members, in words; None when it may."""
        known = self._groups.get(group_id)
        for bound in self._bounds(tenant):
            use = self._of(bound)
            others = use.members - (0 if known is None else known.members)
            if others + members_then > self.limits.members:
                used = _told(bound, tenant, f"have {use.members} members")
                return f"{used}, and {self.limits.members} are allowed (tenant.max.members)"
        return self.no_room_for_bytes(tenant, 1)

    def no_room_for_bytes(self, tenant: str, added: int) -> str | None:
        """Why no more may be stored for the tenant, in words; None when `added` more bytes may be."""
        for bound in self._bounds(tenant):
            use = self._of(bound)
            if use.stored_bytes + added > self.limits.stored_bytes:
                used = _told(bound, tenant, f"take {use.stored_bytes} bytes in the store")
                return f"{used}, and {self.limits.stored_bytes} are allowed (tenant.max.bytes)"
        return None

    @contextmanager
    def computation(self, tenant: str) -> Iterator[None]:
        """Counts one while its block runs. Raises TooManyRequests when the tenant has as many under way as it may."""
        uses = []
        for bound in self._bounds(tenant):
            use = self._of(bound)
            if use.computations >= self.limits.computations:
                used = _told(bound, tenant, f"have {use.computations} computations under way")
                raise TooManyRequests(
                    f"{used}, and {self.limits.computations} are allowed (tenant.max.computations): try again"
                )
            uses.append(use)
        for use in uses:
            use.computations += 1
        try:
            yield
        finally:
            for use in uses:
                use.computations -= 1

    def shown(self, tenant: str) -> Mapping[str, object] | None:
        """What the tenant has, and what it may have (None: no limit); None for who sees all groups."""
        if not tenant:
            return None
        use, limits = self._of(tenant), self.limits
        return {
            "group_prefix": tenant,
            "groups": _used(use.groups, limits.groups, JAVA_INT_MAX),
            "members": _used(use.members, limits.members, JAVA_INT_MAX),
            "bytes": _used(use.stored_bytes, limits.stored_bytes, JAVA_LONG_MAX),
            "computations": _used(use.computations, limits.computations, JAVA_INT_MAX),
        }

    def _bounds(self, tenant: str) -> list[str]:
        """Whose quotas a caller of the tenant has to keep: its own, and those of the tenants around it."""
        if not tenant:
            return []
        outer = (tenant[:length] for length in range(len(tenant) - 1, 0, -1))
        return [tenant, *(prefix for prefix in outer if self._is_tenant(prefix))]

    def _of(self, tenant: str) -> _Tenant:
        """Counted when it is asked for the first time, and kept up to date from then on."""
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant()
            for group_id, use in self._groups.items():
                if group_id.startswith(tenant):
                    _add(known, use.groups, use.members, use.stored_bytes)
        return known

    def _change(
        self, group_id: str, groups: int | None = None, members: int | None = None, stored_bytes: int | None = None
    ) -> None:
        use = self._groups.setdefault(group_id, _Use())
        more_groups = 0 if groups is None else groups - use.groups
        more_members = 0 if members is None else members - use.members
        more_bytes = 0 if stored_bytes is None else stored_bytes - use.stored_bytes
        if more_groups or more_members or more_bytes:
            _add(use, more_groups, more_members, more_bytes)
            for tenant, total in self._tenants.items():
                if group_id.startswith(tenant):
                    _add(total, more_groups, more_members, more_bytes)
        if use == _Use():
            del self._groups[group_id]


def _add(use: _Use, groups: int, members: int, stored_bytes: int) -> None:
    use.groups += groups
    use.members += members
    use.stored_bytes += stored_bytes


def _used(used: int, allowed: int, no_limit: int) -> dict[str, int | None]:
    return {"used": used, "allowed": None if allowed == no_limit else allowed}


def _told(bound: str, tenant: str, used: str) -> str:
    """What a tenant is told of its own use, or of that of the tenant around it, which it cannot see."""
    return f"the groups whose ids begin with {bound} {used if bound == tenant else 'have all that they may have'}"
