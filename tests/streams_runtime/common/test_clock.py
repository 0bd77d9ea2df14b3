import pytest

from streams_runtime.common.clock import TOLERANCE_MS, difference_text

DATE_MS = 1_000_000


@pytest.mark.parametrize(
    ("asked_ms", "answered_ms", "text"),
    [
        (DATE_MS, DATE_MS + 10, None),
        (DATE_MS - 60_000, DATE_MS + 60_000, None),  # a call that took long shows nothing
        (DATE_MS + TOLERANCE_MS, DATE_MS + TOLERANCE_MS, None),
        (
            DATE_MS + TOLERANCE_MS + 1,
            DATE_MS + TOLERANCE_MS + 2,
            "the clock of this instance is 0:00:05 ahead of the clock of the coordinator",
        ),
        (
            DATE_MS - 86_400_500,
            DATE_MS - 86_400_400,
            "the clock of this instance is 1 day, 0:00:00 behind the clock of the coordinator",
        ),
    ],
)
def test_should_tell_by_how_much_two_clocks_differ(asked_ms: int, answered_ms: int, text: str | None) -> None:
    assert difference_text(DATE_MS, asked_ms, answered_ms) == text
