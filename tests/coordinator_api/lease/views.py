"""Views for tests, in few words."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_api.store.lease_rows import CoordinatorRow, GroupOwner, LeaseView


def view(
    renewals: Mapping[str, int], *groups: tuple[str, str | None, int] | tuple[str, str | None, int, int]
) -> LeaseView:
    """`renewals`: of each coordinator. `groups`: id, owner, epoch, and how many members."""
    rows = {each: CoordinatorRow(each, f"http://{each}", number, "1") for each, number in renewals.items()}
    return LeaseView(rows, {group[0]: GroupOwner(*group) for group in groups})
