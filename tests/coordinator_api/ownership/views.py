"""Views for tests, in few words."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_api.ownership.values import CoordinatorRow, GroupOwner, OwnershipView


def view(
    renewals: Mapping[str, int], *groups: tuple[str, str | None, int] | tuple[str, str | None, int, int]
) -> OwnershipView:
    """`renewals`: of each coordinator. `groups`: id, owner, epoch, and how many members."""
    rows = {each: CoordinatorRow(each, f"http://{each}", number, "1") for each, number in renewals.items()}
    return OwnershipView(rows, {group[0]: GroupOwner(*group) for group in groups})
