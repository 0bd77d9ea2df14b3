"""`assignor sweep` from the command line: what it prints and leaves, on both engines, and what it refuses."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.checkout import VECTORS
from tests.program import SMOKE, assignor, write_lines

RECORDINGS = str(VECTORS / "recordings")
SMALL = ("--grid", "max.warmup.replicas=1|2|4,num.standby.replicas=0|1", "--engine", "local", "--cores", "1")

pytestmark = pytest.mark.usefixtures("chunks_in_this_process")


def files(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir() if not file.name.startswith(".")}


def test_should_print_the_front_and_leave_rows_picture_and_rejects(tmp_path: Path) -> None:
    output = tmp_path / "out"

    other = write_lines(tmp_path / "other.jsonl", [{"format": "other"}] * 6)

    ran = assignor("sweep", SMOKE, other, *SMALL, "--output", str(output))

    assert ran.returncode == 0, ran.stderr
    assert "Pareto front of 6 combinations over 2 episodes of 1 group" in ran.stdout
    assert "Kafka's defaults" in ran.stdout
    assert "12 forecasts in" in ran.stderr
    assert f"6 lines could not be used, for the reasons in {output / 'rejects.jsonl'}" in ran.stderr
    assert files(output) == {
        "forecasts.parquet", "front.json", "pareto.svg", "plan.json", "rejects.jsonl", "timings.parquet",
    }  # fmt: skip
    rows = pq.read_table(output / "forecasts.parquet")
    assert rows.num_rows == 6
    assert rows.column("num.standby.replicas").to_pylist() == [0, 1, 0, 1, 0, 1]
    assert "compute_ms" not in rows.column_names
    assert pq.read_table(output / "timings.parquet").column_names == ["group_id", "combination", "compute_ms"]


def test_should_show_the_traffic_across_racks_where_it_is_known(tmp_path: Path) -> None:
    grid = ("--grid", "rack.aware.assignment.strategy=none|min_traffic", *SMALL[2:])
    output = tmp_path / "out"

    ran = assignor("sweep", f"{RECORDINGS}/racks.jsonl.gz", *grid, "--output", str(output), "--format", "json")

    assert ran.returncode == 0, ran.stderr
    reads = pq.read_table(output / "forecasts.parquet").column("cross_rack_reads").to_pylist()
    assert reads[1] < reads[0]
    assert {each["cross_rack_reads"] for each in json.loads(ran.stdout)["front"]} <= set(reads)


def test_should_give_the_same_document_to_a_reader_of_json(tmp_path: Path) -> None:
    output = tmp_path / "out"
    first = assignor("sweep", SMOKE, *SMALL, "--output", str(output), "--format", "json")
    again = assignor("sweep", SMOKE, *SMALL, "--output", str(output), "--format", "json")

    document = json.loads(first.stdout)
    assert document == json.loads((output / "front.json").read_text())
    assert (document["combinations"], document["episodes"], document["groups"]) == (6, 2, 1)
    assert again.stdout == first.stdout
    assert "12 forecasts found finished" in again.stderr


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.usefixtures("chunks_on_this_spark")
def test_should_leave_the_same_bytes_on_spark(tmp_path: Path) -> None:
    local, spark = tmp_path / "local", tmp_path / "spark"
    other = write_lines(tmp_path / "other.jsonl", [{"format": "other"}] * 6)
    inputs = (SMOKE, f"{RECORDINGS}/racks.jsonl.gz", other)

    of_local = assignor("sweep", *inputs, *SMALL, "--output", str(local))
    of_spark = assignor("sweep", *inputs, *SMALL[:2], "--master", "local[2]", "--output", str(spark))

    assert of_spark.returncode == 0, of_spark.stderr
    assert of_spark.stdout == of_local.stdout
    for name in ("forecasts.parquet", "rejects.jsonl", "front.json", "pareto.svg"):
        assert (spark / name).read_bytes() == (local / name).read_bytes(), name


def test_should_draw_where_it_is_told(tmp_path: Path) -> None:
    ran = assignor("sweep", SMOKE, *SMALL, "--output", str(tmp_path / "out"), "--plot", str(tmp_path / "front.png"))

    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
    assert "pareto.svg" not in files(tmp_path / "out")


def test_should_end_with_1_when_no_combination_lets_every_episode_settle(tmp_path: Path) -> None:
    ran = assignor("sweep", SMOKE, *SMALL, "--output", str(tmp_path / "out"), "--remove", "nobody")

    assert ran.returncode == 1
    assert "no combination lets every episode settle" in ran.stderr
    assert "0 of 2 settle" in ran.stdout


@pytest.mark.parametrize(
    "options, problem",
    [
        (
            ("--grid", "max.warmup.replicas=1..3", "--set", "max.warmup.replicas=2"),
            "--grid: max.warmup.replicas is also set by an option; leave it to one of them",
        ),
        (("--grid", "assignor=no.such.module:Mine"), "there is no module 'no' to import"),
        (
            ("--grid", "acceptable.recovery.lag=0..700000"),
            "--grid: 700,001 combinations from 2 episodes are 1,400,002 forecasts; one run makes at most 1,000,000",
        ),
        (("--grid", "max.warmup.replicas=1", "--plot", "front.txt"), "a picture's name ends in .svg or .png"),
        (("--grid", "max.warmup.replicas=1", "--max-rounds", "0"), "--max-rounds: must be from 1 to"),
    ],
)
def test_should_refuse_what_makes_no_sweep_in_one_line(options: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    ran = assignor("sweep", SMOKE, *options, "--engine", "local", "--output", str(tmp_path / "out"))

    assert ran.returncode == 2
    assert problem in ran.stderr
    assert "Traceback" not in ran.stderr


def test_should_refuse_inputs_without_a_rebalance_and_leave_nothing(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "lines.jsonl", [{}, {}])

    ran = assignor("sweep", empty, *SMALL, "--output", str(tmp_path / "out"))

    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"{empty}: there is no rebalance to start from (2 lines cannot be used)" in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_should_throw_the_old_front_away_when_a_sweep_is_restarted(tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert assignor("sweep", SMOKE, *SMALL, "--output", str(output)).returncode == 0
    (output / "front.json").write_text("old")
    empty = write_lines(tmp_path / "lines.jsonl", [{}])

    refused = assignor("sweep", empty, *SMALL, "--output", str(output), "--restart")
    kept = (output / "front.json").read_text()
    again = assignor("sweep", SMOKE, *SMALL, "--output", str(output), "--restart")

    assert (refused.returncode, kept) == (2, "old")
    assert again.returncode == 0
    assert (output / "front.json").read_text().startswith("{")
