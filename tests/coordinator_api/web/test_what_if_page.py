"""The what-if page: the command's numbers, and input that cannot be used."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from assignor.recording import parse_recorded_rebalance
from assignor.task_assignors.base import Placement, PlacementProblem
from assignor.task_assignors.decisions import DecisionLog
from coordinator_api.errors import AssignorNotListed
from coordinator_api.http.page_computations import what_if
from coordinator_api.runtime.definitions import DocumentBounds
from coordinator_api.views import count
from rebalance_analysis.presentation.quantities import clock_duration
from rebalance_analysis.simulate import ForecastModel
from tests.coordinator_api.http.tenants import Tenants
from tests.coordinator_api.reported_rebalances import SECOND, reported
from tests.coordinator_api.web.visitors import browser_of, settled_member, soup
from tests.known import known
from tests.program import assignor, smoke

MEASURES = (
    *("active_moved", "active_started", "standby_moved", "warm_ups", "records_to_restore"),
    *("clients", "threads", "skew", "active_skew"),
)
CASES = {
    "add=2x2&standbys=1": "--add-instances 2x2 --set num.standby.replicas=1",
    f"remove={SECOND}&threads=3": f"--remove {SECOND} --threads 3",
    "add=1x1&warm_ups=1&lag=50&lags=*%3D900": (
        "--add-instances 1x1 --lags *=900 --set acceptable.recovery.lag=50 --set max.warmup.replicas=1"
    ),
    "add=1x1&assignor=LegacyStickyTaskAssignor": "--add-instances 1x1 --assignor LegacyStickyTaskAssignor",
}
"""Query of the page, and options of the command."""


@pytest.mark.parametrize("query", CASES)
async def test_should_give_what_the_commands_give_number_by_number(
    service: Tenants, tmp_path: Path, query: str
) -> None:
    olga = await service.client("olga")
    assert (await olga.post("/v1/groups/jvm/rebalances", json=reported("jvm", 3))).is_success
    recording = tmp_path / "jvm.jsonl.gz"
    recording.write_bytes(gzip.compress((await olga.get("/v1/groups/jvm/rebalances/3")).content + b"\n"))
    options = [str(recording), *CASES[query].split(), "-o", "json"]
    difference = json.loads(assignor("what-if", *options).stdout)
    ahead = json.loads(assignor("simulate", *options).stdout)["forecast"]

    rita = await browser_of(service, "rita")
    answer = await rita.get(f"/ui/groups/jvm/what-if?generation=3&{query}")

    assert answer.status_code == 200
    page = soup(answer)
    for key in MEASURES:
        assert [each.text for each in known(page.select_one(f"#measure-{key}")).select("td")] == [
            count(difference[side]["measures"][key]) for side in ("before", "after")
        ]
    assert [each.text for each in page.select("#changed-tasks tbody th")] == [
        each["task"] for each in difference["tasks"]
    ]
    assert [[cell.text for cell in row.select("td")] for row in page.select("#rounds tbody tr")] == [
        [
            *(str(each["number"]), clock_duration(each["at_ms"]), each["trigger"]),
            *(count(len(each["moved"])), count(len(each["warming_up"])), count(each["unowned"])),
        ]
        for each in ahead["rounds"]
    ]
    assert [each.text for each in page.select(".picture title")] == [
        f"Rebalance {each['number']}, {clock_duration(each['at_ms'])}: "
        f"{len(each['moved'])} move, {len(each['warming_up'])} warm up"
        for each in ahead["rounds"]
    ]
    facts = [each.text for each in page.select("section[aria-labelledby=forecast] .facts dd")]
    assert facts[1:4] == [count(ahead[key]) for key in ("active_moves", "standby_moves", "warm_ups")]
    assert facts[4:6] == [f"{count(ahead[key])}\u00a0ms" for key in ("unowned_ms", "unowned_longest_ms")]


async def test_should_start_from_the_group_as_it_is_now(service: Tenants) -> None:
    await settled_member(service, "a-1")

    page = soup(await (await browser_of(service, "rita")).get("/ui/groups/a-1/what-if?add=1x1&lag=0"))

    for measure, numbers in (("active_moved", ["0", "0"]), ("warm_ups", ["0", "2"])):
        assert [each.text for each in known(page.select_one(f"#measure-{measure}")).select("td")] == numbers


WRONG = (
    ("add=two", "add", "two", ""),
    ("add=0", "add", "0", "Must be from 1 to 10,000, not 0."),
    ("add=99999x99999", "add", "99999x99999", ""),
    (
        *("standbys=2147483648", "standbys", "2147483648"),
        "num.standby.replicas must be from -2147483648 to 2147483647, not 2147483648.",
    ),
    ("lag=<script>", "lag", "<script>", ""),
    ("lags=0_0", "lags", "0_0", ""),
    ("lags=0_0%3Dmany", "lags", "0_0=many", ""),
    ("generation=3&lags=9_9%3D1", "lags", "9_9=1", ""),
    ("assignor=Nobody's", "assignor", "Nobody's", ""),
    ("generation=77&add=1", "generation", "77", "No rebalance of generation 77 is recorded."),
    ("generation=x", "generation", "x", ""),
    ("generation=3&remove=nobody", "remove", "nobody", ""),
)
"""Query, field, its text, and the words beside it, if they are not those of the command."""


async def test_should_say_beside_the_field_what_is_wrong_and_keep_what_was_typed(service: Tenants) -> None:
    olga = await service.client("olga")
    assert (await olga.post("/v1/groups/jvm/rebalances", json=reported("jvm", 3))).is_success
    rita = await browser_of(service, "rita")

    for query, field, typed, words in WRONG:
        answer = await rita.get(f"/ui/groups/jvm/what-if?{query}")
        page = soup(answer)
        assert answer.status_code == 400
        assert [each["name"] for each in page.select("input[aria-invalid=true]")] == [field]
        error = known(page.select_one(f"#{field}-error"))
        assert known(page.select_one(f"#{field}"))["value"] == typed
        assert error.text == (words or error.text)
        assert page.select("script:not([src])") == []


class HasAMistake:
    name = "HasAMistake"

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        raise KeyError("it ran")


def test_should_name_a_class_that_is_not_allowed_before_the_recorded_rebalance_runs_again() -> None:
    own = f"{__name__}:HasAMistake"
    recorded = parse_recorded_rebalance(smoke(1))
    listed = replace(recorded, snapshot=replace(recorded.snapshot, assignor=own))
    bounds = DocumentBounds(max_partitions=10_000, max_subtopologies=100, assignor_classes=(own,))

    with pytest.raises(AssignorNotListed):
        what_if(listed, {"assignor": "os:system"}, bounds, ForecastModel())
