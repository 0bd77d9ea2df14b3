"""Groups whose log is damaged under a real coordinator: exported, repaired, led again, and joined again by members."""

import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.coordinator_api.group_members import HttpMember, definition, problem, settle, settled_member
from tests.coordinator_api.service_process import ServiceProcess, run_command
from tests.coordinator_api.store.databases import lose_the_page_of

DATABASE = "assignor.sqlite3"
QUICK = ("--group-initial-rebalance-delay-ms", "50")
GROUP = "orders"
LONG = {"x" * 40 + str(number): {"partitions": 1, "replicas": None} for number in range(60)}
"""Topics that make a definition fill a page of the file."""


class Damaged(NamedTuple):
    """`given_out`: the highest generation that the members had."""

    service: ServiceProcess
    client: httpx.Client
    members: list[HttpMember]
    given_out: int


def change(directory: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(directory / DATABASE) as connection:
        connection.execute(statement, values)
    connection.close()


def rows(directory: Path) -> list[tuple[object, ...]]:
    """Of the group's log and of the group, as bytes."""
    with sqlite3.connect(directory / DATABASE) as connection:
        found = connection.execute(
            "SELECT sequence, CAST(body AS BLOB), checksum, ends_commit FROM group_records WHERE group_id = ? "
            "UNION ALL SELECT sequence, NULL, NULL, NULL FROM groups WHERE group_id = ?",
            (GROUP, GROUP),
        ).fetchall()
    connection.close()
    return found


def statement(text: str) -> Callable[[Path], None]:
    return lambda directory: change(directory, text)


THIRD_LAST = "group_id = 'orders' AND sequence = (SELECT sequence - 2 FROM groups WHERE group_id = 'orders')"

DAMAGE: dict[str, Callable[[Path], None]] = {
    "a changed byte": statement(
        f"UPDATE group_records SET body = substr(body, 1, 30) || '#' || substr(body, 32) WHERE {THIRD_LAST}"
    ),
    "a missing tail": statement(
        "DELETE FROM group_records WHERE group_id = 'orders' "
        "AND sequence > (SELECT sequence - 3 FROM groups WHERE group_id = 'orders')"
    ),
    "a lost page": lambda directory: lose_the_page_of(directory / DATABASE, b'"revision":2,"input_json":'),
}


@contextmanager
def damaged_group(directory: Path, damage: Callable[[Path], None]) -> Iterator[Damaged]:
    """Its members had five generations or more. Another group was there all the time."""
    service = ServiceProcess(directory, *QUICK)
    with service:
        with service.client() as client:
            client.put(f"/v1/groups/{GROUP}", json=definition())
            members = [HttpMember(client, GROUP) for _ in range(2)]
            for member in members:
                assert member.subscribe().status_code == 201
            settle(*members)
            for revision in (2, 3):
                changed = {**definition()["existing_internal_topics"], **LONG}
                configs = {"num.standby.replicas": 0, "acceptable.recovery.lag": 100 * revision}
                declared = client.put(
                    f"/v1/groups/{GROUP}", json=definition(existing_internal_topics=changed, configs=configs)
                )
                assert declared.json()["revision"] == revision
                settle(*members)
            client.put("/v1/groups/other", json=definition(existing_internal_topics=LONG))
            client.put("/v1/groups/another", json=definition())
        service.kill()
        # what is in the log of the database beside it goes into the file itself
        change(directory, "PRAGMA wal_checkpoint(TRUNCATE)")
        damage(directory)
        service.start()
        with service.client() as client:
            for member in members:
                member.client = client
            yield Damaged(service, client, members, max(member.generation_id for member in members))


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "a lost page" else pytest.mark.long) for kind in DAMAGE]
)
def test_should_lead_a_group_again_after_its_damaged_log_was_repaired(tmp_path: Path, kind: str) -> None:
    with damaged_group(tmp_path, DAMAGE[kind]) as (service, client, members, given_out):
        listed, ready = client.get("/v1/groups").json(), client.get("/readyz")
        shown = run_command(tmp_path, "groups", "list", "--coordinator", service.url).stdout
        refused = [members[0].heartbeat(), client.delete(f"/v1/groups/{GROUP}")]
        log = client.get(f"/v1/groups/{GROUP}/log").json()
        before = None if kind == "a lost page" else rows(tmp_path)
        planned = client.post(f"/v1/groups/{GROUP}/repair").json()
        assert before is None or rows(tmp_path) == before, "a dry run changes nothing"
        assert client.get(f"/v1/groups/{GROUP}/log").json() == log
        done = client.post(f"/v1/groups/{GROUP}/repair", params={"execute": "true"}).json()
        found = client.get(f"/v1/groups/{GROUP}").json()
        heard = [member.heartbeat() for member in members]
        strangers = [HttpMember(client, GROUP) for _ in members]
        for member in strangers:
            assert member.subscribe().status_code == 201
        settle(*strangers)
        again = client.post(f"/v1/groups/{GROUP}/repair", params={"execute": "true"})
        whole = client.get(f"/v1/groups/{GROUP}/log").json()

        service.kill()
        service.start()
        with service.client() as reopened:
            after = [HttpMember.heartbeat(_moved(member, reopened)).json()["generation_id"] for member in strangers]
            assert reopened.get(f"/v1/groups/{GROUP}/log").json() == whole, "kill -9 changes nothing of it"

    assert [each["group_id"] for each in listed["unreadable"]] == [GROUP]
    assert {each["group_id"] for each in listed["groups"]} == {"other", "another"}
    assert (ready.status_code, ready.json()["parts"]) == (200, {"store": "ok", "groups": "some cannot be read"})
    assert f"{GROUP} is not led: the log of group {GROUP} is damaged" in " ".join(shown.split())
    assert [problem(each) for each in refused] == [(503, "KAFKA_STORAGE_ERROR")] * 2
    assert f"`assignor groups export {GROUP}` saves the log" in refused[0].json()["detail"]
    assert (log["format"], log["group_id"]) == ("group-log/1", GROUP)
    assert log["problem"] in listed["unreadable"][0]["reason"]
    assert (planned["executed"], planned["problem"]) == (False, log["problem"])
    assert {**planned, "executed": True, "advice": done["advice"]} == done
    assert done["dropped"]["records"] > 0
    assert {member.member_id for member in members} <= set(done["dropped"]["members"])
    assert done["kept"]["generation_id"] <= given_out < done["generation_id"]
    assert (found["state"], found["generation_id"]) == ("Empty", done["generation_id"])
    assert found["revision"] == done["kept"]["revision"]
    assert [problem(each) for each in heard] == [(404, "UNKNOWN_MEMBER_ID")] * 2
    assert min(member.generation_id for member in strangers) > given_out
    assert sorted(task for member in strangers for task in member.active) == ["0_0", "0_1", "0_2", "0_3"]
    assert after == [member.generation_id for member in strangers]
    assert problem(again) == (409, "INCONSISTENT_GROUP_PROTOCOL")
    assert again.json()["detail"] == f"the log of group {GROUP} can be read: there is nothing to repair"
    assert whole["problem"] is None
    assert all(record["intact"] for record in whole["records"])


