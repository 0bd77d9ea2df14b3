"""The history of a task and of a group, asked of a running coordinator and read from its database."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assignor.errors import InputError
from coordinator_api.cli import histories
from coordinator_api.cli.client import call
from coordinator_api.cli.histories import read
from tests.coordinator_api.group_members import HttpMember, new_group, settle
from tests.coordinator_api.service_process import ServiceProcess
from tests.program import assignor

TOKEN = "history"
PARTITIONS = 4


class Lived(NamedTuple):
    """A service whose one group saw three members: the second joined, then the first left."""

    service: ServiceProcess
    token_file: str
    group_id: str
    first: HttpMember
    second: HttpMember

    @property
    def last(self) -> int:
        return self.second.generation_id

    def explain(self, *arguments: str) -> str:
        where = ("--coordinator", self.service.url, "--token-file", self.token_file)
        ran = assignor("explain", *where, *arguments)
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    directory = tmp_path_factory.mktemp("history")
    token_file = directory / "token"
    token_file.write_text(TOKEN)
    flags = ("--group-initial-rebalance-delay-ms", "0", "--auth-token-file", str(token_file))
    with ServiceProcess(directory, *flags) as service, service.client(TOKEN) as client:
        group_id = new_group(
            client, partitions=PARTITIONS, configs={"num.standby.replicas": 1, "acceptable.recovery.lag": 10_000}
        )
        first = HttpMember(client, group_id, client_id="one")
        second = HttpMember(client, group_id, client_id="two", group_instance_id="second")
        first.subscribe()
        settle(first)
        second.subscribe(offset_sums={f"0_{partition}": 900 for partition in range(PARTITIONS)})
        first.subscribe()
        settle(first, second)
        assert first.leave().status_code == 204
        second.subscribe()
        settle(second)
        yield Lived(service, str(token_file), group_id, first, second)


def test_should_ask_for_the_last_rounds_only_oldest_first(lived: Lived) -> None:
    lines = list(read(lived.service.url, lived.group_id, 2, lived.token_file))

    assert [line.where for line in lines] == [
        f"{lived.service.url}:{lived.group_id}:{generation}" for generation in (lived.last - 1, lived.last)
    ]
    assert [json.loads(line.content) for line in lines] == [
        lived.first.client.get(f"{lived.first.path}/rebalances/{generation}").json()
        for generation in (lived.last - 1, lived.last)
    ]


def test_should_page_through_a_long_history(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "_MAX_PAGE", 2)
    generations = [
        json.loads(line.content)["generation_id"]
        for line in read(lived.service.url, lived.group_id, 1_000, lived.token_file)
    ]
    assert generations == list(range(1, lived.last + 1))


def test_should_tell_the_history_of_a_task(lived: Lived) -> None:
    moved = next(f"0_{partition}" for partition in range(PARTITIONS) if "held back" in changes(lived, f"0_{partition}"))
    told = lived.explain("--task", moved)

    assert told.splitlines()[0] == (
        f"group {lived.group_id}, task {moved}: {lived.last} rebalances, generations 1 to {lived.last}"
    )
    assert '(note: "member-joined")' in told
    assert f"follow-up: {moved}" in told
    assert "one is gone with one" in told
    assert "two joined with second" in told
    summary = told.partition("\n\nround robin: ")[0].rpartition("\n\n")[2].splitlines()
    assert summary[1] == "  moved      once"
    assert summary[3].startswith("  no owner   at most ")
    assert summary[4].startswith("  is now     active on two (second")
    assert summary[5] == "  waits for  nothing"


def test_should_tell_the_history_of_the_only_group_without_its_name(lived: Lived) -> None:
    told = lived.explain()

    assert told == lived.explain("--group", lived.group_id)
    assert told.splitlines()[0] == f"group {lived.group_id}: {lived.last} rebalances, generations 1 to {lived.last}"
    rebalances = told.partition("\n\nround robin: ")[0].split("\n\n")[1:-1]
    assert len(rebalances) == lived.last
    assert f"  {PARTITIONS} tasks start: 0_0 to 0_{PARTITIONS - 1}\n" in rebalances[0]
    assert "is gone with one" in rebalances[-1] or "is gone with one" in rebalances[-2]


def test_should_read_the_same_history_from_the_database_while_the_service_runs(lived: Lived) -> None:
    database = str(Path(lived.service.directory) / "assignor.sqlite3")
    asked = json.loads(lived.explain("--task", "0_1", "--last", "3", "--format", "json"))

    ran = assignor("explain", database, "--task", "0_1", "--last", "3", "--format", "json")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == asked
    assert [each["generation_id"] for each in asked["rounds"]] == list(range(lived.last - 2, lived.last + 1))
    checked = assignor("assign", "--check", database)
    assert f"equal to the byte     {lived.last} of {lived.last} (100.0 %)" in checked.stdout.splitlines()


def test_should_list_the_groups_when_there_are_several(lived: Lived) -> None:
    other = new_group(lived.first.client)
    try:
        with pytest.raises(InputError) as refused:
            next(read(lived.service.url, None, 3, lived.token_file))
        assert str(refused.value) == (
            f"--group: there are several groups, name one: {', '.join(sorted((lived.group_id, other)))}"
        )
        ran = assignor(
            "explain", "--coordinator", lived.service.url, "--token-file", lived.token_file, "--group", other
        )
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == "error: there are no recorded rebalances to tell the history of\n"
    finally:
        lived.first.client.delete(f"/v1/groups/{other}").raise_for_status()


def test_should_leave_out_a_round_that_is_dropped_while_it_reads(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(method: str, url: str, path: str, token_file: str | None, parameters: Any) -> Any:
        gone = path.endswith("/rebalances/1")
        return call(method, url, f"{path}0000" if gone else path, token_file, parameters)

    monkeypatch.setattr(histories, "call", forgetful)
    lines = read(lived.service.url, lived.group_id, 1_000, lived.token_file)
    assert [json.loads(line.content)["generation_id"] for line in lines] == list(range(2, lived.last + 1))


@pytest.mark.parametrize(
    ("group", "token", "message"),
    [
        ("silent_members-of", TOKEN, "error: GROUP_ID_NOT_FOUND: "),
        ("a/b c", TOKEN, "error: "),
        ("silent_members-of", "wrong", "error: "),
    ],
)
def test_should_pass_on_refusals(lived: Lived, tmp_path: Path, group: str, token: str, message: str) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(token)
    where = ("--coordinator", lived.service.url, "--token-file", str(token_file))
    ran = assignor("explain", *where, "--group", group)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(message)
    assert "Traceback" not in ran.stderr


def changes(lived: Lived, task: str) -> list[str]:
    told = json.loads(lived.explain("--task", task, "--last", "99", "--format", "json"))
    return [each["change"] for each in told["rounds"]]
