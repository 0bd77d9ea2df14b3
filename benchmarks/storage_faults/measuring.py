"""One fault: a healthy service, the fault, the time after it, `kill -9`, and the next start on what is left."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.storage_faults.faults import Fault, small_disk
from benchmarks.storage_faults.group import CONCERNED, OTHER, Call, GroupsUnderFault
from tests.coordinator_api.service_process import START_TIMEOUT_S, ServiceProcess

QUICK = ("--group-initial-rebalance-delay-ms", "50")
BEFORE_S = 1.0
LONGEST_RECOVERY_S = 30.0
_NOT_HERE = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class NextStart:
    """What the next start on the same files found. `refused`: what it said instead of serving, empty when it serves.

    `lost`: groups whose declaration was answered with success and that are not there. `unreadable`: groups that are
    there, with the reason why they are not led. `is_behind`: the group that was changed is there with an older
    definition than was answered.
    """

    refused: str
    exit_code: int | None
    lost: frozenset[str]
    unreadable: dict[str, str]
    is_behind: bool
    members_kept: int


@dataclass(frozen=True, slots=True)
class MeasuredFault:
    """`during`: the calls that were answered between begin and end of the fault; `calls`: all of them.

    `ready_again_s`: from the end of the fault until `/readyz` said 200 and a change was stored; None: not within
    LONGEST_RECOVERY_S. `members`: how many there are. `acknowledged`: how many groups were declared with success.
    """

    title: str
    lasted_s: float
    calls: Sequence[Call]
    during: Sequence[Call]
    ready_again_s: float | None
    members: int
    acknowledged: int
    next_start: NextStart

    def named(self, what: str) -> list[Call]:
        """The calls of one kind that began during the fault."""
        return [call for call in self.during if call.what == what]

    @property
    def evicted(self) -> int:
        """Heartbeats, at any time, whose member was not known any more."""
        return sum(call.code in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID") for call in self.calls)


def measure(fault: Fault, directory: Path, fault_s: float, after_s: float, flags: Sequence[str] = ()) -> MeasuredFault:
    """`directory`: of the coordinator, empty. `after_s`: how long calls go on after the store is well again."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        if fault.small_disk:
            opened.enter_context(small_disk(directory))
        service = opened.enter_context(ServiceProcess(directory, *QUICK, *flags))
        with GroupsUnderFault(service.url) as groups:
            groups.wait(BEFORE_S)
            began_s = time.monotonic()
            with fault.happens(directory):
                begun_s = time.monotonic()
                groups.wait(fault_s)
                # as long as the store is not well, whoever asks is still concerned
                ended_s = time.monotonic()
            ready_again_s = _wait_until_well(groups, ended_s) if fault.ends else None
            groups.wait(after_s)
        service.kill()
        during = [call for call in groups.calls if begun_s <= call.began_s < ended_s]
        return MeasuredFault(
            fault.title,
            ended_s - began_s,
            groups.calls,
            during,
            ready_again_s,
            len(groups.members),
            len(groups.acknowledged),
            _start_again(service, groups),
        )


def _wait_until_well(groups: GroupsUnderFault, since_s: float) -> float | None:
    deadline_s = since_s + LONGEST_RECOVERY_S
    while time.monotonic() < deadline_s:
        well = {call.what: call for call in list(groups.calls) if call.began_s >= since_s and 200 <= call.status < 300}
        if well.keys() >= {"readyz", "declare", "change"}:
            first = {
                what: min(call.began_s + call.took_s for call in groups.calls if _is_success_since(call, what, since_s))
                for what in ("readyz", "declare", "change")
            }
            return max(first.values()) - since_s
        groups.wait(_LOOK_S)
    return None


def _is_success_since(call: Call, what: str, since_s: float) -> bool:
    return call.what == what and call.began_s >= since_s and 200 <= call.status < 300


def _start_again(service: ServiceProcess, groups: GroupsUnderFault) -> NextStart:
    before = len(service.log)
    try:
        service.start()
    except AssertionError:
        code = service.process.wait(START_TIMEOUT_S)
        said = "\n".join(line for line in service.log[before:] if not line.startswith("{"))
        return NextStart(said, code, frozenset(), {}, False, 0)
    with service.client() as client:
        _wait_until_owned(client)
        listed = client.get("/v1/groups").json()
        unreadable = {each["group_id"]: each["reason"] for each in listed["unreadable"]}
        there = {each["group_id"] for each in listed["groups"]} | unreadable.keys()
        changed = client.get(f"/v1/groups/{CONCERNED}")
        return NextStart(
            "",
            None,
            frozenset(groups.acknowledged - there),
            unreadable,
            changed.is_success and changed.json()["revision"] < groups.revision,
            sum(_is_known(client, member.path, member.member_id) for member in groups.members),
        )


def _wait_until_owned(client: httpx.Client) -> None:
    """On PostgreSQL the lease of the process that was killed has to end first."""
    deadline_s = time.monotonic() + LONGEST_RECOVERY_S
    while time.monotonic() < deadline_s:
        answers = [client.get(f"/v1/groups/{group_id}") for group_id in (CONCERNED, OTHER)]
        if not any((each.is_error and each.json()["code"] in _NOT_HERE) or each.is_redirect for each in answers):
            return
        time.sleep(_LOOK_S)


def _is_known(client: httpx.Client, path: str, member_id: str | None) -> bool:
    return client.post(f"{path}/members/{member_id}/heartbeat", json={"generation_id": -1}).is_success
