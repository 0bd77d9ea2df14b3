"""A store that fails under a real coordinator with a member: what is answered, who waits, and what survives."""

import re
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic

import pytest

from benchmarks.storage_faults.faults import SQLITE_FAULTS
from benchmarks.storage_faults.group import Call
from benchmarks.storage_faults.measuring import MeasuredFault
from benchmarks.storage_faults.running import POSTGRESQL, measure_named
from tests.coordinator_api.group_members import definition, problem, settled_member
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.coordinator_api.service_process import ServiceProcess

DATABASE = "assignor.sqlite3"
SMALLEST_FILE = 4_096
AT_ONCE_S = 2.0
LONGER_THAN_A_SESSION_S = 11.0
SHORT_S = 1.0
LONGEST_HEARTBEAT_S = 5.0
"""On a busy machine; what is measured on an idle one is in the documentation."""

LOOP_IS_BEHIND = re.compile(r"the service is overloaded: it is \d+ ms behind")

QUICK = ("--group-initial-rebalance-delay-ms", "50", "--sqlite-busy-timeout-ms", "1000")

Fault = Callable[[ServiceProcess], AbstractContextManager[None]]


@contextmanager
def file_is_gone(service: ServiceProcess) -> Iterator[None]:
    file = service.directory / DATABASE
    file.rename(service.directory / "elsewhere")
    yield
    (service.directory / "elsewhere").rename(file)


@contextmanager
def database_is_locked(service: ServiceProcess) -> Iterator[None]:
    other_program = sqlite3.connect(service.directory / DATABASE, isolation_level=None)
    other_program.execute("BEGIN IMMEDIATE")
    yield
    other_program.execute("ROLLBACK")
    other_program.close()


@contextmanager
def disk_is_full(service: ServiceProcess) -> Iterator[None]:
    """The kernel lets none of the service's files grow."""
    before = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (SMALLEST_FILE, resource.RLIM_INFINITY))
    yield
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "fault, why",
    [
        (file_is_gone, "its file was deleted or replaced while the service was using it"),
        pytest.param(database_is_locked, "it is locked by another program", marks=pytest.mark.long),
        (disk_is_full, "its disk cannot be used (an I/O error)"),
    ],
)
def test_should_take_nothing_that_it_cannot_keep_and_keep_its_members(tmp_path: Path, fault: Fault, why: str) -> None:
    with ServiceProcess(tmp_path, *QUICK) as service, service.client() as client:
        client.put("/v1/groups/g", json=definition())
        member = settled_member(client, "g")

        with fault(service):
            refused = [client.put(f"/v1/groups/new-{number}", json=definition()) for number in range(3)]
            refused.append(client.put("/v1/groups/g/hold", json={"time_limit_ms": 60_000}))
            refused.append(client.post("/v1/tokens", json={"name": "first", "right": "admin", "groups": "*"}))
            began_s = monotonic()
            beats = [member.heartbeat() for _ in range(5)]
            took_s = monotonic() - began_s
            ready = client.get("/readyz")
            alive = client.get("/livez")

        wait_for(lambda: client.get("/readyz").status_code == 200)
        declared = client.put("/v1/groups/after", json=definition())
        hold = client.get("/v1/groups/g").json()["levers"]["hold"]
        service.kill()

    assert [problem(each) for each in refused] == [(503, "KAFKA_STORAGE_ERROR")] * 5
    assert {each.json()["detail"] for each in refused} == {NOT_STORED + why}
    assert [each.status_code for each in beats] == [200] * 5
    assert took_s < AT_ONCE_S
    assert problem(ready) == (503, "COORDINATOR_NOT_AVAILABLE")
    assert ready.json()["parts"]["store"] == why
    assert alive.status_code == 200
    assert declared.status_code == 201, "a token whose creation was refused closes no service"
    assert hold is None
    with ServiceProcess(tmp_path) as service, service.client() as client:
        listed = client.get("/v1/groups").json()
        assert {each["group_id"] for each in listed["groups"]} == {"g", "after"}
        assert listed["unreadable"] == []
        assert client.get("/v1/groups/g").json()["levers"]["hold"] is None
        assert client.get("/v1/tokens").json()["tokens"] == []


