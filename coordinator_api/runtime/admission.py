"""What the service refuses, so that it can serve the rest.

- `Admission` bounds the requests of one kind at one time.
- `Overload` sheds load when the service cannot keep up, in this order: computations, descriptions, joins. A heartbeat
  is never refused: it is the cheapest request, and without it a member would lose its tasks, and everybody would have
  to rejoin. What is refused is tried again by its sender after `Retry-After`, so the load comes back later and
  thinner. The measure is the lag of the event loop, which is what every request waits for, and for joins also the
  number of events that wait for their commit.
- `Quotas` bounds what one tenant may have: groups, members, bytes in the store, and computations at one time.

A tenant is a prefix of group ids. All groups whose ids begin with it count for the tenant, whoever made them and
whichever coordinator leads them; groups of other coordinators are counted once a second. Prefixes may be nested: a
caller of `a-b-` keeps the quotas of that prefix and, if there are tokens for it, of `a-`, so that nobody gets more by
giving himself tokens for parts of what is his. A caller that sees all groups has no quota.

Quotas refuse what is new: a group, a member, a definition, a report. Members that are in go on, and so do their
rebalances. Nothing is scanned when somebody asks: each change of a group is added to the tenants that have it. Source
of the names and codes: Kafka's quotas (`THROTTLING_QUOTA_EXCEEDED` for what passes by itself) and its
`CreateTopicPolicy` (`POLICY_VIOLATION` for what does not).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from prometheus_client import Counter as CountedRequests

from coordinator_api.clock import LoopMonitor
from coordinator_api.errors import TooManyGroups, TooManyRequests
from coordinator_api.settings import Settings, dotted


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
"""Joins are refused once so many events wait for their commit."""


@dataclass(slots=True)
class Backlog:
    """How many events of all groups wait for their commit."""

    events: int = 0


class Overload:
    """`shed`: counts the refusals, by kind."""

    def __init__(self, monitor: LoopMonitor, backlog: Backlog, shed: CountedRequests) -> None:
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


_WORDED_QUOTAS: Mapping[str, str] = {
    "groups": "are {}",
    "members": "have {} members",
    "bytes": "take {} bytes in the store",
    "computations": "have {} computations under way",
}
"""What a tenant has of each kind, in words. The setting `tenant_max_...` of a kind says how much it may have; the
default means no limit."""


class Quotas:
    """Of one service, on its event loop. No method waits, so nothing happens between a look and what follows from it.

    A `tenant` is a prefix; empty for who sees all groups. `settings`: what every tenant alike may have; by default no
    quota is set.
    """

    def __init__(
        self, settings: Settings | None = None, is_tenant: Callable[[str], bool] = lambda prefix: False
    ) -> None:
        """`is_tenant`: whether there are tokens for exactly this prefix."""
        self.settings = settings or Settings()
        self._is_tenant = is_tenant
        self._groups: dict[str, Counter[str]] = {}
        self._elsewhere: frozenset[str] = frozenset()
        self._tenants: dict[str, Counter[str]] = {}

    def count_group(self, group_id: str, tenant: str = "") -> bool:
        """Count the group. Returns whether it is new. Raises TooManyGroups when its tenant may have no more."""
        if group_id in self._groups and self._groups[group_id]["groups"]:
            return False
        no_room = self.no_room(tenant, "groups", 1)
        if no_room is not None:
            raise TooManyGroups(no_room)
        self._change(group_id, groups=1)
        return True

    def give_back(self, group_id: str) -> None:
        """The group is no more."""
        self._change(group_id, groups=0, members=0, bytes=0)

    def count_elsewhere(self, groups: Mapping[str, tuple[int, int | None]], here: Set[str]) -> None:
        """Count the groups that are not here: members and bytes of each, None for as many as before. `here`: groups of
        this coordinator. A group that was elsewhere before and is in neither was deleted.
        """
        for group_id in self._elsewhere - groups.keys() - here:
            self.give_back(group_id)
        for group_id, (members, stored_bytes) in groups.items():
            self._change(group_id, groups=1, members=members, bytes=stored_bytes)
        self._elsewhere = frozenset(groups)

    def went_elsewhere(self, group_id: str) -> None:
        """It counts on, until it is found elsewhere, or found to be no more."""
        self._elsewhere |= {group_id}

    def note(self, group_id: str, members: int, stored_bytes: int) -> None:
        """What the group has now. `members`: that joined here, those included whose commit is under way."""
        self._change(group_id, members=members, bytes=stored_bytes)

    def no_room_for_member(self, tenant: str, group_id: str, members_then: int) -> str | None:
        """Why the group may not have `members_then` members, in words; None when it may."""
        known = self._groups[group_id]["members"] if group_id in self._groups else 0
        return self.no_room(tenant, "members", members_then - known) or self.no_room(tenant, "bytes", 1)

    @contextmanager
    def computation(self, tenant: str) -> Iterator[None]:
        """Counts one while its block runs. Raises TooManyRequests when the tenant has as many under way as it may."""
        no_room = self.no_room(tenant, "computations", 1)
        if no_room is not None:
            raise TooManyRequests(f"{no_room}: try again")
        uses = [self._of(bound) for bound in self._bounds(tenant)]
        for use in uses:
            use["computations"] += 1
        try:
            yield
        finally:
            for use in uses:
                use["computations"] -= 1

    def shown(self, tenant: str) -> Mapping[str, object] | None:
        """What the tenant has, and what it may have (None: no limit); None for who sees all groups."""
        if not tenant:
            return None
        use, shown = self._of(tenant), dict[str, object](group_prefix=tenant)
        for kind in _WORDED_QUOTAS:
            allowed = self._allowed(kind)
            no_limit = allowed == Settings.model_fields[_setting(kind)].default
            shown[kind] = {"used": use[kind], "allowed": None if no_limit else allowed}
        return shown

    def _allowed(self, kind: str) -> int:
        allowed: int = getattr(self.settings, _setting(kind))
        return allowed

    def no_room(self, tenant: str, kind: str, more: int) -> str | None:
        """Why the tenant may not have so many more, in words; None when it may.

        The text has the tenant's own use, but not that of the tenant around it, which the caller cannot see.
        """
        allowed = self._allowed(kind)
        for bound in self._bounds(tenant):
            used = self._of(bound)[kind]
            if used + more > allowed:
                use = _WORDED_QUOTAS[kind].format(used) if bound == tenant else "have all that they may have"
                setting = dotted(_setting(kind))
                return f"the groups whose ids begin with {bound} {use}, and {allowed} are allowed ({setting})"
        return None

    def _bounds(self, tenant: str) -> list[str]:
        """Whose quotas a caller of the tenant has to keep: its own, and those of the tenants around it."""
        if not tenant:
            return []
        outer = (tenant[:length] for length in range(len(tenant) - 1, 0, -1))
        return [tenant, *(prefix for prefix in outer if self._is_tenant(prefix))]

    def _of(self, tenant: str) -> Counter[str]:
        """Counted when it is asked for the first time, and kept up to date from then on."""
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = Counter()
            for group_id, use in self._groups.items():
                if group_id.startswith(tenant):
                    known.update(use)
        return known

    def _change(self, group_id: str, **now: int | None) -> None:
        """`now`: what the group has of each kind; None for as many as before."""
        use = self._groups.setdefault(group_id, Counter())
        more = {kind: count - use[kind] for kind, count in now.items() if count is not None}
        if any(more.values()):
            use.update(more)
            for tenant, total in self._tenants.items():
                if group_id.startswith(tenant):
                    total.update(more)
        if not any(use.values()):
            del self._groups[group_id]


def _setting(kind: str) -> str:
    return f"tenant_max_{kind}"
