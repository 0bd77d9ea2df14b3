"""Pages that ask a coordinator: each of their commands is understood there and succeeds, in the order of the page.

The pages: stop-an-application.md, steer-a-group.md, watch-a-group.md, find-lost-records.md, history.md, what-if.md,
find-out-why-a-task-moved.md, find-out-why-nothing-is-processed.md, see-how-far-behind-it-is.md,
find-out-why-a-group-rebalances.md.
"""

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import program
from tests.checkout import ROOT
from tests.coordinator_api.group_members import HttpMember, definition, settle, settled_member
from tests.coordinator_api.reported_rebalances import reported
from tests.coordinator_api.service_process import ServiceProcess
from tests.docs.command_lines import calls_of_assignor, command_lines
from tests.docs.pages import blocks
from tests.recorded import documents

NOTICE = {
    "code": "RECORDS_DROPPED",
    "text": "late for a closed window, KSTREAM-REDUCE-0000000002: 2,712 (up to 0:58:12 after the window and its grace "
    "of 0:01:00)",
    "count": 2_712,
    "at_ms": 1,
}
SOME_PROCESS = "7f3f0a52-2f0e-4d0a-9a58-3f1c5e0b6d11"
ASKS = re.compile(r"groups |rebalances |explain --(?!coordinator)")
"""Commands that ask the coordinator under its usual address."""


class Pages:
    """Runs the commands of a page in a directory of their own, on the coordinator of the tests."""

    def __init__(self, service: ServiceProcess, directory: Path) -> None:
        self.service = service
        self.directory = directory

    def calls(self, page: str, given: Mapping[str, str] | None = None) -> Iterator[list[str]]:
        """The calls of `assignor` in the page, but those on recordings of this repository.

        `given`: what stands for a word of the page. What is watched is looked at once.
        """
        words = {"URL": self.service.url, "assignor.sqlite3": f"{self.service.directory}/assignor.sqlite3"}
        for block in blocks(page):
            for line in command_lines(block) if block.language in ("shell", "console") else ():
                for call in calls_of_assignor(line):
                    if any(word.startswith("tests/") for word in call):
                        continue
                    call = [{**words, **(given or {})}.get(word, word) for word in call if word != "--watch"]
                    yield [*call, *(["--coordinator", self.service.url] if ASKS.match(shlex.join(call)) else [])]

    def run(self, call: list[str]) -> subprocess.CompletedProcess[str]:
        ran = program.assignor(*call)
        assert (ran.returncode, ran.stdout == "") == (0, False), f"{call}: {ran.stderr}"
        return ran