def _moved(member: HttpMember, client: httpx.Client) -> HttpMember:
    member.client = client
    return member


def first_record_is_gone(directory: Path) -> None:
    change(directory, "UPDATE group_records SET body = 'x' WHERE group_id = 'orders' AND sequence = 1")


@pytest.mark.long
def test_should_say_what_to_do_when_nothing_of_a_log_can_be_kept(tmp_path: Path) -> None:
    with damaged_group(tmp_path, first_record_is_gone) as (service, client, _, _):
        repair = client.post(f"/v1/groups/{GROUP}/repair", params={"execute": "true"})
        listed = client.get("/v1/groups").json()["unreadable"]
        said = run_command(tmp_path, "groups", "repair", GROUP, "--coordinator", service.url)
        deleted = run_command(tmp_path, "groups", "delete", GROUP, "--force", "--coordinator", service.url)
        gone = [client.get(f"/v1/groups/{GROUP}"), client.get(f"/v1/groups/{GROUP}/log")]
        declared = client.put(f"/v1/groups/{GROUP}", json=definition())

    assert problem(repair) == (409, "CORRUPT_MESSAGE")
    assert [each["group_id"] for each in listed] == [GROUP]
    assert (said.returncode, "restore a backup, or delete the group" in " ".join(said.stderr.split())) == (1, True)
    assert (deleted.returncode, deleted.stdout) == (0, f"{GROUP}: deleted\n")
    assert [problem(each) for each in gone] == [(404, "GROUP_ID_NOT_FOUND")] * 2
    assert (declared.status_code, declared.json()["revision"]) == (201, 1)


