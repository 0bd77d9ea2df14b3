"""The rows of coordinators and groups in memory, with the rules of `LeaseStore`. Each method is one transaction."""

from collections.abc import Mapping

from coordinator_api.store.lease_rows import CoordinatorRow, GroupOwner, LeaseTimes, LeaseView


class LeaseTable:
    """`ended`: the ids of all coordinators whose rows others have deleted."""

    def __init__(self) -> None:
        self.coordinators: dict[str, CoordinatorRow] = {}
        self.groups: dict[str, GroupOwner] = {}
        self.ended: list[str] = []

    def enter(self, coordinator_id: str, url: str, release: str = "") -> None:
        assert coordinator_id not in self.coordinators
        self.coordinators[coordinator_id] = CoordinatorRow(coordinator_id, url, 0, release, takes=False)

    def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        row = self.coordinators.get(coordinator_id)
        if row is None:
            return None
        self.coordinators[coordinator_id] = row._replace(renewals=row.renewals + int(renews), takes=takes)
        return LeaseView(dict(self.coordinators), dict(self.groups))

    def end(self, coordinator_id: str, renewals: int) -> bool:
        row = self.coordinators.get(coordinator_id)
        if row is None or row.renewals != renewals:
            return False
        del self.coordinators[coordinator_id]
        self.ended.append(coordinator_id)
        return True

    def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        group = self.groups.get(group_id)
        if group is None or (group.owner, group.epoch) != (owner, epoch) or by not in self.coordinators:
            return None
        if owner != by and owner in self.coordinators:
            return None
        self.groups[group_id] = group._replace(owner=by, epoch=epoch + 1)
        return epoch + 1

    def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        group = self.groups.get(group_id)
        if group is None or (group.owner, group.epoch) != (by, epoch) or to not in self.coordinators:
            return False
        self.groups[group_id] = group._replace(owner=to, epoch=epoch + 1)
        return True

    def leave(self, coordinator_id: str) -> None:
        self.coordinators.pop(coordinator_id, None)

    # --- what the repository does beside

    def may_write(self, group_id: str, by: str | None, epoch: int) -> bool:
        """Whether a write of the group is made: by its owner, in its epoch; of a new group, by anybody in epoch 1."""
        group = self.groups.get(group_id)
        return epoch == 1 if group is None else (group.owner, group.epoch) == (by, epoch)

    def written(self, group_id: str, by: str | None, members: int = 0) -> None:
        """A write was made."""
        group = self.groups.get(group_id) or GroupOwner(group_id, by, 1)
        self.groups[group_id] = group._replace(members=members)


class InMemoryLeaseStore:
    """A `LeaseStore` on a table. `ids`: under which its coordinator has entered."""

    def __init__(self, table: LeaseTable, times: LeaseTimes) -> None:
        self.table = table
        self.times = times
        self.ids: list[str] = []

    async def enter(self, coordinator_id: str, url: str, release: str) -> None:
        self.table.enter(coordinator_id, url, release)
        self.ids.append(coordinator_id)

    async def poll(self, coordinator_id: str, *, takes: bool = True, renews: bool = True) -> LeaseView | None:
        return self.table.poll(coordinator_id, takes=takes, renews=renews)

    async def end(self, coordinator_id: str, renewals: int) -> bool:
        return self.table.end(coordinator_id, renewals)

    async def take(self, group_id: str, owner: str | None, epoch: int, by: str) -> int | None:
        return self.table.take(group_id, owner, epoch, by)

    async def hand_over(self, group_id: str, epoch: int, by: str, to: str) -> bool:
        return self.table.hand_over(group_id, epoch, by, to)

    async def leave(self, coordinator_id: str) -> None:
        self.table.leave(coordinator_id)


# --- views for tests, in few words


def view(
    renewals: Mapping[str, int], *groups: tuple[str, str | None, int] | tuple[str, str | None, int, int]
) -> LeaseView:
    """`renewals`: of each coordinator. `groups`: id, owner, epoch, and how many members."""
    rows = {each: CoordinatorRow(each, f"http://{each}", number, "1") for each, number in renewals.items()}
    return LeaseView(rows, {group[0]: GroupOwner(*group) for group in groups})
