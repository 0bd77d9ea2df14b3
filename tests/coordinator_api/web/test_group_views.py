"""A group's grid, a task's history and the topology, as they are served."""

import asyncio
import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from assignor.pipeline.snapshot import Member
from assignor.topology.group_topology import GroupTopology, Subtopology, SubtopologyStore
from coordinator_api.web import group_documents
from coordinator_api.web.grid import GroupGrid, group_grid, pack_grid
from coordinator_api.web.static_files import PackedFile
from coordinator_api.web.topology_page import topology_view
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.instance.application import Application, group_body
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.serdes import STRING
from tests.coordinator_api.group_members import subscription
from tests.coordinator_api.http.tenants import Tenants, tenants
from tests.coordinator_api.reported_rebalances import FIRST, SECOND, reported
from tests.coordinator_api.web.conftest import PRINCIPALS
from tests.coordinator_api.web.visitors import address_from, browser_of, settled_member, soup
from tests.hostile_names import HOSTILE_NAMES
from tests.known import known

MARKUP = '"><img src=x onerror=alert(1)>'
NO_WORK: dict[str, object] = {"members": (), "tasks": (), "held_rebalance": None}


async def test_should_show_each_instance_with_links_to_the_histories_of_its_tasks(service: Tenants) -> None:
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/b-1"))

    assert [each.text for each in page.select("#grid .who b")] == ["node-1"]
    chips = page.select("#grid .thread .task")
    assert [each["href"] for each in chips] == [f"../../ui/groups/b-1/tasks/0_{at}" for at in range(4)]
    assert chips[0]["title"] == "0_0, active: 1,000 records left of 1,000, time not known"
    assert all(row.select_one('[role="rowheader"], [role="columnheader"]') for row in page.select('[role="row"]'))


async def test_should_say_that_an_instance_is_away_until_its_grace_is_over(service: Tenants) -> None:
    """Nothing is said to run there, or to be restored."""
    member = await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    olga = await service.client("olga")
    assert (await olga.put("/v1/groups/b-1/rejoin-grace", json={"grace_ms": 3_600_000})).is_success
    assert (await olga.delete(f"/v1/groups/b-1/members/{member}")).is_success

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/b-1"))

    (away,) = page.select("#grid .who .away")
    assert away.text.startswith("away: its tasks go to others in 59\u00a0min")
    assert page.select("#grid .task")[0]["title"] == "0_0, active: waits for its instance, which is away"
    assert "has not fetched" not in page.get_text()
    assert page.select(".restoring") == []
    facts = {each.dt.text: each.dd.text for each in page.select(".facts div") if each.dt and each.dd}
    assert (facts["Tasks running"], facts["Standby lag"]) == ("0 of 4", "– not known")


async def test_should_lead_from_each_view_of_a_group_to_all_others(service: Tenants) -> None:
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    rita = await browser_of(service, "rita")
    views = {"Tasks": "", "Time": "/time", "What if": "/what-if", "Topology": "/topology", "Levers": "/levers"}

    for name, path in views.items():
        answer = await rita.get(f"/ui/groups/b-1{path}")
        page = soup(answer)
        links = page.select('nav[aria-label="Views of the group"] a')
        assert {each.text: address_from(answer, each["href"]) for each in links} == {
            key: f"/ui/groups/b-1{at}" for key, at in views.items()
        }
        assert [each.text for each in links if each.get("aria-current") == "page"] == [name]
    history = soup(await rita.get("/ui/groups/b-1/tasks/0_0"))
    assert [each.text for each in history.select('nav[aria-label="Views of the group"] a')] == list(views)


async def test_should_escape_whatever_a_member_calls_itself(service: Tenants) -> None:
    await settled_member(service, "b-1", client_id=MARKUP)

    answer = await (await browser_of(service, "rita")).get("/ui/groups/b-1")

    assert answer.status_code == 200
    assert soup(answer).select("img[onerror]") == []
    assert MARKUP in soup(answer).get_text()


async def test_should_send_the_grid_once_and_say_then_that_it_is_the_same(service: Tenants) -> None:
    member = await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    rita = await browser_of(service, "rita")

    first = await rita.get("/ui/groups/b-1/grid.json")
    again = await rita.get("/ui/groups/b-1/grid.json", headers={"If-None-Match": first.headers["etag"]})
    part = await rita.get("/ui/groups/b-1/grid.json", params={"q": "0_3"})

    whole = [[f"A0_{at}", "b", 1_000, 1_000] for at in range(4)]
    assert first.json()["rows"][0]["threads"] == [["thread 1", member, 1, whole]]
    assert (again.status_code, again.content) == (304, b"")
    assert part.json()["rows"][0]["threads"] == [["thread 1", member, 1, whole[3:]]]
    assert part.headers["etag"] != first.headers["etag"]


