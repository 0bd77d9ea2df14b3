"""One event looks at as many members in a group of any size, and what is stored of a rebalance is linear."""

import sys
from collections.abc import Callable
from functools import cache, partial
from types import FrameType

import pytest

from assignor.pipeline.snapshot import RebalanceResult
from assignor.protocol.shared_assignments import AssignmentParts, SharedAssignments
from coordinator_api.group import events
from coordinator_api.group.group import Group
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import RunRebalance
from coordinator_api.group.rebalance_result import computed_assignments
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.snapshot import snapshot_records
from tests.coordinator_api.group.declarations import declared
from tests.coordinator_api.group.member_bytes import MemberState, subscription

SMALL, LARGE = 50, 2_000
HOST_MAPS = bytes(range(256)) * 400
"""Shared by all assignments: 100 KB that do compress, as host maps do."""


class Fleet:
    """A stable group in which everybody has its assignment. `lines`: all that was stored."""

    def __init__(self, members: int) -> None:
        self.group = Group("fleet", GroupLimits(initial_rebalance_delay_ms=0))
        self.names = [f"m{number}" for number in range(members)]
        self.lines: list[str] = []
        self.take(declared("v1"))
        for name in self.names:
            self.take(first_join(name))
        effect = self.take(events.Tick())
        assert effect is not None
        parts = {name: AssignmentParts(name.encode(), HOST_MAPS, b"tail") for name in self.names}
        result = RebalanceResult(SharedAssignments(parts), followup_rebalance=True)
        computed = computed_assignments(effect.members, effect.definition_revision, result)
        self.take(events.AssignmentComputed(1, computed))
        for number, name in enumerate(self.names[1:]):
            self.group.respond(events.ProcessHeartbeat({name: events.Heartbeat(name, 1)}, number), 0, self.group.image)

    def take(self, event: events.Event) -> RunRebalance | None:
        outcome = self.group.handle(event, 0)
        self.group.apply(outcome.records, 0)
        self.lines += map(encode_record, outcome.records)
        return outcome.rebalance


def first_join(name: str) -> events.Join:
    said = subscription(MemberState(name))
    return events.Join(said, 10_000, 60_000, name, join_id=f"join {name}", leave_on_disconnect=True)


@cache
def stable_fleet(members: int) -> Group:
    return Fleet(members).group


@cache
def preparing_fleet(members: int) -> Group:
    """One more has joined, and all but the last of the others have rejoined."""
    fleet = Fleet(members)
    fleet.take(first_join("newcomer"))
    for name in fleet.names[:-1]:
        fleet.take(rejoin(name, 1))
    return fleet.group


def rejoin(name: str, unique: int) -> events.Join:
    said = subscription(MemberState(name, unique=unique))
    return events.Join(said, 10_000, 60_000, "-", name, leave_on_disconnect=True)


def calls(what: Callable[[], object]) -> int:
    """How many functions were called, those of C included: deterministic, where time is not."""
    count = 0

    def counts(_frame: FrameType, event: str, _of: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counts)
    try:
        what()
    finally:
        sys.setprofile(before)
    return count


def taken(group: Group, event: events.Event) -> None:
    group.apply(group.handle(event, 0).records, 0)


@pytest.mark.parametrize(
    "event",
    [
        first_join("another"),
        first_join("m7"),
        rejoin("m7", 2),
        events.Heartbeat("m8", 1),
        events.ProcessHeartbeat({"m8": events.Heartbeat("m8", 1), "m9": events.Heartbeat("m9", 1)}, 99),
        events.FetchAssignment("m9", 1),
        events.Leave("m10"),
        events.ConnectionLost(12),
    ],
    ids=["first join", "first join repeated", "rejoin", "heartbeat", "process heartbeat", "fetch", "leave", "lost"],
)
def test_should_cost_the_same_in_a_group_of_any_size(event: events.Event) -> None:
    small, large = (calls(partial(taken, preparing_fleet(members), event)) for members in (SMALL, LARGE))
    assert large < small + LARGE / 4, f"{small} calls with {SMALL} members, {large} with {LARGE}"


@pytest.mark.parametrize(
    "event",
    [
        events.Heartbeat("m1", 1),
        events.FetchAssignment("m1", 1),
        events.ProcessHeartbeat({"m1": events.Heartbeat("m1", 1)}, 1),
    ],
)
def test_should_hear_one_member(
    event: events.Heartbeat | events.FetchAssignment | events.ProcessHeartbeat,
) -> None:
    groups = [stable_fleet(members) for members in (SMALL, LARGE)]
    small, large = (calls(partial(group.respond, event, 0, group.image)) for group in groups)
    assert large < small + LARGE / 4


def test_should_store_what_all_assignments_share_once_in_log_and_snapshot() -> None:
    fleet = Fleet(LARGE)
    snapshot = [encode_record(record) for record in snapshot_records(fleet.group.image)]
    for lines in (fleet.lines, snapshot):
        assert sum(map(len, lines)) < 1_000 * LARGE < len(HOST_MAPS) * LARGE / 50
        replayed = Group.replay("fleet", fleet.group.limits, map(decode_record, lines), 0)
        replayed.validate_state()
        assert replayed.image == fleet.group.image
        given = [member.last_assignment.assignment for member in replayed.image.members.values()]
        assert len({id(parts.shared) for parts in given if parts is not None}) == 1, "in memory, too"


def test_should_keep_the_packed_bytes_that_the_worker_made() -> None:
    fleet = Fleet(3)
    (stored,) = (line for line in fleet.lines if '"RebalanceCompleted"' in line)
    assert encode_record(decode_record(stored)) == stored