NOT_STORED = "the change could not be stored, so it does not count: "


def measured(name: str, directory: Path, fault_s: float) -> MeasuredFault:
    found = measure_named(name, directory / "coordinator", fault_s, SHORT_S)
    if isinstance(found, str):
        pytest.skip(f"{name}: {found}")
    return found


def check_that_others_go_on(found: MeasuredFault) -> None:
    """Members, and whoever reads another group; and nothing of the fault is unexpected to the service."""
    beats = found.named("heartbeat")
    assert beats
    assert {call.status for call in beats} == {200}
    assert {call.status for call in _let_in(found) if call.what == "read"} == {200}
    check_that_nobody_suffers(found)


def check_that_nobody_suffers(found: MeasuredFault) -> None:
    beats = found.named("heartbeat")
    assert max(call.took_s for call in beats) < LONGEST_HEARTBEAT_S
    assert found.evicted == 0
    assert {call.status for call in _let_in(found)} <= {200, 201, 202, 204, 409, 503}, "nothing unexpected"


def _let_in(found: MeasuredFault) -> list[Call]:
    """A busy machine keeps the event loop waiting, and then reads are refused, as without a fault."""
    return [call for call in found.calls if not LOOP_IS_BEHIND.match(call.said)]


NO_LEASE = {"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}

ENDING = sorted({name for name, fault in SQLITE_FAULTS.items() if fault.ends} | {POSTGRESQL})


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
@pytest.mark.parametrize("name", ENDING)
def test_should_lose_nothing_and_nobody_by_a_fault_that_ends(tmp_path: Path, name: str) -> None:
    found = measured(name, tmp_path, LONGER_THAN_A_SESSION_S)

    if name == POSTGRESQL:  # once its lease has ended, another coordinator might own the groups
        check_that_nobody_suffers(found)
        beats = found.named("heartbeat")
        assert {call.code for call in beats if call.status != 200} <= NO_LEASE
    else:
        check_that_others_go_on(found)
    refused = [call for call in found.during if call.what in ("declare", "change") and call.status == 503]
    assert {call.code for call in refused} <= {"KAFKA_STORAGE_ERROR", *NO_LEASE}
    if name != "read-only-directory":  # the coordinator has everything open that it needs
        assert refused
        assert 503 in {call.status for call in found.named("readyz")}
    assert found.ready_again_s is not None, "the service goes on by itself"
    start = found.next_start
    assert (start.refused, start.lost, start.unreadable, start.is_behind) == ("", frozenset(), {}, False)
    assert start.members_kept == found.members


@pytest.mark.long
def test_should_not_start_without_what_it_had_answered(tmp_path: Path) -> None:
    found = measured("corrupted-log", tmp_path, SHORT_S * 3)

    check_that_others_go_on(found)
    assert found.next_start.exit_code == 2
    assert "is damaged, and commits come after that. Restore a backup" in found.next_start.refused
    assert len(found.next_start.refused.splitlines()) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", ["truncated", "emptied"])
def test_should_take_nothing_more_once_its_file_was_cut_short(tmp_path: Path, name: str) -> None:
    found = measured(name, tmp_path, SHORT_S * 3)

    check_that_others_go_on(found)
    changes = [call for call in found.during if call.what in ("declare", "change")]
    assert {(call.status, call.said) for call in changes} == {
        (503, f"{NOT_STORED}its file was cut short while the service was using it")
    }


@pytest.mark.long
@pytest.mark.parametrize("name", ["corrupted", "truncated-record"])
def test_should_name_at_the_next_start_what_is_damaged_and_lose_nothing_else(tmp_path: Path, name: str) -> None:
    found = measured(name, tmp_path, SHORT_S * 3)

    check_that_others_go_on(found)
    assert found.next_start.refused == ""
    assert found.next_start.lost == frozenset()
    damaged = set(found.next_start.unreadable)
    assert "concerned" in damaged
    # bytes in the middle of every page can be the other group's as well; a record of one group cannot
    assert damaged == {"concerned"} or name == "corrupted"
    assert found.next_start.members_kept == (0 if "other" in damaged else found.members // 2), "of the other group"
