"""A row of a sweep, against forecasts made one by one; how the work is cut; going on after a failure."""

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from rebalance_analysis.reading.lines import read_lines
from rebalance_analysis.reading.own_assignors import OwnAssignors
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.simulate import ForecastModel, forecast
from rebalance_analysis.sweep.episodes import gather_episodes
from rebalance_analysis.sweep.grid import parse_grid
from rebalance_analysis.sweep.sweep_work import (
    FORECASTS_A_CHUNK,
    CombinationsOfGroup,
    RejectedLines,
    SweepChunk,
    SweepWork,
    sweep_plan,
)
from rebalance_analysis.what_if.changes import AddedInstances, Changes
from spark_engine.batch import Engine, EngineChoice
from spark_engine.batch.running import run_plan
from spark_engine.batch.work import ChunkOutput, ChunksFailed, Plan, RunOutcome
from tests.checkout import VECTORS
from tests.program import write_lines
from tests.recorded import PLACEMENTS, document, documents

SMOKE = "recordings/smoke.jsonl.gz"
GRID = "max.warmup.replicas=1|4,num.standby.replicas=0..2"
MODEL = ForecastModel(restore_records_per_s=20_000)


def planned(directory: Path, *names: str, grid: str = GRID, changes: Changes | None = None) -> Plan[SweepChunk]:
    directory.mkdir(exist_ok=True)
    episodes = gather_episodes(read_lines([str(VECTORS / name) for name in names]), directory / "episodes")
    work = SweepWork(parse_grid([grid]), MODEL, changes or Changes(), 200, OwnAssignors(str(directory)))
    return sweep_plan(work, episodes, {"test": names})


def six_unusable(directory: Path) -> str:
    return write_lines(directory / "unusable.jsonl", [{"format": "other"}] * 6)


def rows_of(plan: Plan[SweepChunk]) -> list[dict[str, Any]]:
    outputs = plan.work.run(iter(plan.chunks))
    rows = [row for output in outputs for row in output.rows.to_pylist()]
    assert all(row.pop("compute_ms") >= 0 for row in rows)
    return rows


def test_should_add_up_the_forecasts_of_all_episodes_under_each_combination(tmp_path: Path) -> None:
    rows = rows_of(planned(tmp_path, SMOKE))

    episodes = [document(SMOKE, name) for name in ("smoke.1", "smoke.3")]
    expected = []
    for number, (warm_ups, standbys) in enumerate((w, s) for w in (1, 4) for s in (0, 1, 2)):
        configs = {"max.warmup.replicas": warm_ups, "num.standby.replicas": standbys}
        ahead = []
        for episode in episodes:
            episode["input"]["configs"].update(configs)
            ahead.append(forecast(parse_recorded(episode), MODEL, max_rounds=200))
        finals = [each.final for each in ahead if each.final is not None]
        times_ms = [each.stable_after_ms for each in ahead if each.stable_after_ms is not None]
        assert len(finals) == len(times_ms) == 2, "this recording settles whatever is asked for"
        coverages = [final.standby_coverage for final in finals if final.standby_coverage is not None]
        expected.append(
            {
                "group_id": "smoke",
                "combination": number,
                **configs,
                "episodes": 2,
                "settled": 2,
                "looping": 0,
                "time_to_stable_ms": sum(times_ms) / 2,
                "time_to_stable_max_ms": max(times_ms),
                "rounds": sum(len(each.rebalances) for each in ahead),
                "probing_rounds": sum(each.probing_rounds for each in ahead),
                "active_moves": sum(each.active_moves for each in ahead),
                "standby_moves": sum(each.standby_moves for each in ahead),
                "warm_ups": sum(each.warm_ups for each in ahead),
                "unowned_ms": sum(each.unowned_ms for each in ahead),
                "stateful_tasks": sum(final.stateful_tasks for final in finals),
                # the first episode is of one instance, which has nobody to stand by; the second of two
                "standbys": min(standbys, 1) * finals[1].stateful_tasks,
                "standby_coverage": sum(coverages) / len(coverages) if coverages else None,
                "skew": max(final.skew for final in finals),
                "cross_rack_reads": None,  # the members of this group have no racks
                "error": None,
            }
        )
    assert rows == expected


def test_should_give_a_row_to_every_group_and_combination_and_pass_rejects_on(tmp_path: Path) -> None:
    unusable = six_unusable(tmp_path)
    plan = planned(tmp_path, SMOKE, unusable, "recordings/bridge1.jsonl.gz", grid="max.warmup.replicas=1..3")

    outputs = list(plan.work.run(iter(plan.chunks)))

    rows = [(row["group_id"], row["max.warmup.replicas"]) for output in outputs for row in output.rows.to_pylist()]
    assert rows == [(group, value) for group in ("bridge1", "smoke") for value in (1, 2, 3)]
    rejects = [reject for output in outputs for reject in output.rejects]
    assert [reject.kind for reject in rejects] == ["unusable"] * 6
    assert [output.rows.num_rows + len(output.rejects) for output in outputs] == [chunk.lines for chunk in plan.chunks]


