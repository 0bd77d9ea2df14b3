"""What a run shows of how far it is."""

import io

from rich.console import Console

from spark_engine.batch.terminal import RowsProgress


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_should_say_a_line_every_five_seconds_when_there_is_no_terminal() -> None:
    talk, clock = io.StringIO(), Clock()
    with RowsProgress(Console(file=talk, width=40), "squares", clock) as progress:
        for second in range(13):
            clock.now_s = 100.0 + second
            progress.show(1_000 + 100 * second, 5_000, second // 10)
        progress.report("done")
    assert talk.getvalue().splitlines() == [
        "squares: 1,500 of 5,000 rows, 100 rows/s, 0:35 left",
        "squares: 2,000 of 5,000 rows (1 rejects), 100 rows/s, 0:30 left",
        "squares: done",
    ]


def test_should_give_the_rate_of_the_last_half_minute() -> None:
    talk, clock = io.StringIO(), Clock()
    with RowsProgress(Console(file=talk), "squares", clock) as progress:
        for second in range(61):
            clock.now_s = 100.0 + second
            planned = 1_000_001 if second < 50 else 1_000_000  # a chunk gave less than planned
            progress.show(1_000 * min(second, 20) + 10 * max(0, second - 20), planned, 0)
    assert talk.getvalue().splitlines()[-1] == "squares: 20,400 of 1,000,000 rows, 10 rows/s, 27:12:40 left"


def test_should_draw_a_bar_when_there_is_a_terminal() -> None:
    talk, clock = io.StringIO(), Clock()
    with RowsProgress(Console(file=talk, width=100, force_terminal=True), "squares", clock) as progress:
        for done in (0, 100, 200):
            progress.show(done, 300, 0)
            clock.now_s += 1.0
    assert "━" in talk.getvalue()
    assert "200 of 300 rows, 100 rows/s, 0:01 left" in talk.getvalue()
