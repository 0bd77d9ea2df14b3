"""Rebalances over time, and two of them beside each other, as they are served."""

import gzip
import json
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.pipeline.snapshot import Member
from coordinator_api.store.store_errors import StoreError
from coordinator_api.views import count, hold_text
from coordinator_api.web.time_page import comparison, time_line
from tests.coordinator_api.group_members import subscription
from tests.coordinator_api.http.tenants import Tenants
from tests.coordinator_api.reported_rebalances import FIRST, SECOND, reported
from tests.coordinator_api.web.visitors import browser_of, declared, settled_member, soup, streaming
from tests.program import assignor

DAY_MS = 86_400_000
HOSTILE = "<img src=x onerror=alert(1)>"


async def with_history(service: Tenants) -> httpx.AsyncClient:
    """Generation 3 warms 0_1 up on the second process; generation 4 hands it over."""
    olga = await service.client("olga")
    caught_up = {
        "first-consumer": Member(subscription(FIRST, {"0_0": -2, "0_1": -2}, owned=(0, 1)), HOSTILE, "i-1"),
        "second-consumer": Member(subscription(SECOND, {"0_1": 1_000}), "second-client", None),
    }
    later = {**reported("jvm", 4, caught_up), "now_ms": reported("jvm", 3)["now_ms"] + 61_000}
    for each in (reported("jvm", 3), later):
        assert (await olga.post("/v1/groups/jvm/rebalances", json=each)).is_success
    return olga


async def test_should_list_rebalances_newest_first_with_what_moved_and_what_followed(service: Tenants) -> None:
    await with_history(service)

    answer = await (await browser_of(service, "rita")).get("/ui/groups/jvm/time")

    page = soup(answer)
    assert answer.status_code == 200
    rows = [[" ".join(cell.get_text(" ").split()) for cell in row.select("th, td")] for row in page.select("tbody tr")]
    assert [row[2] for row in rows] == ["4", "3"]
    assert [row[5:8] for row in rows] == [["– not known", "1", "1"], ["– not known", "0", "0"]]
    assert [row[9] for row in rows] == ["– none yet", "1 min 1 s"]
    assert len(page.select("svg g title")) == 2


async def test_should_say_how_long_a_rebalance_took_and_why_in_words(service: Tenants) -> None:
    await settled_member(service, "a-1")

    (listed,) = (await (await service.client("olga")).get("/v1/groups/a-1/rebalances")).json()["rebalances"]
    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/a-1/time"))

    assert 0 < listed["took_ms"] < 60_000
    cells = [" ".join(cell.get_text(" ").split()) for cell in page.select("#passed tbody th, #passed tbody td")]
    assert cells[4].startswith("a member joined") or "joined" in cells[4]
    assert cells[5] == f"{count(listed['took_ms'])} ms"


@pytest.mark.parametrize(
    ("ended", "by", "words"),
    [
        ("approved", "ada", "Held, then approved by ada, because: it is night. It waited 5 s."),
        ("discarded", None, "Held, then discarded by somebody: every task stayed where it was, because: it is night."),
        ("time-limit", None, "Held, then carried out when its time limit had passed"),
        ("hold-ended", "ada", "Held, then carried out when ada ended the hold"),
        ("replaced", None, "Held, then given up, because another rebalance began"),
        (None, None, "It waits since 2026-11-23 08:00:00 UTC."),
    ],
)
def test_should_say_how_the_wait_for_an_approval_ended(ended: str | None, by: str | None, words: str) -> None:
    since_ms = 1_795_420_800_000
    at_ms = None if ended is None else since_ms + 5_000

    told = hold_text({"since_ms": since_ms, "ended": ended, "by": by, "at_ms": at_ms, "reason": "it is night"})

    assert told.startswith(words)
    assert hold_text(None) == ""


async def test_should_show_the_moves_that_the_command_names(service: Tenants, tmp_path: Path) -> None:
    olga = await with_history(service)
    files = []
    for generation in (3, 4):
        files.append(tmp_path / f"{generation}.jsonl.gz")
        recorded = (await olga.get(f"/v1/groups/jvm/rebalances/{generation}")).content
        files[-1].write_bytes(gzip.compress(recorded + b"\n"))
    said = json.loads(assignor("diff", *map(str, files), "-o", "json").stdout)

    answer = await (await browser_of(service, "rita")).get("/ui/groups/jvm/time?before=3&after=4")

    page = soup(answer)
    shown = {(row.select("th")[0].text, row.select("td")[0].text) for row in page.select("#moves tbody tr")}
    wanted = {(each["task"], "active") for each in said["moves"] if each["active"]}
    wanted |= {(each["task"], "standby") for each in said["moves"] if any(each["standby"].values())}
    assert said["moves"]
    assert shown == wanted
    assert HOSTILE not in answer.text
    assert [each.text for each in page.select("path.arrow title")] == [f"0_1: {HOSTILE} to nobody"]


