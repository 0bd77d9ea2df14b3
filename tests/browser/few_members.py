"""A small group whose members do what a test says, and say over HTTP that they run what they were given."""

from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from assignor.types import LATEST_OFFSET
from tests.coordinator_api.group_members import HttpMember, definition, settle

# nobody sends heartbeats for them, and a rebalance waits for what a test does in a browser: a slow machine must not
# cost a member
_PATIENCE: dict[str, Any] = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000}


@dataclass
class FewMembers:
    """A group of four tasks with one store. It is declared and joined step by step."""

    client: httpx.Client
    id: str
    members: list[HttpMember] = field(default_factory=list)

    def declare(self, **changes: object) -> Self:
        response = self.client.put(f"/v1/groups/{self.id}", json=definition(**changes))  # type: ignore[arg-type]
        assert response.is_success, response.text
        return self

    def join(self, count: int) -> Self:
        """So many more members, until the group is stable and each member says that it runs its tasks."""
        new = [
            HttpMember(self.client, self.id, client_id=f"{self.id}-{number}", **_PATIENCE)
            for number in range(len(self.members), len(self.members) + count)
        ]
        for member in [*new, *self.members]:  # the rebalance waits for those that are there
            assert member.subscribe().is_success
        self.members += new
        self.settle()
        return self

    def settle(self) -> None:
        """Everybody follows the rebalances that are under way, and reports what it runs."""
        settle(*self.members)
        for member in self.members:
            sums = dict.fromkeys(member.active, LATEST_OFFSET)
            assert member.heartbeat(task_offset_sums=sums).is_success

    def leave(self) -> None:
        """All members leave."""
        for member in self.members:
            member.leave()
        self.members = []

    def remove(self) -> None:
        """All members leave, and the group is deleted."""
        self.leave()
        response = self.client.delete(f"/v1/groups/{self.id}")
        assert response.status_code in (204, 404), response.text
