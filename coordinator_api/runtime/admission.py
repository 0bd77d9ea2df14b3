"""The limits of the service. The service refuses requests above a limit, so that it can serve all other requests.

- `Admission` limits the number of concurrent requests of one kind.
- `Overload` refuses requests when the service cannot keep up, in this order: computations, descriptions, joins. A
  heartbeat is never refused, because it is the cheapest request. If a heartbeat were refused, a member would lose its
  tasks, and all members would have to rejoin. The sender of a refused request repeats the request after `Retry-After`,
  which spreads the load over time. The measure of overload is the lag of the event loop, because this lag delays every
  request. Joins are also refused if too many events wait for their commit.
- `Quotas` limits the groups, members, stored bytes and concurrent computations of one tenant.

A tenant is named by a prefix of group ids. A group belongs to the tenant if its id begins with the prefix. It does not
matter which caller created a group and which coordinator leads it. Each coordinator counts the groups of the other
coordinators once a second. Prefixes may be nested, such as `a-` and `a-b-`. For a caller with the prefix `a-b-`, the
quotas of `a-b-` apply. If the service has tokens for `a-`, the quotas of `a-` apply as well. So a tenant cannot raise
its quotas with tokens for longer prefixes. A caller that sees all groups has no quota.

Quotas refuse only additions: a new group, member, definition or report. Present members continue to work, and their
rebalances run. A check reads only the totals of a tenant, because each change of a group updates these totals. Source
of the names and codes: Kafka's quotas (`THROTTLING_QUOTA_EXCEEDED` for refusals that end by themselves) and its
`CreateTopicPolicy` (`POLICY_VIOLATION` for other refusals).
"""

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
    """Limits the number of concurrent requests of one kind. Use each Admission on only one event loop. `setting`: the
    dotted name of the limit's setting, for the error message.
    """

    def __init__(self, most: int, setting: str) -> None:
        self._most = most
        self._setting = setting
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._most

    @contextmanager
    def one(self) -> Iterator[None]:
        """Counts a request as running within the block. Raises TooManyRequests if the limit is reached."""
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
"""For each kind of request, the lag of the event loop at which the service refuses such requests, in milliseconds.
"""

MOST_EVENTS_WAITING = 10_000
"""If at least this number of events wait for their commit, joins are refused."""


@dataclass(slots=True)
class Backlog:
    """Counts the events that wait for their commit, in all groups together."""

    events: int = 0


class Overload:
    """Refuses requests while the service is overloaded. `shed`: a metric that counts the refusals of each kind of
    request.
    """

    def __init__(self, monitor: LoopMonitor, backlog: Backlog, shed: CountedRequests) -> None:
        self._monitor = monitor
        self._backlog = backlog
        self._shed = shed

    def admit(self, kind: Kind) -> None:
        """Raises TooManyRequests if the service refuses requests of this kind at the present load."""
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
"""For each kind of quota, the words of the error message that state the used amount. The limit of a kind is the setting
`tenant_max_...`, whose default means no limit.
"""


class Quotas:
    """The quotas of one service. Use `Quotas` only on the service's event loop. No method of `Quotas` awaits, so that
    no other asyncio task can run between the check of a quota and the allowed change.

    A `tenant` is a prefix of group ids. The prefix is empty for a caller that sees all groups. `settings`: the settings
    with the limits, which are equal for all tenants. By default there are no limits.
    """

    def __init__(
        self, settings: Settings | None = None, is_tenant: Callable[[str], bool] = lambda prefix: False
    ) -> None:
        """`is_tenant`: a function that returns True if the service has tokens for exactly this prefix."""
        self.settings = settings or Settings()
        self._is_tenant = is_tenant
        self._groups: dict[str, Counter[str]] = {}
        self._elsewhere: frozenset[str] = frozenset()
        self._tenants: dict[str, Counter[str]] = {}

    def count_group(self, group_id: str, tenant: str = "") -> bool:
        """Count the group for each of its tenants. Returns whether the group was not counted before. Raises
        TooManyGroups if the tenant has reached its limit.
        """
        if group_id in self._groups and self._groups[group_id]["groups"]:
            return False
        no_room = self.no_room(tenant, "groups", 1)
        if no_room is not None:
            raise TooManyGroups(no_room)
        self._change(group_id, groups=1)
        return True

    def give_back(self, group_id: str) -> None:
        """Stop counting a group that does not exist any more."""
        self._change(group_id, groups=0, members=0, bytes=0)

    def count_elsewhere(self, groups: Mapping[str, tuple[int, int | None]], here: Set[str]) -> None:
        """Count the groups of other coordinators. `groups`: for each group, the number of its members and the number of
        its stored bytes. The number of bytes is None if it has not changed. `here`: the ids of the groups of this
        coordinator. If neither `groups` nor `here` contains a group that was counted earlier, this group was deleted.
        """
        for group_id in self._elsewhere - groups.keys() - here:
            self.give_back(group_id)
        for group_id, (members, stored_bytes) in groups.items():
            self._change(group_id, groups=1, members=members, bytes=stored_bytes)
        self._elsewhere = frozenset(groups)

    def went_elsewhere(self, group_id: str) -> None:
        """Continue to count a group that is no longer open in this coordinator. The next call of `count_elsewhere`
        finds out whether the group still exists.
        """
        self._elsewhere |= {group_id}

    def note(self, group_id: str, members: int, stored_bytes: int) -> None:
        """Set the present number of members and stored bytes of the group. `members`: the number of members that joined
        at this coordinator, including members whose join is being committed.
        """
        self._change(group_id, members=members, bytes=stored_bytes)

    def no_room_for_member(self, tenant: str, group_id: str, members_then: int) -> str | None:
        """Returns an error text if the quotas do not allow the group to have `members_then` members; else None."""
        known = self._groups[group_id]["members"] if group_id in self._groups else 0
        return self.no_room(tenant, "members", members_then - known) or self.no_room(tenant, "bytes", 1)

    @contextmanager
    def computation(self, tenant: str) -> Iterator[None]:
        """Counts a computation as running within the block. Raises TooManyRequests if the tenant is at its limit."""
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
        """Returns for each kind of quota the amount that the tenant uses, and the limit. The limit is None if the kind
        has no limit. Returns None for a caller that sees all groups.
        """
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
        """Returns an error text if an addition would exceed a quota of this kind; None if the quotas allow the
        addition. `more`: the amount to add, for example 1 for one group.

        If the tenant itself has reached its limit, the text names the amount that the tenant uses. The text does not
        name the amount of a tenant with a shorter prefix, because the caller must not see this amount.
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
        """Returns the tenants whose quotas apply to a caller: the caller's own tenant, and tenants with a shorter
        prefix.
        """
        if not tenant:
            return []
        outer = (tenant[:length] for length in range(len(tenant) - 1, 0, -1))
        return [tenant, *(prefix for prefix in outer if self._is_tenant(prefix))]

    def _of(self, tenant: str) -> Counter[str]:
        """Returns the amount of each kind that a tenant uses. The first call for a tenant counts the amounts, and
        `_change` then keeps them up to date.
        """
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = Counter()
            for group_id, use in self._groups.items():
                if group_id.startswith(tenant):
                    known.update(use)
        return known

    def _change(self, group_id: str, **now: int | None) -> None:
        """`now`: for each kind, the amount that the group uses now; None if the amount is unchanged."""
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