async def test_should_hold_one_thread_for_many_pages(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    packs, go_on = threading.Event(), threading.Event()

    def slow_pack(grid: GroupGrid) -> PackedFile:
        packs.set()
        assert go_on.wait(30)
        return pack_grid(grid)

    rita = await browser_of(service, "rita")
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    monkeypatch.setattr(group_documents, "pack_grid", slow_pack)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    pages = [asyncio.create_task(rita.get("/ui/groups/b-1/grid.json")) for _ in range(4)]

    try:
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(packs.wait, 9)
            await asyncio.sleep(0.1)  # the other pages come as far as they can
            assert await asyncio.to_thread(int) == 0
    finally:
        go_on.set()
    assert {answer.status_code for answer in await asyncio.gather(*pages)} == {200}


async def test_should_make_a_grid_once_if_a_page_shows_it(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    grids = []

    def counted_grid(document: Mapping[str, Any]) -> GroupGrid:
        grids.append(document)
        return group_grid(document)

    monkeypatch.setattr(group_documents, "group_grid", counted_grid)
    monkeypatch.setattr(group_documents, "KEPT_S", 3_600.0)
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    olga = await browser_of(service, "olga")

    for path in ("", "/b-1/topology", "/b-1/stores"):
        assert (await olga.get(f"/ui/groups{path}")).status_code == 200
    assert grids == []

    for path in ("/b-1", "/b-1/grid.json", "/b-1/grid.json?q=0_3", "/b-1/levers"):
        assert (await olga.get(f"/ui/groups{path}")).status_code == 200
    assert len(grids) == 1


async def test_should_tell_where_a_task_is_and_because_of_what(service: Tenants) -> None:
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/b-1/tasks/0_1"))

    now = known(page.select_one("section[aria-labelledby=now]"))
    assert " ".join(now.select(".copies li")[0].get_text(" ").split()).startswith("A 0_1 , active on node-1")
    steps = [each.text for each in page.select("section[aria-labelledby=because] .steps li")]
    assert steps[0] == "Caught up: nobody."
    assert "Active belongs on node-1 by round robin." in steps
    assert [each.text for each in page.select("section[aria-labelledby=because] tbody th")] == ["node-1"]
    assert page.select(".rounds h3")[0].text.startswith("Generation 1: placed")


async def test_should_tell_what_a_task_does_and_how_far_its_copies_are_now(service: Tenants) -> None:
    member = await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    mia = await service.client("mia")
    beat = {"generation_id": 1, "task_flows": {"0_1": [1_234, 3_000, 88_200]}, "task_offset_sums": {"0_1": 400}}
    assert (await mia.post(f"/v1/groups/b-1/members/{member}/heartbeat", json=beat)).is_success

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/b-1/tasks/0_1"))

    facts = {
        known(each.dt).text: " ".join(known(each.dd).get_text(" ").split())
        for each in page.select("section[aria-labelledby=does] .facts div:has(> dt)")
    }
    assert facts == {
        "Subtopology": "0",
        "Reads": "events partition 1",
        "Writes": "no topic",
        "Stores": "counts app-counts-changelog",
        "Input lag": "1,234 records waiting; 3 s behind",
    }
    (copy,) = [
        [" ".join(each.text.split()) for each in row.select("th, td")] for row in page.select("#copies tbody tr")
    ]
    assert copy == ["A 0_1, active", "node-1 thread 1", "600 records left of 1,000, time not known"]


async def test_should_tell_the_history_of_a_group_that_is_led_elsewhere(service: Tenants) -> None:
    olga = await service.client("olga")
    for generation in (3, 4):
        assert (await olga.post("/v1/groups/b-jvm/rebalances", json=reported("b-jvm", generation))).is_success
    rita = await browser_of(service, "rita")

    page = soup(await rita.get("/ui/groups/b-jvm"))
    history = soup(await rita.get("/ui/groups/b-jvm/tasks/0_0"))

    assert "What is not known here" in page.get_text()
    assert history.select(".rounds h3")[0].text.startswith("Generation 4: stays")
    assert history.select(".rounds h3")[-1].text.startswith("Generation 3: placed")


async def test_should_call_an_instance_by_one_name_on_every_page(service: Tenants) -> None:
    """Both instances have the client id `app`, so the process id stands behind it."""
    olga = await service.client("olga")
    for generation, tasks in ((3, {"0_0": -2}), (4, {"0_0": -2, "0_1": -2})):
        members = {
            "a": Member(subscription(FIRST, tasks, owned=(0,)), "app-StreamThread-1", None),
            "b": Member(subscription(SECOND, {"0_1": 1_000 * (4 - generation)}), "app-StreamThread-1", None),
        }
        assert (await olga.post("/v1/groups/b-jvm/rebalances", json=reported("b-jvm", generation, members))).is_success
    rita = await browser_of(service, "rita")
    pages = ("", "/tasks/0_1", "/time?before=3&after=4", "/what-if?remove=22222222", "/topology")

    texts = {path: soup(await rita.get(f"/ui/groups/b-jvm{path}")).get_text() for path in pages}

    for path, text in texts.items():
        if path != "/topology":
            assert re.search(r"app \((1{8}|2{8})\)", text), path
        names = re.findall(r"app(?! \(?[12]{8}\)|-|.counts)\b.{0,9}|(?<!app \()[12]{8}", text)
        assert names == [], f"{path} has other names, too"


async def test_should_not_find_a_task_that_is_none(service: Tenants) -> None:
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")
    rita = await browser_of(service, "rita")

    for task in ("9_9", "x", *(name for name in HOSTILE_NAMES if name not in ("", ".", "..", "\u0661"))):
        quoted = quote(task, safe="", errors="surrogatepass").encode()
        answer = await rita.get(httpx.URL("http://127.0.0.1/", raw_path=b"/ui/groups/b-1/tasks/" + quoted))
        assert answer.status_code in (400, 404), task
        assert "Traceback" not in answer.text


async def test_should_show_the_topology_as_a_picture_and_in_tables(service: Tenants) -> None:
    await settled_member(service, "b-1", client_id="node-1-StreamThread-1")

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/b-1/topology"))

    assert [each.text for each in page.select("svg .name")] == ["events", "Subtopology 0"]
    cells = [" ".join(each.get_text(" ").split()) for each in page.select("#subtopology-0 > *")]
    assert cells == ["0", "events", "– nothing", "counts app-counts-changelog", "0 of 4 tasks run", "4,000"]


async def test_should_know_the_topics_that_the_topology_writes(tmp_path: Path) -> None:
    """No rebalance needs the partitions of these topics, so they come from the cluster of the definition."""
    builder = StreamsBuilder()
    builder.stream("orders", STRING, STRING).to("done", key_serde=STRING, value_serde=STRING)
    address = f"embedded:{tmp_path / 'log'}"
    configs = {"application.id": "a-1", "bootstrap.servers": address, "state.dir": tmp_path / "state"}
    application = Application(builder.build(), {**configs, "errors.dead.letter.queue.topic.name": "failed"})
    with closing(open_log(address)) as log:
        log.create_topics([NewTopic("orders", 4), NewTopic("done", 3), NewTopic("failed", 2)])
    async with tenants(tmp_path, PRINCIPALS, cluster_bootstrap_servers=(address,)) as service:
        olga = await service.client("olga")
        assert (await olga.put("/v1/groups/a-1", json=group_body(application))).is_success

        page = soup(await (await browser_of(service, "rita")).get("/ui/groups/a-1/topology"))

    rows = page.select("table")[1].select("tbody tr")
    assert [[" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")] for row in rows] == [
        ["orders", "input", "not known", "others", "subtopology 0"],
        ["done", "output", "3", "subtopology 0", "others"],
        ["failed", "dead-letter", "2", "subtopology 0", "others"],
    ]
    dead_letters = known(page.select_one(".topology .dead-letter"))
    assert [each.text for each in dead_letters.select("text")] == [
        "failed",
        "dead-letter topic, 2 partitions",
        "of every subtopology",
    ]
    assert all("failed" not in each.text for each in page.select(".topology .edge")), "its edges would cross all boxes"


def test_should_draw_a_topology_from_left_to_right_also_when_it_reads_what_it_writes() -> None:
    topology = GroupTopology(
        (
            Subtopology(0, ("orders",), sink_topics=("again", "done"), stores=(SubtopologyStore("seen", "seen-log"),)),
            Subtopology(1, ("again", "late"), sink_topics=("orders-copy",)),
            Subtopology(2, ("orders-copy",), sink_topics=("again",)),
        )
    )

    view = topology_view(topology, {"orders": 8}, NO_WORK)

    at = {box.lines[0]: box.x for box in view.boxes}
    assert at["orders"] < at["Subtopology 0"] < at["again"]
    assert at["again"] == at["Subtopology 1"] == at["orders-copy"] == at["Subtopology 2"]
    assert at["late"] > at["orders"]
    assert len(view.edges) == 8
    assert {each.work for each in view.subtopologies} == {"no member has its tasks"}
    assert [(each.name, each.kind, each.partitions) for each in view.topics[:2]] == [
        ("orders", "input", 8),
        ("again", "input", None),
    ]


def test_should_draw_no_box_on_another() -> None:
    many = tuple(
        Subtopology(at, tuple(f"in-{at}-{each}" for each in range(5)), sink_topics=("out",)) for at in range(6)
    )

    view = topology_view(GroupTopology(many), {}, NO_WORK)

    for one in view.boxes:
        for other in view.boxes:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert one is other or apart or one.y + one.height <= other.y or other.y + other.height <= one.y
            assert 0 <= one.x <= view.width - one.width
            assert 0 <= one.y <= view.height - one.height