def test_should_save_and_repair_a_log_from_a_shell(tmp_path: Path) -> None:
    def assignor(*arguments: str) -> Any:
        return run_command(tmp_path, "groups", *arguments, "--coordinator", service.url)

    with damaged_group(tmp_path, DAMAGE["a changed byte"]) as (service, client, _, _):
        exported = assignor("export", GROUP, "--output", "orders-log.json")
        twice = assignor("export", GROUP, "--output", "orders-log.json")
        printed = json.loads(assignor("export", GROUP).stdout)
        planned = assignor("repair", GROUP)
        executed = assignor("repair", GROUP, "--execute")
        led = client.get(f"/v1/groups/{GROUP}")
    file = tmp_path / "orders-log.json"
    log = json.loads(file.read_text(encoding="ascii"))
    bad = [record["sequence"] for record in log["records"] if not record["intact"]]

    assert exported.returncode == planned.returncode == executed.returncode == 0, planned.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert log == printed
    assert len(bad) == 1
    assert "the whole log as it is stored. It cannot be read: record " in exported.stdout
    assert twice.returncode == 2
    assert "exists already, and may be an earlier copy of the log: name another file" in " ".join(twice.stderr.split())
    plan = " ".join(planned.stdout.split())
    assert plan.startswith(f"{GROUP}: its log cannot be read: record {bad[0]} has been changed")
    assert "2 members have to join again, and do so by themselves." in plan
    assert f"Nothing has been changed. Save the log first: assignor groups export {GROUP} --output" in plan
    assert "The group is led again. Its members join again by themselves." in " ".join(executed.stdout.split())
    assert led.json()["state"] == "Empty"


def test_should_end_requests_of_a_group_whose_damage_is_found_late_and_lose_nothing(
    tmp_path: Path,
) -> None:
    """The log of one group is damaged while it is led. Another program then makes each write fail, so that the group is
    read again.
    """
    with ServiceProcess(tmp_path, *QUICK) as service, service.client() as client, ThreadPoolExecutor() as threads:
        members = []
        for group_id in (GROUP, "other"):
            client.put(f"/v1/groups/{group_id}", json=definition())
            member = settled_member(client, group_id)
            members.append(member)
        member, of_another = members
        change(tmp_path, CUT + "sequence = 3")
        planned = client.post(f"/v1/groups/{GROUP}/repair").json()
        repaired = client.post(f"/v1/groups/{GROUP}/repair", params={"execute": "true"}).json()
        assert member.heartbeat().json()["generation_id"] == member.generation_id, "it still is a member"
        assert client.get(f"/v1/groups/{GROUP}/log").json()["problem"] is None

        change(tmp_path, CUT + "body LIKE '%GroupRestored%'")
        change(tmp_path, FAILS)
        held = threads.submit(member.fetch, min_generation=member.generation_id + 1)
        refused = client.post(f"/v1/groups/{GROUP}/drain")
        change(tmp_path, "DROP TRIGGER fails")
        waits = held.result()
        after = [member.heartbeat(), client.post(f"/v1/groups/{GROUP}/drain")]
        listed = client.get("/v1/groups").json()
        others = of_another.heartbeat().json()
        saved = client.post(f"/v1/groups/{GROUP}/repair", params={"execute": "true"}).json()
        unknown = member.heartbeat()

    assert (planned["executed"], repaired["executed"]) == (False, True)
    assert (repaired["dropped"]["records"], repaired["dropped"]["members"]) == (0, [])
    assert repaired["advice"] == "The group is led, and nothing was lost."
    assert problem(refused) == (503, "KAFKA_STORAGE_ERROR")
    assert waits.status_code in (204, 503), "it was not held any longer"
    assert [problem(each) for each in after] == [(503, "KAFKA_STORAGE_ERROR")] * 2
    assert [each["group_id"] for each in listed["unreadable"]] == [GROUP]
    assert [each["group_id"] for each in listed["groups"]] == ["other"]
    assert others["generation_id"] == of_another.generation_id
    assert saved["generation_id"] > member.generation_id
    assert problem(unknown) == (404, "UNKNOWN_MEMBER_ID")


CUT = "UPDATE group_records SET body = substr(body, 1, 20) WHERE group_id = 'orders' AND "
FAILS = (
    "CREATE TRIGGER fails BEFORE INSERT ON group_records WHEN NEW.group_id = 'orders' "
    "BEGIN SELECT RAISE(FAIL, 'disk I/O error'); END"
)
