"""`assignor groups`, `assignor rebalances` and `assignor migrate`, against a running coordinator."""

import itertools
import json
import os
import re
import subprocess
import threading
from pathlib import Path
from unittest import mock

import httpx
import pytest

from assignor.errors import InputError
from assignor_cli.tables import View
from coordinator_api.cli.client import call
from coordinator_api.cli.group_commands import ended_instances
from coordinator_api.cli.rebalance_commands import rebalance_list
from coordinator_api.settings import setting_rows
from tests import program
from tests.coordinator_api.group_members import HttpMember, new_group, settle, settled_member
from tests.coordinator_api.service_process import ServiceProcess, clean_environment
from tests.program import PROGRAM
from tests.streams_runtime.stub_service import Answer, sent_on, stub_service
from tests.waiting import wait_until

NOBODY = "http://127.0.0.1:1"


def assignor(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    others = {
        name: value for name, value in os.environ.items() if name not in {row.environment for row in setting_rows()}
    }
    with mock.patch.dict(os.environ, {**others, **(environment or {})}, clear=True):
        ran = program.assignor(*arguments)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def member(client: httpx.Client) -> HttpMember:
    return settled_member(client, new_group(client, partitions=2), client_id="worker-1")


def group_of(member: HttpMember) -> str:
    return member.path.rpartition("/")[2]


def test_should_list_groups_as_a_table_and_as_json(service: ServiceProcess, member: HttpMember) -> None:
    wide = {"COLUMNS": "200"}  # groups of other tests may have long names
    code, text, _ = assignor("groups", "list", "--coordinator", service.url, environment=wide)
    json_code, as_json, _ = assignor("groups", "list", "--coordinator", service.url, "--format", "json")

    assert (code, json_code) == (0, 0)
    assert text.split()[:4] == ["NAME", "STATE", "HEALTH", "GENERATION"]
    assert re.search(rf"^{group_of(member)} +Stable +ok +1 +1 +(- +)*[0-9]+s$", text, re.MULTILINE)
    assert json.loads(as_json) == member.client.get("/v1/groups").json()


def test_should_describe_a_group(service: ServiceProcess, member: HttpMember) -> None:
    code, text, said = assignor("groups", "describe", group_of(member), "--coordinator", service.url)

    assert (code, said) == (0, "")
    assert text.startswith(f"{group_of(member)}: Stable, generation 1, HighAvailabilityTaskAssignor\n")
    assert re.search(r"^0_1 +active +1000 +worker-1$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80
    wide = assignor("groups", "describe", group_of(member), "--coordinator", service.url, "-o", "wide")[1]
    assert re.search(rf"^0_1 +active +(- +)*1000 +- +{member.member_id} +[0-9a-f-]{{36}}$", wide, re.MULTILINE)


def test_should_say_what_to_do_about_a_group_without_members(service: ServiceProcess, client: httpx.Client) -> None:
    group_id = new_group(client, partitions=2)
    where = ("groups", "describe", group_id, "--coordinator", service.url, "-o", "wide")
    assert "\nwhat to do:   Start instances, and give them the address of this coordinator." in assignor(*where)[1]

    member = settled_member(client, group_id, client_id="worker-1")
    assert "what to do" not in assignor(*where)[1]

    member.leave()
    assert "\ndegraded:     No instance is left, so nothing is processed: " in assignor(*where)[1]


def test_should_end_a_check_by_the_health_of_the_group(
    service: ServiceProcess, client: httpx.Client, member: HttpMember
) -> None:
    where = ("groups", "describe", group_of(member), "--coordinator", service.url, "--check")
    assert assignor(*where)[0] == 0

    assert client.post(f"{member.path}/pause").status_code == 204
    code, text, said = assignor(*where)
    assert (code, said) == (1, "")
    assert re.search(r"^degraded: +An operator has paused the group. \(since \d+s ago\)$", text, re.MULTILINE)
    assert f"assignor groups resume {group_of(member)}`." in " ".join(text.split())

    client.post(f"{member.path}/resume")
    member.leave()
    assert assignor(*where)[0] == 1
    listed = assignor("groups", "list", "--coordinator", service.url, environment={"COLUMNS": "200"})[1]
    assert re.search(rf"^{group_of(member)} +Empty +degraded .* No instance is left", listed, re.MULTILINE)
    code, _, said = assignor(*where, "--watch")
    assert (code, said) == (2, "error: --check: looks once, and --watch looks until Ctrl-C: give one of them\n")


def test_should_show_how_instances_ended_the_newest_first(service: ServiceProcess, client: httpx.Client) -> None:
    group_id = new_group(client, partitions=2)
    members = [HttpMember(client, group_id, client_id=f"words-{n}-StreamThread-1") for n in range(7)]
    for member in members:
        member.subscribe()
    failure = {"error": "ValueError", "message": "no amount in '\x1b[31mx'", "place": "orders.py:12, in to_amount"}
    for member in members[:-1]:
        member.leave()
    members[-1].leave(failure={**failure, "task": "0_1"})
    where = ("groups", "describe", group_id, "--coordinator", service.url)

    narrow = assignor(*where)[1].partition("\nENDED INSTANCES")[2]
    wide = assignor(*where, "-o", "wide")[1].partition("\nENDED INSTANCES\n")[2]

    assert narrow.startswith(" (the newest 5 of 7; -o wide shows all)\n")
    assert max(map(len, narrow.splitlines())) <= 80
    assert re.search(r"^AGO +INSTANCE +PROCESS +HOW +ERROR +PLACE +TASK$", narrow, re.MULTILINE)
    assert len(wide.splitlines()) == 1 + len(members)
    newest, *_, oldest = (re.split(" {2,}", line.strip()) for line in wide.splitlines()[1:])
    assert newest[1:4] == ["words-6", members[-1].process_id, "failed"]
    assert newest[4:] == ["ValueError: no amount in ' [31mx'", "orders.py:12, in to_amount", "0_1"]
    assert oldest[1:] == ["words-0", members[0].process_id, "stopped", "-", "-", "-"]


@pytest.mark.parametrize(
    ("end", "how", "error"),
    [
        ({}, "stopped", "-"),
        ({"error": "KeyError", "message": "", "reason": "disconnected"}, "failed", "KeyError"),
        ({"reason": "session-expired"}, "killed or lost (session expired)", "left no error"),
        ({"reason": "disconnected", "present": True}, "killed or lost (connection broke), back", "left no error"),
        ({"reason": "of-a-later-release"}, "of-a-later-release", "left no error"),
    ],
)
def test_should_say_in_plain_words_how_an_instance_ended(end: dict[str, object], how: str, error: str) -> None:
    nothing: dict[str, object] = dict.fromkeys(("client_id", "error", "message", "place", "task"))
    usual = {"process_id": "p", "at_ms": 0, "reason": "left", "present": False}
    row = ended_instances({"ends": [{**nothing, **usual, **end}]}, View(200))[-1].splitlines()[-1]
    assert re.split(" {2,}", row.strip())[3:5] == [how, error]


def test_should_show_how_far_warm_ups_are(service: ServiceProcess, client: httpx.Client, member: HttpMember) -> None:
    second = HttpMember(client, group_of(member), client_id="worker-2")
    second.subscribe()
    member.subscribe()
    settle(member, second)

    shown = assignor("groups", "describe", group_of(member), "--coordinator", service.url)[1]

    assert "s), 1 warm-up restores, up to 1,000 records are left" in " ".join(shown.split())
    assert re.search(r"TASK +ROLE +STATE LAG +MEMBER$", shown, re.MULTILINE), "no speed is known"


def test_should_show_the_time_that_a_restore_takes(service: ServiceProcess, member: HttpMember) -> None:
    read = itertools.count(1)

    def known() -> object:
        assert member.heartbeat(task_offset_sums={"0_0": next(read), "0_1": -2}).status_code == 200
        return {copy["task"]: copy["left_ms"] for copy in member.client.get(member.path).json()["tasks"]}["0_0"]

    wait_until(known, "a time left")
    where = ("groups", "describe", group_of(member), "--coordinator", service.url)
    _, shown, _ = assignor(*where)
    _, document, _ = assignor(*where, "-o", "json")

    restoring, running = json.loads(document)["tasks"]
    # up to 1,000 of 1,000 records are left, and some were read in a second
    assert 1_000 < restoring["left_ms"] < 1_000_000
    assert running["left_ms"] is None
    assert re.search(r"^TASK +ROLE +STATE LAG +TIME LEFT +MEMBER$", shown, re.MULTILINE)
    assert re.search(r"^0_0 +active +9[0-9]+ +about [0-9]+ (s|min.*) +worker-1$", shown, re.MULTILINE)
    assert re.search(r"^0_1 +active +running +- +worker-1$", shown, re.MULTILINE)


def test_should_list_and_show_rebalances(service: ServiceProcess, member: HttpMember, tmp_path: Path) -> None:
    where = (group_of(member), "--coordinator", service.url)
    _, listed, _ = assignor("rebalances", "list", *where)
    _, shown, _ = assignor("rebalances", "show", *where[:1], "1", *where[1:])
    _, one, _ = assignor("rebalances", "show", *where[:1], "1", "--task", "0_1", *where[1:])
    code, recorded, _ = assignor("rebalances", "show", *where[:1], "1", "--format", "json", *where[1:])
    file = tmp_path / "recorded.jsonl"
    file.write_text(recorded, encoding="utf-8")

    assert re.search(r"^ +1  member-joined  stable +1  [0-9]+s$", listed, re.MULTILINE)
    assert shown.startswith(f"group {where[0]}: 1 rebalance, generation 1\n")
    assert "trigger" in shown
    assert one.startswith(f"group {where[0]}, task 0_1: 1 rebalance, generation 1\n")
    assert max(map(len, (shown + one).splitlines())) <= 80
    assert code == 0
    assert json.loads(recorded)["format"] == "rebalance/1"
    assert assignor("assign", "--check", str(file))[0] == 0


def test_should_drain_and_delete_a_group(service: ServiceProcess, member: HttpMember) -> None:
    where = (group_of(member), "--coordinator", service.url)
    drained = assignor("groups", "drain", *where)
    refused = assignor("groups", "delete", *where)
    assert member.heartbeat().json()["stop"] is True
    member.leave()
    deleted = assignor("groups", "delete", *where, "--format", "json")

    assert drained == (0, f"{group_of(member)}: the coordinator tells every member to stop\n", "")
    assert refused[:2] == (1, "")
    assert refused[2].startswith("error: NON_EMPTY_GROUP: ")
    assert deleted == (0, f'{{"group_id":"{group_of(member)}","deleted":true}}\n', "")


def test_should_show_for_how_long_a_member_may_stay_away(service: ServiceProcess, member: HttpMember) -> None:
    group, where = group_of(member), ("--coordinator", service.url)
    assert assignor("groups", "grace", group, "60s", *where)[0] == 0
    member.leave()

    _, away, _ = assignor("groups", "describe", group, *where)
    refused = [
        assignor("groups", "grace", group, *words, *where)
        for words in ((), ("60s", "--off"), ("soon",), ("60",), ("500ms",))
    ]

    assert re.search(r" AWAY FOR ", away)
    assert re.search(r" ([3-5][0-9]s|1m|1m0s) ", away)
    assert [code for code, _, _ in refused] == [2, 2, 2, 2, 1]
    assert "must be a duration such as 60s, 10m or 1h30m, not 'soon'" in refused[2][2]
    assert refused[4][2].startswith("error: INVALID_REQUEST: ")


def test_should_say_the_services_refusal_in_one_line(service: ServiceProcess) -> None:
    assert assignor("groups", "describe", "nobody", "--coordinator", service.url) == (
        1,
        "",
        "error: GROUP_ID_NOT_FOUND: there is no group nobody: "
        "`assignor workers run` declares it, or PUT /v1/groups/nobody\n",
    )


def test_should_follow_a_redirect_with_query_and_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n", encoding="utf-8")
    nothing = Answer(200, {"rebalances": [], "next_before": None})
    with stub_service(nothing) as owner, stub_service(sent_on(owner.url)) as other:
        where = ("--coordinator", other.url, "--token-file", str(tmp_path / "token"))
        _, _, said = assignor("explain", "--group", "a/b", "--last", "3", *where)

    assert said == "error: there are no recorded rebalances to tell the history of\n"
    assert owner.asked == other.asked
    assert owner.asked[0].path == "/v1/groups/a%2Fb/rebalances?limit=4"
    assert owner.asked[0].authorization == "Bearer t0ken"


def test_should_ask_one_address_after_the_other(service: ServiceProcess, member: HttpMember) -> None:
    with stub_service(Answer(503, {"code": "COORDINATOR_NOT_AVAILABLE"})) as not_ready:
        several = f"{NOBODY},{not_ready.url},{service.url}"
        one = assignor("groups", "describe", group_of(member), "--coordinator", service.url, "-o", "json")
        assert assignor("groups", "describe", group_of(member), "--coordinator", several, "-o", "json") == one


@pytest.mark.parametrize("urls", [NOBODY, f"{NOBODY},http://127.0.0.1:2"], ids=["one address", "several"])
def test_should_name_all_addresses_in_one_line_when_none_answers(urls: str) -> None:
    code, result, said = assignor("groups", "list", "--coordinator", urls)

    assert (code, result) == (2, "")
    each = ", ".join(rf"{url} \([^()]*refused[^()]*\)" for url in urls.split(","))
    start = "start one with `assignor serve`, or name it by --coordinator"
    assert re.fullmatch(f"error: no coordinator answers at {each}: {start}\n", said)


def test_should_name_the_address_that_this_machine_could_not_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address refuses as a service that is down does; at the second one the process has no file left."""

    def fails(_http: httpx.Client, _method: str, url: str, **_more: object) -> httpx.Response:
        raise httpx.ConnectError("[Errno 24] Too many open files" if ":2/" in url else "[Errno 111] Connection refused")

    monkeypatch.setattr(httpx.Client, "request", fails)
    with pytest.raises(InputError) as refused:
        call("GET", "http://127.0.0.1:1,http://127.0.0.1:2", "/v1/groups", None, {})
    assert str(refused.value).startswith("http://127.0.0.1:2: cannot be asked: [Errno 24] Too many open files; raise")


def test_should_name_where_a_call_was_sent_on_to_when_nobody_is_there() -> None:
    with stub_service(sent_on(NOBODY)) as other:
        code, _, said = assignor("groups", "list", "--coordinator", other.url)

    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"error: no coordinator answers at {other.url} (sends the call on to {NOBODY}), {NOBODY} (")


def test_should_name_the_bad_one_of_several_addresses() -> None:
    assert assignor("groups", "list", "--coordinator", "http://a:1,b:1") == (
        2,
        "",
        "error: --coordinator: address 2 of 2 must be a URL such as http://127.0.0.1:8080, not 'b:1'\n",
    )


def test_should_not_take_another_server_for_a_coordinator() -> None:
    for command in (("groups", "list"), ("rebalances", "list", "orders"), ("explain",)):
        code, _, said = assignor(*command, "--coordinator", "not-an-address")
        assert (code, said.count("\n")) == (2, 1)


def test_should_send_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken\n", encoding="utf-8")
    with stub_service(Answer(document={"groups": []})) as service:
        where = ("groups", "list", "--coordinator", service.url)
        by_file = assignor(*where, "--token-file", str(tmp_path / "token"))
        by_variable = assignor(*where, environment={"ASSIGNOR_AUTH_TOKEN": "t0ken"})

    assert by_file == by_variable == (0, "No groups.\n", "")
    assert [each.authorization for each in service.asked] == ["Bearer t0ken"] * 2


def test_should_migrate_an_empty_database_and_find_nothing_to_do_after(tmp_path: Path) -> None:
    url = ("--database-url", f"sqlite:///{tmp_path / 'm.sqlite3'}")

    assert assignor("migrate", *url) == (0, "schema 0005: upgraded from nothing\n", "")
    assert assignor("migrate", *url) == (0, "schema 0005: nothing to do\n", "")
    assert assignor("migrate", *url, "--format", "json") == (0, '{"schema_before":"0005","schema":"0005"}\n', "")


def test_should_be_commands_of_the_installed_program(tmp_path: Path) -> None:
    done = subprocess.run(
        (*PROGRAM, "migrate"), cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "schema 0005: upgraded from nothing\n")
    assert (tmp_path / "assignor.sqlite3").exists()


def test_should_list_how_a_wait_for_approval_ended() -> None:
    line = {"generation_id": 7, "reason": "member-left", "outcome": "stable", "members": 2, "now_ms": 5, "error": None}
    hold = {"ended": "time-limit", "by": None, "reason": None, "since_ms": 1_000, "at_ms": None}

    told = rebalance_list({"rebalances": [{**line, "hold": hold}, line]}, View(width=200, now_ms=10))

    waited, other = told.splitlines()[1:]
    assert " Held, then carried out when its time limit had passed.  " in waited
    assert other.split() == ["7", "member-left", "stable", "2", "-", "0s"]


def test_should_create_the_file_of_an_export_before_anything_is_fetched(tmp_path: Path) -> None:
    there, nowhere, new = tmp_path / "log.json", tmp_path / "nowhere" / "log.json", tmp_path / "new.json"
    there.write_text("an earlier copy", encoding="ascii")

    def export(file: Path) -> tuple[int, str]:
        code, _, said = assignor("groups", "export", "orders", "--output", str(file), "--coordinator", NOBODY)
        return code, " ".join(said.split())

    twice, unwritable, unfetched = export(there), export(nowhere), export(new)

    assert (twice[0], unwritable[0], unfetched[0]) == (2, 2, 2)
    assert "exists already, and may be an earlier copy of the log: name another file" in twice[1]
    assert "cannot be written: No such file or directory" in unwritable[1]
    assert "no coordinator answers" in unfetched[1]
    assert there.read_text(encoding="ascii") == "an earlier copy"
    assert list(tmp_path.iterdir()) == [there]


def test_should_export_under_a_name_whose_earlier_export_was_killed(tmp_path: Path) -> None:
    file, never = tmp_path / "log.json", threading.Event()
    with stub_service(Answer(after=never), Answer(document={"records": [], "problem": None})) as service:
        export = ("groups", "export", "orders", "--output", str(file), "--coordinator", service.url)
        with subprocess.Popen([*PROGRAM, *export], env=program.environment()) as killed:
            service.wait_until_asked(1)
            beside = list(tmp_path.iterdir())
            killed.terminate()
        again = assignor(*export)
        never.set()

    assert killed.returncode != 0
    assert [each.suffix for each in beside] == [".partial"]
    assert again[0] == 0, again
    assert json.loads(file.read_bytes()) == {"records": [], "problem": None}


def test_should_not_replace_a_file_that_was_made_while_a_log_was_fetched(tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    answer = Answer(document={"records": [], "problem": None}, first=lambda: file.write_text("another", "ascii"))
    with stub_service(answer) as service:
        code, _, said = assignor("groups", "export", "orders", "--output", str(file), "--coordinator", service.url)

    assert (code, "exists already" in said, file.read_text("ascii")) == (2, True, "another")
    assert list(tmp_path.iterdir()) == [file]
