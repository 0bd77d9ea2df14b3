"""Reads the coordinator's description of a group, and waits until a group is in a desired state."""

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
    """Raised if the group did not reach the desired state in time. The message ends with the last view of the group."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member of a group. `joined`: True if the member has sent its subscription for the next rebalance. `fetched`:
    True if the member has received the assignment of the last rebalance.

    `last_heard_ms`: the time of the member's last request, in milliseconds since the epoch; None if the leader of the
    group is outside the coordinator. `user_endpoint`: the host:port at which the member's instance serves queries and
    its status; None if the instance serves no endpoint.
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
        """The endpoint of the member's instance; its process id if the instance has no endpoint."""
        return self.user_endpoint or self.process_id


@dataclass(frozen=True, slots=True)
class InstanceNotice:
    """A notice of an instance for the operator. `count`: the number of records or log lines that caused the notice."""

    process_id: str
    code: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """The coordinator's view of a group. `outcome`: the outcome of the last rebalance; empty before the first
    rebalance. `lags`: the known lags in records, by task and member id. `left_ms`: the known times until task copies
    have read the records of their lags.

    `condition`: the reason why a Stable group does not process records; None for a group that processes records.
    `advice`: a recommendation for the operator.
    """

    state: str
    generation_id: int
    outcome: str
    members: tuple[MemberView, ...]
    lags: Mapping[tuple[str, str], int] = field(repr=False)
    condition: str | None = None
    advice: str | None = None
    notices: tuple[InstanceNotice, ...] = ()
    left_ms: Mapping[tuple[str, str], int] = field(default_factory=dict, repr=False)

    @property
    def is_settled(self) -> bool:
        """True if the group is Stable, every member has received its assignment, and no rebalance except a probing
        rebalance is due.
        """
        return (
            self.state == STABLE and self.outcome in SETTLED_OUTCOMES and all(member.fetched for member in self.members)
        )

    def owners(self) -> dict[str, list[str]]:
        """Returns, for each active task, the client ids of all its owners."""
        owners: dict[str, list[str]] = {}
        for member in self.members:
            for task in member.active:
                owners.setdefault(task, []).append(member.client_id)
        return owners


@dataclass(frozen=True, slots=True)
class ListedRebalance:
    """A rebalance in the coordinator's history. `reason`: the trigger of the rebalance. `outcome`: the outcome; it also
    shows which kind of rebalance is due next, such as `stable` or `probing`.
    """

    generation_id: int
    reason: str
    outcome: str
    members: int


def group_view(client: CoordinatorClient, group_id: str) -> GroupView:
    """Requests the coordinator's description of the group. Raises CoordinatorError, CoordinatorUnavailable."""
    described = client.describe(group_id)

    def known(number: str) -> dict[tuple[str, str], int]:
        copies = described["tasks"]
        return {(copy["task"], copy["member_id"]): copy[number] for copy in copies if copy.get(number) is not None}

    return GroupView(
        described["state"],
        described["generation_id"],
        (described.get("last_rebalance") or {}).get("outcome") or "",
        tuple(_read(MemberView, member) for member in described["members"]),
        known("lag"),
        described.get("condition"),
        described.get("advice"),
        tuple(_read(InstanceNotice, notice) for notice in described.get("notices", ())),
        known("left_ms"),
    )


def listed_rebalances(client: CoordinatorClient, group_id: str) -> list[ListedRebalance]:
    """Returns the rebalances in the coordinator's history of a group, oldest first. Raises CoordinatorError,
    CoordinatorUnavailable.
    """
    listed = [_read(ListedRebalance, rebalance) for rebalance in client.rebalances(group_id)["rebalances"]]
    return sorted(listed, key=lambda rebalance: rebalance.generation_id)


def explanation_text(client: CoordinatorClient, group_id: str, generation_id: int, task: str) -> str:
    """Returns one line with the reason for the task's placement in a rebalance; empty if the rebalance gave no reason
    for this task. Raises CoordinatorError, CoordinatorUnavailable.
    """
    explanations = client.explanations(group_id, generation_id)["explanations"]
    return next((each["text"] for each in explanations if each["task"] == task), "")


def wait_for_group(
    client: CoordinatorClient, group_id: str, wanted: Callable[[GroupView], bool], what: str, timeout_s: float
) -> GroupView:
    """Polls the group until the function `wanted` returns True. Continues while the coordinator is unavailable. `what`:
    the name of the desired state, for the error message. Raises NotInTime, CoordinatorError.
    """
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
    """Polls the group until `wanted` returns True, the group is settled (`is_settled`), and each ownership log has the
    member's assignment. Raises NotInTime, CoordinatorError.
    """

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
    """Makes an object of the class `kind`. Each field of the object gets the value that has the same name in the
    document. A list in the document becomes a tuple.
    """
    found: dict[str, Any] = {}
    for each in fields(kind):
        value = document[each.name]
        found[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**found)
