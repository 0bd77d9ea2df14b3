"""What a group's callers show besides their events: calls that were refused, and the releases that members run.

The health of the group reports it. It exists in memory only: an operator who looks after a restart of the coordinator
sees it again as soon as the callers call again or join again. The number of remembered values is bounded, because only
the newest refused call is kept, and because members that are gone are forgotten.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from coordinator_api.group.health import RefusedCalls

_RELEASE = re.compile(r"assignor/(?P<release>[0-9A-Za-z.+_-]{1,40})")
_SPARE = 16


class GroupCallers:
    """The callers of one group. `now_ms`: the clock of the service.

    `refused_definitions`: definitions of another application. `refused_tokens`: calls of members with expired tokens.
    Both are None if there was no such call. `mixed_since_ms`: the time since which the members run different releases;
    None if they run one release.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._releases: dict[str, str] = {}
        self._counts: Counter[str] = Counter()  # members by release, so that a join is quick
        self.mixed_since_ms: int | None = None
        self.refused_definitions: RefusedCalls | None = None
        self.refused_tokens: RefusedCalls | None = None

    def definition_refused(self, caller: str, why: str) -> None:
        """A definition was refused, because members of another application with this id are in the group."""
        self.refused_definitions = _after(self.refused_definitions, caller, why, self._now_ms())

    def token_refused(self, caller: str, why: str) -> None:
        """A call of a member was refused, because its token has expired."""
        self.refused_tokens = _after(self.refused_tokens, caller, why, self._now_ms())

    def joined(self, member_id: str, user_agent: str, members: Collection[str]) -> None:
        """A member has joined or rejoined. `user_agent`: the header of its call; ignored if it names no release of this
        program. `members`: the present members of the group.
        """
        found = _RELEASE.match(user_agent)
        if found is None:
            return
        release, before = found["release"], self._releases.get(member_id)
        if release == before:
            return
        self._releases[member_id] = release
        self._counts[release] += 1
        if before is not None:
            self._counts[before] -= 1
        if len(self._releases) > 2 * len(members) + _SPARE:
            self._forget_all_but(members)
        if self.mixed_since_ms is None and sum(count > 0 for count in self._counts.values()) > 1:
            self.mixed_since_ms = self._now_ms()

    def releases(self, members: Collection[str]) -> Mapping[str, str]:
        """Returns the release that each of the members runs, as far as it is known. Returns an empty mapping if the
        members run one release.
        """
        if self.mixed_since_ms is None:
            return {}
        self._forget_all_but(members)
        if len(self._counts) > 1:
            return self._releases
        self.mixed_since_ms = None
        return {}

    def _forget_all_but(self, members: Collection[str]) -> None:
        self._releases = {key: release for key, release in self._releases.items() if key in members}
        self._counts = Counter(self._releases.values())


def _after(before: RefusedCalls | None, caller: str, why: str, now_ms: int) -> RefusedCalls:
    if before is None:
        return RefusedCalls(caller, why, 1, now_ms, now_ms)
    return RefusedCalls(caller, why, before.count + 1, before.since_ms, now_ms)
