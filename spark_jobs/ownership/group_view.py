"""A group as its coordinator describes it, read from JSON into values; and waiting until it looks as wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from assignor.errors import AssignorFault
from spark_jobs.ownership.ownership_history import members_behind
from spark_jobs.ownership.ownership_log import read_ownership
from streams_runtime.membership.calls import CoordinatorUnavailable
from streams_runtime.membership.coordinator_client import CoordinatorClient

POLL_INTERVAL_S = 0.05
STABLE = "Stable"
SETTLED_OUTCOMES = frozenset({"stable", "probing", "settled"})


class NotInTime(AssignorFault):
    """The group did not reach the wanted state in time. The message ends with the last view of it."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """`joined`: has sent its subscription for the coming rebalance. `fetched`: has the assignment of the last one.

    `last_heard_ms`: when its last request arrived, in milliseconds since the epoch; None in a group that is led
    elsewhere. `user_endpoint`: host:port under which its instance answers, None when it does not serve.
    """

    member_id: str
    client_id: str
    process_id: str
    joined: bool
    fetched: bool
    last_heard_ms: int | None
    active: tuple[str, ...]
    standby: tuple[str, ...]
    warm_up: tuple[str, ...]
    user_endpoint: str | None

    @property
    def instance(self) -> str:
        """The instance's endpoint, or its process id without one."""
        return self.user_endpoint or self.process_id


@dataclass(frozen=True, slots=True)
class InstanceNotice:
    """A notice that an instance has for people. `count`: of records, or of lines logged."""

    process_id: str
    code: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """`outcome`: of the last rebalance, empty before the first. `lags`: (task, member id) to lag, where known.

    `condition`: why a Stable group does nothing, None for one that works. `advice`: what to do about the group.
    """

    state: str
    generation_id: int
    outcome: str
    members: tuple[MemberView, ...]
    lags: Mapping[tuple[str, str], int] = field(repr=False)
    condition: str | None = None
    advice: str | None = None
    notices: tuple[InstanceNotice, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Stable, every member has its assignment, and the next rebalance, if any, is a probing one."""
        return (
            self.state == STABLE and self.outcome in SETTLED_OUTCOMES and all(member.fetched for member in self.members)
        )

    def owners(self) -> dict[str, list[str]]:
        """Active task to the client ids of all its owners."""
        owners: dict[str, list[str]] = {}
        for member in self.members:
            for task in member.active:
                owners.setdefault(task, []).append(member.client_id)
        return owners


@dataclass(frozen=True, slots=True)
class ListedRebalance:
    """A row of the coordinator's history. `reason`: what started it; `outcome`: what follows it."""

    generation_id: int
    reason: str
    outcome: str
    members: int


def group_view(client: CoordinatorClient, group_id: str) -> GroupView:
    """Raises CoordinatorError, CoordinatorUnavailable."""
    described = client.describe(group_id)
    return GroupView(
        described["state"],
        described["generation_id"],
        (described.get("last_rebalance") or {}).get("outcome") or "",
        tuple(_read(MemberView, member) for member in described["members"]),
        {(copy["task"], copy["member_id"]): copy["lag"] for copy in described["tasks"] if copy.get("lag") is not None},
        described.get("condition"),
        described.get("advice"),
        tuple(_read(InstanceNotice, notice) for notice in described.get("notices", ())),
    )


def listed_rebalances(client: CoordinatorClient, group_id: str) -> list[ListedRebalance]:
    """The coordinator's history, oldest first. Raises CoordinatorError, CoordinatorUnavailable."""
    listed = [_read(ListedRebalance, rebalance) for rebalance in client.rebalances(group_id)["rebalances"]]
    return sorted(listed, key=lambda rebalance: rebalance.generation_id)


def explanation_text(client: CoordinatorClient, group_id: str, generation_id: int, task: str) -> str:
    """Why that rebalance placed `task` as it did, in one line. Raises CoordinatorError, CoordinatorUnavailable."""
    explanations = client.explanations(group_id, generation_id)["explanations"]
    return next((each["text"] for each in explanations if each["task"] == task), "")


def wait_for_group(
    client: CoordinatorClient, group_id: str, wanted: Callable[[GroupView], bool], what: str, timeout_s: float
) -> GroupView:
    """Ask until `wanted` holds, also while the coordinator is away. Raises NotInTime, CoordinatorError."""
    deadline_s = time.monotonic() + timeout_s
    seen: GroupView | CoordinatorUnavailable | None = None
    while time.monotonic() < deadline_s:
        try:
            seen = group_view(client, group_id)
            if wanted(seen):
                return seen
        except CoordinatorUnavailable as fault:
            seen = fault
        time.sleep(POLL_INTERVAL_S)
    raise NotInTime(f"group {group_id}: waited {timeout_s:g} s for {what}; last seen: {seen}")


def wait_until_held(
    client: CoordinatorClient,
    group_id: str,
    log_dir: Path,
    wanted: Callable[[GroupView], bool],
    what: str,
    timeout_s: float,
) -> GroupView:
    """As `wait_for_group`, until the group is also settled and every member's ownership log has its assignment."""

    def held(view: GroupView) -> bool:
        member_ids = [member.member_id for member in view.members]
        return (
            view.is_settled
            and wanted(view)
            and not members_behind(read_ownership(log_dir), member_ids, view.generation_id)
        )

    return wait_for_group(client, group_id, held, what, timeout_s)


Read = TypeVar("Read", MemberView, InstanceNotice, ListedRebalance)


def _read(kind: type[Read], document: Mapping[str, Any]) -> Read:
    """The fields that `kind` has, with lists as tuples."""
    found: dict[str, Any] = {}
    for each in fields(kind):
        value = document[each.name]
        found[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**found)
