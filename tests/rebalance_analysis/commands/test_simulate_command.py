"""`assignor simulate`: which rounds it starts from, what it prints and draws, and how it ends."""

import json
import re
from pathlib import Path
from typing import Any

from assignor.recording import rebalance_input
from rebalance_analysis.presentation.forecasts import forecast_text
from rebalance_analysis.rerun import parse_recorded
from rebalance_analysis.simulate import ForecastModel, forecast, forecast_document
from rebalance_analysis.what_if import AddedInstances, Changes, changed
from tests.checkout import ROOT, VECTORS
from tests.program import SMOKE, assignor, write_lines
from tests.rebalance_analysis.simulate.recorded_groups import grown_by_one
from tests.recorded import document, documents

WCFLOW = str(VECTORS / "recordings/wcflow.jsonl.gz")
THREADS = str(VECTORS / "recordings/threads2.jsonl.gz")
ONE_MORE = ("--add-instances", "1x2")


def lines_of(*arguments: str, exit_code: int = 0) -> list[dict[str, Any]]:
    ran = assignor("simulate", *arguments, "--format", "json")
    assert (ran.returncode, ran.stderr) == (exit_code, "")
    return [json.loads(line) for line in ran.stdout.splitlines()]


class TestText:
    def test_should_put_an_empty_line_between_groups(self) -> None:
        lines = assignor("simulate", THREADS, SMOKE).stdout.splitlines()
        assert [lines.index("threads2.14"), lines[lines.index("smoke.4") - 1]] == [0, ""]

    def test_should_name_the_tasks_that_are_still_behind_when_rounds_run_out(self, tmp_path: Path) -> None:
        recorded = write_lines(tmp_path / "grown.jsonl", [_line(grown_by_one(clients=1, tasks=4).snapshot)])
        slow = ("--standby-rate", "1000", "--append-rate", "2000", "--max-rounds", "3")
        ran = assignor("simulate", recorded, *slow, "-o", "wide")
        assert ran.returncode == 1
        assert ran.stdout.splitlines()[-1] == (
            "not stable after 3 rebalances and 20 min: 0 moves, 2 warm-ups, 0 standby moves; no task without owner; "
            "still not caught up: 0_1, 0_3"
        )

    def test_should_leave_out_rounds_in_the_middle_of_many(self) -> None:
        ahead = forecast(grown_by_one(clients=10, tasks=100))
        lines = forecast_text("many", forecast_document(ahead)).splitlines()
        assert len(ahead.rebalances) == 91
        assert lines[42] == "  ... 31 more ..."
        assert [lines[41].split()[0], lines[43].split()[0]] == ["40", "72"]
        assert lines[-1].startswith("stable after 46 rebalances, 45 follow-ups and 7 h 30 min: 90 moves, 90 warm-ups")

    def test_should_say_why_a_round_fails(self, tmp_path: Path) -> None:
        broken = document("recordings/smoke.jsonl.gz", "smoke.3")
        broken["input"]["cluster"]["topics"] = {}
        ran = assignor("simulate", write_lines(tmp_path / "broken.jsonl", [broken]), "-o", "wide")
        assert (ran.returncode, ran.stdout.splitlines()) == (
            1,
            [
                "smoke.3",
                "ends with an error in rebalance 1: every member is sent the error INCOMPLETE_SOURCE_TOPIC_METADATA",
            ],
        )


class TestRounds:
    def test_should_take_a_placement_problem(self, tmp_path: Path) -> None:
        problem = documents("placements.jsonl.gz")[0]
        (line,) = lines_of(write_lines(tmp_path / "p.jsonl", [problem]))
        assert line == {"id": problem["id"], "forecast": _as_json(parse_recorded(problem), ForecastModel())}

    def test_should_forecast_what_the_options_ask_for(self) -> None:
        model = ForecastModel(1000, 200, 3, 250, 10_000, 120_000, 0.5, 7)
        rates = ("--restore-rate", "1000", "--standby-rate", "200", "--append-rate", "3", "--rebalance-ms", "250")
        more = ("--session-timeout-ms", "10000", "--state-cleanup-delay-ms", "120000", "--jitter", "0.5", "--seed", "7")
        changes = ("--add-instances", "2x1", "--set", "max.warmup.replicas=4", "--max-rounds", "6")

        (line,) = lines_of(WCFLOW, "--id", "wcflow.3", *rates, *more, *changes, exit_code=1)

        recorded = parse_recorded(document("recordings/wcflow.jsonl.gz", "wcflow.3"))
        asked = Changes(configs={"max.warmup.replicas": "4"}, add_instances=(AddedInstances(2),))
        assert line["forecast"] == _as_json(changed(recorded, asked), model, max_rounds=6)

    def test_should_go_on_after_a_line_that_cannot_be_used(self, tmp_path: Path) -> None:
        file = tmp_path / "lines.jsonl"
        good = document("recordings/smoke.jsonl.gz", "smoke.3")
        file.write_text("\n".join(["nonsense", json.dumps({**good, "now_ms": -1}), json.dumps(good)]))
        ran = assignor("simulate", str(file), "--all", "--format", "json")
        assert ran.returncode == 2
        assert [json.loads(line)["id"] for line in ran.stdout.splitlines()] == ["smoke.3"]
        assert [line.split(": ")[:2] for line in ran.stderr.splitlines()] == [
            ["error", f"{file}:1"],
            ["error", f"{file}:2"],
        ]


class TestPicture:
    def test_should_draw_the_forecast_over_time(self, tmp_path: Path) -> None:
        file = tmp_path / "forecast.svg"
        assert assignor("simulate", WCFLOW, "--id", "wcflow.3", "--picture", str(file)).returncode == 0
        assert "time since the recorded rebalance, min" in file.read_text()

    def test_should_refuse_a_picture_of_several_forecasts(self, tmp_path: Path) -> None:
        ran = assignor("simulate", WCFLOW, SMOKE, "--picture", str(tmp_path / "f.svg"))
        assert (ran.returncode, list(tmp_path.iterdir())) == (2, [])
        assert "--picture: shows one forecast, and these are 2; choose with --group or --id" in ran.stderr


def _as_json(recorded: Any, model: ForecastModel, max_rounds: int = 1000) -> object:
    return json.loads(json.dumps(forecast_document(forecast(recorded, model, max_rounds=max_rounds), model)))


def _line(snapshot: Any) -> dict[str, object]:
    return {
        "format": "rebalance/1",
        "id": "grown",
        "group_id": "app",
        "generation_id": 1,
        "now_ms": 0,
        "source": "generated",
        "input": rebalance_input(snapshot),
    }


def test_should_print_what_the_documentation_shows() -> None:
    page = (ROOT / "docs/batch/forecast.md").read_text(encoding="utf-8")
    command, shown = (each.group(1) for each in re.finditer(r"```(?:shell|text)\n(.*?)```", page, re.DOTALL))
    arguments = command.replace("\\\n", " ").split()
    ran = assignor(*[str(ROOT / word) if word.startswith("tests/") else word for word in arguments[1:]])
    assert (ran.returncode, ran.stdout) == (0, shown)