def test_should_cut_a_group_of_many_episodes_into_chunks_of_few_combinations(tmp_path: Path) -> None:
    unusable = six_unusable(tmp_path)
    plan = planned(tmp_path, "recordings/upgrade.jsonl.gz", SMOKE, unusable, grid="max.warmup.replicas=1..10")

    cut = [
        (chunk.group.group_id, chunk.first, chunk.lines) if isinstance(chunk, CombinationsOfGroup) else chunk.lines
        for chunk in plan.chunks
    ]
    of_upgrade, of_smoke = FORECASTS_A_CHUNK // 8, FORECASTS_A_CHUNK // 2
    assert cut == [
        *(("smoke", first, min(of_smoke, 10 - first)) for first in range(0, 10, of_smoke)),
        *(("upgrade", first, min(of_upgrade, 10 - first)) for first in range(0, 10, of_upgrade)),
        6,
    ]
    assert isinstance(plan.chunks[-1], RejectedLines)
    assert [chunk.number for chunk in plan.chunks] == list(range(len(plan.chunks)))


def test_should_make_the_changes_asked_for_before_those_of_the_combination(tmp_path: Path) -> None:
    grown = Changes(configs={"num.standby.replicas": 1}, add_instances=(AddedInstances(2, 2),))

    (row,) = rows_of(planned(tmp_path, SMOKE, grid="max.warmup.replicas=8", changes=grown))

    # one standby of every task now has a place in both episodes: there are two empty instances more
    assert row["error"] is None
    assert row["standbys"] == row["stateful_tasks"] > 0
    assert row["active_moves"] > 0


def test_should_say_in_the_row_why_a_change_cannot_be_made(tmp_path: Path) -> None:
    (row,) = rows_of(planned(tmp_path, SMOKE, grid="max.warmup.replicas=8", changes=Changes(remove=("nobody",))))

    assert (row["episodes"], row["settled"], row["time_to_stable_ms"], row["rounds"]) == (2, 0, None, 0)
    assert "nobody" in row["error"]


def test_should_say_in_the_row_what_a_users_own_assignor_raises(tmp_path: Path) -> None:
    (tmp_path / "broken_assignor.py").write_text(
        "class Broken:\n    name = 'Broken'\n    def assign(self, problem, log):\n        raise KeyError('gone')\n"
    )
    (row,) = rows_of(planned(tmp_path, SMOKE, grid="assignor=broken_assignor:Broken"))

    assert (row["assignor"], row["episodes"], row["settled"]) == ("broken_assignor:Broken", 2, 0)
    assert "broken_assignor:Broken raised KeyError: 'gone'" in row["error"]


def test_should_forecast_placement_problems(tmp_path: Path) -> None:
    problems = [problem for problem in documents(PLACEMENTS[0]) if problem["meta"]["mode"] == "chain"][1:3]
    with gzip.open(tmp_path / "problems.jsonl.gz", "wt") as stream:
        stream.writelines(f"{json.dumps(problem)}\n" for problem in problems)

    (row,) = rows_of(planned(tmp_path, str(tmp_path / "problems.jsonl.gz"), grid="max.warmup.replicas=2"))

    assert (row["group_id"], row["episodes"], row["error"]) == (problems[0]["meta"]["chain"], 2, None)
    assert row["stateful_tasks"] > 0


@dataclass(frozen=True, slots=True)
class FailingFrom:
    """Work that fails from one chunk on."""

    work: SweepWork
    number: int
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.work.schema)

    def run(self, chunks: Iterator[SweepChunk]) -> Iterator[ChunkOutput]:
        for chunk in chunks:
            if chunk.number >= self.number:
                raise RuntimeError("stopped here")
            yield from self.work.run(iter([chunk]))


@pytest.mark.usefixtures("chunks_in_this_process")
def test_should_go_on_with_the_combinations_that_are_missing(tmp_path: Path) -> None:
    def run(plan: Plan[SweepChunk], name: str) -> RunOutcome:
        console = Console(file=io.StringIO())
        return run_plan(plan, tmp_path / name, EngineChoice(Engine.LOCAL, cores=1), console=console, title="sweep")

    plan = planned(tmp_path, SMOKE, grid="max.warmup.replicas=1..20")
    assert isinstance(plan.work, SweepWork)
    failing: Sequence[SweepChunk] = plan.chunks
    with pytest.raises(ChunksFailed, match="stopped here"):
        run(replace(plan, work=FailingFrom(plan.work, 2), chunks=failing), "stopped")
    plan = planned(tmp_path / "again", SMOKE, grid="max.warmup.replicas=1..20")

    outcome = run(plan, "stopped")

    assert (outcome.chunks_found_done, outcome.rows_found_done, outcome.rows) == (2, FORECASTS_A_CHUNK, 20)
    assert outcome.rows_file.read_bytes() == run(plan, "in one go").rows_file.read_bytes()
