"""Which members were heard on which connection, and which connections broke. In memory only, immutable.

A process that is killed says nothing, but its kernel closes its connections within milliseconds. Rules:

- A member belongs to the connection on which its last process heartbeat came.
- When that connection breaks while an earlier heartbeat of its process is still held on another one, the process lives.
  The member belongs to that other connection again. (A heartbeat may be read late, after its process has given it up.)
- A connection that broke is due after the grace. Then the sessions of its members end, if they asked for it. A member
  that is heard from before, on whichever connection, is alive and belongs to the broken one no longer.
- While more than half of the group's connections are broken, none is due: that is the network, or a proxy, or a switch,
  and the members are as alive as before. When enough of them have come back, the others have once more as long as they
  have been away, at least the grace, before they count as dead.

Differs from Kafka, which waits for the session timeout always. Only members that ask for it (`leave_on_disconnect`) are
treated so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from coordinator_api.group.persistent_map import PersistentMap


@dataclass(frozen=True, slots=True)
class MemberConnections:
    """`members`: by connection, those that belong to it; a connection without any is forgotten. `lost`: when each
    broken one broke. `came_back_ms`: when it last ended that more than half were broken; None for never.
    """

    members: PersistentMap[int, frozenset[str]] = field(default_factory=PersistentMap)
    lost: PersistentMap[int, int] = field(default_factory=PersistentMap)
    came_back_ms: int | None = None

    @property
    def most_are_lost(self) -> bool:
        """Whether more than half of the connections are broken."""
        return 2 * len(self.lost) > len(self.members)

    def moved(self, member_id: str, before: int | None, now: int | None, now_ms: int) -> MemberConnections:
        """The member belongs to the connection `now`, no longer to `before`; None for none that is watched."""
        members, lost = self.members, self.lost
        if before is not None and before in members:
            left = members[before] - {member_id}
            members = members.with_value(before, left) if left else members.without(before)
            lost = lost if left else lost.without(before)
        if now is not None:
            members = members.with_value(now, members.get(now, frozenset()) | {member_id})
        return self._at(replace(self, members=members, lost=lost), now_ms)

    def broken(self, connection_id: int, now_ms: int) -> MemberConnections:
        """The connection broke. Nothing changes when no member belongs to it."""
        if connection_id not in self.members or connection_id in self.lost:
            return self
        return replace(self, lost=self.lost.with_value(connection_id, now_ms))

    def due(self, grace_ms: int, now_ms: int) -> tuple[int, ...]:
        """The broken connections whose members have not come back in time."""
        if self.most_are_lost:
            return ()
        return tuple(key for key, lost_ms in self.lost.items() if self._due_ms(lost_ms, grace_ms) <= now_ms)

    def next_due_ms(self, grace_ms: int) -> int | None:
        """When the next broken connection is due; None for never, unless others come back."""
        if not self.lost or self.most_are_lost:
            return None
        return min(self._due_ms(lost_ms, grace_ms) for lost_ms in self.lost.values())

    def _due_ms(self, lost_ms: int, grace_ms: int) -> int:
        if self.came_back_ms is None or lost_ms > self.came_back_ms:
            return lost_ms + grace_ms
        return self.came_back_ms + max(grace_ms, self.came_back_ms - lost_ms)

    def _at(self, after: MemberConnections, now_ms: int) -> MemberConnections:
        return replace(after, came_back_ms=now_ms) if self.most_are_lost and not after.most_are_lost else after