def test_should_part_moves_whose_reason_is_not_known_from_the_others() -> None:
    moves: list[dict[str, Any]] = [
        {"task": task, "active": {"from": ["a"], "to": ["b"]}, "standby": {"gone": [], "new": []}}
        for task in ("0_0", "0_1")
    ]
    owners = {"0_0": ["a"], "0_1": ["a"]}
    answer = {"tasks": 2, "moves": moves, "before": owners, "after": {}, "names": {}, "why": {"0_0": "b", "0_1": None}}

    compared = comparison(answer)

    assert [move["task"] for move in compared["known"]] == ["0_0"]
    assert [move["task"] for move in compared["unknown"]] == ["0_1"]


async def test_should_page_through_a_history(service: Tenants) -> None:
    olga = await service.client("olga")
    for generation in range(1, 9):
        assert (await olga.post("/v1/groups/jvm/rebalances", json=reported("jvm", generation))).is_success
    rita = await browser_of(service, "rita")

    first = soup(await rita.get("/ui/groups/jvm/time?limit=5"))
    older = next(str(each["href"]) for each in first.select(".pages a") if each.text == "Older")
    second = soup(await rita.get(f"/ui/groups/jvm/time{older}"))

    assert [row["id"] for row in first.select("#passed tbody tr")] == [f"generation-{each}" for each in (8, 7, 6, 5, 4)]
    assert [row["id"] for row in second.select("#passed tbody tr")] == [f"generation-{each}" for each in (3, 2, 1)]


async def test_should_say_why_two_cannot_be_compared(service: Tenants) -> None:
    await with_history(service)
    rita = await browser_of(service, "rita")

    for query in ("before=3", "before=3&after=3", "before=3&after=77"):
        page = soup(await rita.get(f"/ui/groups/jvm/time?{query}"))
        assert (len(page.select("p[role=alert]")), page.select("#moves")) == (1, []), query