@pytest.fixture
def on_pages(service: ServiceProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pages:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return Pages(service, tmp_path)


@pytest.fixture
def running(client: httpx.Client) -> Iterator[Callable[[str], HttpMember]]:
    """Makes a group of this name, which has gone when the test ends."""
    members = []

    def made(group_id: str) -> HttpMember:
        assert client.put(f"/v1/groups/{group_id}", json=definition(2)).status_code == 201
        member = settled_member(client, group_id, client_id="worker-1")
        members.append(member)
        return member

    yield made
    for member in members:
        member.leave()
        client.delete(member.path)


@pytest.fixture
def recorded(client: httpx.Client, tmp_path: Path) -> Iterator[None]:
    """The group `orders` has a history, at the coordinator and in a directory."""
    lines = [renamed(line) for line in documents("recordings/wcflow.jsonl.gz")]
    for line in lines:
        assert client.post("/v1/groups/orders/rebalances", json=line).status_code in (200, 201)
    (tmp_path / "recordings").mkdir()
    with gzip.open(tmp_path / "recordings" / "orders.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    yield
    client.delete("/v1/groups/orders")


def renamed(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "group_id": "orders", "id": line["id"].replace("wcflow", "orders")}


def test_should_stop_an_application(on_pages: Pages, running: Callable[[str], HttpMember]) -> None:
    member = running("orders")
    drain, delete = on_pages.calls("docs/how-to/stop-an-application.md")

    on_pages.run(drain)
    assert member.heartbeat().json()["stop"] is True
    member.leave()
    on_pages.run(delete)


def test_should_steer_a_group(on_pages: Pages, running: Callable[[str], HttpMember]) -> None:
    page = "docs/how-to/steer-a-group.md"
    member = running("orders")
    told = []
    for call in on_pages.calls(page, {SOME_PROCESS: member.process_id}):
        told.append(on_pages.run(call).stdout)
        settle(member)

    printed = [block.code for block in blocks(page) if block.language == "text"]
    drained = [text for text in told if member.process_id in text]
    assert [text for text in told if text not in drained] == printed
    assert len(drained) == 2, "what is missing depends on the group, so the page does not show it"


def test_should_watch_a_group(on_pages: Pages, running: Callable[[str], HttpMember]) -> None:
    running("orders")
    shown = [on_pages.run(call).stdout for call in on_pages.calls("docs/how-to/watch-a-group.md")]

    assert [text.splitlines()[0].partition(",")[0].split()[0] for text in shown] == ["orders:", "orders:", "GENERATION"]


def test_should_show_dropped_records_as_the_page_does(on_pages: Pages, running: Callable[[str], HttpMember]) -> None:
    page = "docs/how-to/find-lost-records.md"
    member = running("sales")
    members = {member.member_id: {"generation_id": member.generation_id}}
    told = member.client.post(f"{member.path}/heartbeat", json={"members": members, "notices": [NOTICE]})
    (call,) = on_pages.calls(page)
    printed = next(block.code for block in blocks(page) if block.language == "text")

    shown = on_pages.run(call).stdout

    assert told.status_code == 200
    assert without_who_and_when(shown).startswith(without_who_and_when(printed))


def without_who_and_when(text: str) -> str:
    return re.sub(r"\(since \w+ ago(, last \w+ ago)?; [\w-]+\)", "(times; instance)", " ".join(text.split()))


@pytest.mark.parametrize("page", ["find-out-why-nothing-is-processed", "see-how-far-behind-it-is"])
def test_should_describe_a_group(page: str, on_pages: Pages, running: Callable[[str], HttpMember]) -> None:
    running("orders")
    (call,) = on_pages.calls(f"docs/how-to/{page}.md")

    assert on_pages.run(call).stdout.startswith("orders: ")


@pytest.mark.usefixtures("recorded")
def test_should_tell_what_set_off_the_rebalances_of_a_group(on_pages: Pages) -> None:
    shown = [on_pages.run(call).stdout for call in on_pages.calls("docs/how-to/find-out-why-a-group-rebalances.md")]

    assert [text.split()[0] for text in shown] == ["GENERATION", "group"]


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("page", ["how-to/find-out-why-a-task-moved.md", "batch/history.md"])
def test_should_tell_the_history_of_a_task(page: str, on_pages: Pages) -> None:
    (on_pages.directory / "F").write_text("token\n", encoding="utf-8")
    calls = list(on_pages.calls(f"docs/{page}"))

    assert calls != []
    for call in calls:
        assert on_pages.run(call).stdout.startswith("group orders")


@pytest.mark.usefixtures("recorded")
def test_should_try_what_if_on_a_file_of_the_readers(on_pages: Pages) -> None:
    page = "docs/batch/what-if.md"
    (rounds,) = re.findall(r"what-if (\S+) --id orders\.17 ", (ROOT / page).read_text(encoding="utf-8"))
    line = {**renamed(documents("recordings/wcflow.jsonl.gz")[-1]), "id": "orders.17"}
    with gzip.open(on_pages.directory / rounds, "wt", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")

    ran = [on_pages.run(call) for call in on_pages.calls(page)]

    assert len(ran) == 2


def test_should_describe_a_group_that_another_leads_as_the_page_does(on_pages: Pages, client: httpx.Client) -> None:
    page = "docs/kafka/coordinator.md"
    (call,) = [call for call in on_pages.calls(page) if "jvm-app" in call]
    (shown,) = [block.code for block in blocks(page) if block.code.startswith("$ assignor groups describe jvm-app\n")]
    assert client.post("/v1/groups/jvm-app/rebalances", json=reported("jvm-app", 7)).status_code == 201

    printed = on_pages.run(call).stdout

    client.delete("/v1/groups/jvm-app")
    assert without_times(printed) == without_times(shown.partition("\n")[2])


def without_times(text: str) -> str:
    """Lines that are wrapped are one, because how long a time is decides where."""
    whole = re.sub(r"\n {14}", " ", text.rstrip())
    return re.sub(r"\d{4}-\d\d-\S+( \([^)]*\))?", "then", whole)
