"""The picture of a front: always the same bytes, numbered as the table is, and there whatever the sweep came to."""

import re
from pathlib import Path

from rebalance_analysis.sweep.front_picture import draw_front
from tests.spark_jobs.sweep.sweep_rows import Came, result_of


def texts(picture: Path) -> list[str]:
    """Every text of an SVG."""
    return [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text("utf-8"))]


def test_should_number_the_front_and_say_which_combinations_the_numbers_are(tmp_path: Path) -> None:
    result = result_of(
        "max.warmup.replicas=1..3,num.standby.replicas=0|1",
        Came((90_000,), moves=4), Came((90_000,), moves=14, standbys=10),
        Came((50_000,), moves=9, skew=1), Came((30_000,), moves=24, standbys=10, skew=1),
        Came((60_000,), moves=9, skew=1), Came((30_000,), moves=24, standbys=10, skew=1),
    )  # fmt: skip
    picture = tmp_path / "front.svg"

    draw_front(result, picture)

    found = texts(picture)
    assert "Pareto front of 6 combinations over 1 episode of 1 group" in found
    assert [text for text in found if text in {"1", "2", "3", "4"}] == ["1", "2", "3", "4"]
    assert [" ".join(text.split()) for text in found if " × " in text] == ["1 2|3 × 1", "2 2 × 0", "3 1 × 0", "4 1 × 1"]
    assert {"Kafka's defaults", "skew 0", "skew 1", "0.00 standbys a task", "1.00 standbys a task"} <= set(found)


def test_should_write_the_same_bytes_for_the_same_result(tmp_path: Path) -> None:
    result = result_of("max.warmup.replicas=1|2", Came((5,), moves=9), Came((90_000,), moves=4))

    for name in ("a.svg", "b.svg"):
        draw_front(result, tmp_path / name)

    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_should_say_so_when_nothing_settles(tmp_path: Path) -> None:
    draw_front(result_of("max.warmup.replicas=1|2", Came((None,)), Came((None,))), tmp_path / "front.svg")

    assert "no combination lets every episode settle" in texts(tmp_path / "front.svg")
    assert "2 of 2 do not settle" in texts(tmp_path / "front.svg")


def test_should_shorten_the_key_and_draw_many_standby_levels_as_a_scale(tmp_path: Path) -> None:
    many = [Came((1_000 * (40 - number),), moves=number, standbys=number) for number in range(40)]

    draw_front(result_of("acceptable.recovery.lag=0..39", *many), tmp_path / "front.svg")

    found = texts(tmp_path / "front.svg")
    assert "and 25 more" in found
    assert "standbys per stateful task" in found
