"""The what-if form, filled in: what it answers is what the commands answer, number by number."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from coordinator_api.views.wording import count
from rebalance_analysis.presentation.quantities import clock_duration
from tests.browser.few_members import FewMembers
from tests.browser.keyboard import press_on, tab_to
from tests.coordinator_api.service_process import ServiceProcess
from tests.program import assignor

MEASURES = (
    "active_moved",
    "active_started",
    "standby_moved",
    "warm_ups",
    "records_to_restore",
    "clients",
    "threads",
    "skew",
    "active_skew",
)
CASES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "more-instances": ({"add": "2x2", "standbys": "1"}, ("--add-instances", "2x2", "--set", "num.standby.replicas=1")),
    "one-less": ({"remove": "{second}", "threads": "3"}, ("--remove", "{second}", "--threads", "3")),
    "far-behind": (
        {"add": "1x1", "warm_ups": "1", "lag": "50", "lags": "*=900"},
        (
            *("--add-instances", "1x1", "--lags", "*=900"),
            *("--set", "acceptable.recovery.lag=50", "--set", "max.warmup.replicas=1"),
        ),
    ),
    "another-assignor": (
        {"add": "1x1", "assignor": "LegacyStickyTaskAssignor"},
        ("--add-instances", "1x1", "--assignor", "LegacyStickyTaskAssignor"),
    ),
}


@pytest.fixture(scope="module")
def group(service: ServiceProcess) -> Iterator[FewMembers]:
    """Two members that came one after the other."""
    with service.client() as client:
        group = FewMembers(client, f"asked-{uuid.uuid4().hex[:8]}").declare(partitions=6).join(1).join(1)
        yield group
        group.remove()


@pytest.mark.parametrize(("typed", "options"), CASES.values(), ids=CASES)
def test_should_answer_a_form_as_the_commands_do(
    page: Page, origin: str, group: FewMembers, tmp_path: Path, typed: dict[str, str], options: tuple[str, ...]
) -> None:
    """By keyboard alone, over the newest recorded rebalance."""
    listed = group.client.get(f"/v1/groups/{group.id}/rebalances").json()["rebalances"]
    generation, second = listed[0]["generation_id"], group.members[1].process_id
    difference, forecast = commands(group, generation, tmp_path, [each.format(second=second) for each in options])
    page.goto(f"{origin}/ui/groups/{group.id}/what-if")

    for field, value in {"generation": str(generation), **typed}.items():
        tab_to(page, page.locator(f"#{field}"))
        page.keyboard.type(value.format(second=second))
    press_on(page, page.get_by_role("button", name="Compute"))

    expect(page.get_by_role("heading", name="The forecast")).to_be_visible()
    for key in MEASURES:
        expect(page.locator(f"#measure-{key} td")).to_have_text(
            [count(difference[side]["measures"][key]) for side in ("before", "after")]
        )
    expect(page.locator("#changed-tasks tbody th")).to_have_text([each["task"] for each in difference["tasks"]])
    expect(page.locator("#rounds tbody tr")).to_have_count(len(forecast["rounds"]))
    for row, each in zip(page.locator("#rounds tbody tr").all(), forecast["rounds"], strict=True):
        expect(row.get_by_role("cell")).to_have_text(
            [
                str(each["number"]),
                clock_duration(each["at_ms"]),
                each["trigger"],
                count(len(each["moved"])),
                count(len(each["warming_up"])),
                count(each["unowned"]),
            ]
        )
    titles = [
        f"Rebalance {each['number']}, {clock_duration(each['at_ms'])}: "
        f"{len(each['moved'])} move, {len(each['warming_up'])} warm up"
        for each in forecast["rounds"]
    ]
    assert page.locator(".picture title").all_text_contents() == titles
    facts = page.locator("section[aria-labelledby=forecast] .facts dd").all_text_contents()
    assert facts[1:4] == [count(forecast[key]) for key in ("active_moves", "standby_moves", "warm_ups")]
    assert facts[4:6] == [f"{count(forecast[key])}\u00a0ms" for key in ("unowned_ms", "unowned_longest_ms")]


def commands(group: FewMembers, generation: int, directory: Path, options: list[str]) -> tuple[Any, Any]:
    """What `assignor what-if` and `assignor simulate` say of the recorded rebalance."""
    recording = directory / "recorded.jsonl.gz"
    stored = group.client.get(f"/v1/groups/{group.id}/rebalances/{generation}").content
    recording.write_bytes(gzip.compress(stored + b"\n"))
    arguments = [str(recording), *options, "-o", "json"]
    return (
        json.loads(assignor("what-if", *arguments).stdout),
        json.loads(assignor("simulate", *arguments).stdout)["forecast"],
    )