async def test_should_show_the_time_line_without_a_recording(service: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    async def damaged(group_id: str, generation_id: int) -> bytes | None:
        raise StoreError("the recording is damaged")

    await with_history(service)
    monkeypatch.setattr(service.coordinator.recordings, "stored", damaged)

    answer = await (await browser_of(service, "rita")).get("/ui/groups/jvm/time?before=3&after=4")

    assert answer.status_code == 200
    assert len(soup(answer).select("tbody tr")) == 2
    assert "What moved is not known: the recording is damaged" in answer.text
    assert "They cannot be compared: the recording is damaged" in answer.text


async def test_should_read_no_recording_while_all_computations_are_under_way(
    service: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    async def noted(group_id: str, generation_id: int) -> bytes | None:
        read.append(generation_id)
        return None

    olga = await with_history(service)
    monkeypatch.setattr(service.coordinator.recordings, "stored", noted)
    with ExitStack() as under_way:
        for _ in range(service.coordinator.settings.computation_max_count):
            under_way.enter_context(service.coordinator.computations.one())
        for address, status in (
            ("/ui/groups/jvm/time", 200),
            ("/ui/groups/jvm/tasks/0_1", 429),
            ("/ui/groups/jvm/what-if?generation=3&add=1", 429),
            ("/v1/groups/jvm/rebalances/3/explain", 429),
        ):
            assert ((await olga.get(address)).status_code, read) == (status, []), address


async def test_should_refuse_what_is_no_number(service: Tenants) -> None:
    await declared(service, "a-1")
    rita = await service.client("rita")

    for name in ("before_generation", "limit", "before", "after"):
        for number in ("x", "-1", "5.0", "+5", "1_0", "٣", "2147483648"):
            answer = await rita.get("/ui/groups/a-1/time", params={name: number})
            assert answer.status_code == 422
            assert f"query.{name}: must be a whole number of at least 0" in answer.text


async def test_should_take_a_parameter_as_a_form_sends_it(service: Tenants) -> None:
    olga = await with_history(service)
    asked: list[int] = []
    real = service.coordinator.repository.list_rebalances

    async def noted(group_id: str, before: int | None, limit: int) -> list[Mapping[str, object]]:
        asked.append(limit)
        return await real(group_id, before, limit)

    service.coordinator.repository.list_rebalances = noted  # type: ignore[method-assign]
    queries = ("before=&after=&limit=", "limit=0", "limit=1", "limit=%205", "limit=99", "before=3&after=%204")

    for query in queries:
        assert (await olga.get(f"/ui/groups/jvm/time?{query}")).status_code == 200, query

    assert [limit - 1 for limit in asked] == [20, 20, 2, 5, 80, 20]


async def test_should_tell_a_page_of_a_new_rebalance(service: Tenants) -> None:
    olga = await with_history(service)
    headers = {"authorization": "Bearer rita"}

    async with streaming(service._app, "/ui/groups/jvm/time/events", headers) as stream:
        assert (await stream.next()).startswith(": hello")
        assert (await stream.next()).endswith("data: 4-follow-up")
        await olga.post("/v1/groups/jvm/rebalances", json=reported("jvm", 5))
        assert (await stream.next()).endswith("data: 5-probing")


async def test_should_show_an_empty_history(service: Tenants) -> None:
    await declared(service, "a-1")

    assert "No rebalance is recorded" in (await (await browser_of(service, "rita")).get("/ui/groups/a-1/time")).text


def hold(ended: str | None) -> dict[str, Any]:
    return {"since_ms": 1_000, "ended": ended, "by": "olga", "at_ms": ended and 126_000, "reason": None}


@pytest.mark.parametrize(
    ("outcome", "waited", "words"),
    [
        ("held", hold(None), ("it waits for approval", "held")),
        ("held", hold("replaced"), ("it was never carried out", "held")),
        ("stable", hold("approved"), ("nothing more is due", "stable")),
        ("follow-up", None, ("a member has to give up tasks first, so another rebalance follows", "follow")),
    ],
)
def test_should_tell_waiting_from_replaced(outcome: str, waited: dict[str, Any] | None, words: tuple[str, str]) -> None:
    summary = {"generation_id": 7, "now_ms": 5, "reason": "probing-rebalance", "members": 2, "error": None}

    line = time_line([{**summary, "outcome": outcome, "hold": waited}], None)

    assert [(each["follows"], each["shape"]) for each in line.rows] == [words]


@pytest.mark.parametrize(
    ("took_ms", "gaps"),
    [
        (400, ["Before generation 7, 2 tasks had no owner for 400\u00a0ms: their instance was gone"]),
        (15_000, ["Before generation 7, 2 tasks had no owner for 15\u00a0s: their instance was gone"]),
        (None, []),
    ],
)
def test_should_draw_the_time_when_tasks_of_a_dead_instance_had_no_owner(took_ms: int | None, gaps: list[str]) -> None:
    summary = {"reason": "member-removed", "outcome": "stable", "members": 1, "error": None, "took_ms": took_ms}
    moved = (("dead", "new"), ("dead", "old"), ("old", "new"), (None, "new"))
    moves = [{"task": f"0_{task}", "from": before, "to": after} for task, (before, after) in enumerate(moved)]
    triggers = [{"kind": "left", "process": "dead"}, {"kind": "joined", "process": "new"}]
    told = {"triggers": triggers, "moves": moves, "held_back": 0, "words": "dead is gone"}
    times = ({"generation_id": 7, "now_ms": 60_000}, {"generation_id": 6, "now_ms": 0})

    line = time_line([{**summary, **each} for each in times], {"rounds": [{"generation_id": 7, **told}]})

    assert [gap.text for gap in line.gaps] == gaps
    assert all(gap.width >= 2 and gap.x + gap.width <= line.rows[0]["x"] + 2 for gap in line.gaps)


def rebalance(generation_id: int, at_ms: int, outcome: str = "stable") -> dict[str, Any]:
    return {"generation_id": generation_id, "now_ms": at_ms, "reason": "member-joined", "outcome": outcome}


def test_should_draw_one_symbol_for_rebalances_that_are_near_to_each_other() -> None:
    times = [(1, 0), (2, 1_000), (3, 2_000), (4, 1_800_000), (5, 3_600_000)]
    outcomes = {2: "error"}
    newest_first = [rebalance(each, DAY_MS + at_ms, outcomes.get(each, "stable")) for each, at_ms in reversed(times)]

    line = time_line(newest_first, None)

    assert [(each.label, each.size, each.shape) for each in line.markers] == [
        ("1–3", 3, "failed"),
        ("4", 1, "stable"),
        ("5", 1, "stable"),
    ]
    assert line.markers[0].text.startswith("3 rebalances, generations 1 to 3: 2 × nothing more is due; 1 × it failed")
    assert [each.address for each in line.markers] == ["?before_generation=4&limit=3", "", ""]
    assert all(after.x - before.x > 22 for before, after in pairwise(line.markers)), "no symbol lies on another"


@pytest.mark.parametrize(
    ("span_ms", "ticks"),
    [
        (0, []),
        (4_000, ["00:00:01", "00:00:02", "00:00:03", "00:00:04"]),
        (3_600_000, ["00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]),
        (2 * DAY_MS, ["06:00", "12:00", "18:00", "2026-11-25", "06:00", "12:00", "18:00", "2026-11-26"]),
    ],
)
def test_should_mark_round_times_and_the_day_at_midnight(span_ms: int, ticks: list[str]) -> None:
    midnight_ms = 1_795_478_400_000
    times = [midnight_ms] if not span_ms else [midnight_ms + span_ms, midnight_ms]

    line = time_line([rebalance(number, at_ms) for number, at_ms in enumerate(times)], None)

    assert [each.text for each in line.ticks] == ["2026-11-24", *ticks]
