"""Times and durations that no option can mean are refused by name."""

import pytest

from assignor.errors import InputError
from streams_runtime.cli.data_options import duration_ms, time_ms


@pytest.mark.parametrize("text", ["", "2026-13-01", "10000-01-01", "9" * 5000, "9223372036854775808", "\u0663"])
def test_should_refuse_what_is_no_time(text: str) -> None:
    with pytest.raises(InputError, match="--since: must be milliseconds since the epoch") as refused:
        time_ms(text, "--since")
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("text", ["", "P", "7D", "P1Y", "P999999999999D", f"P{'9' * 400}D"])
def test_should_refuse_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="--by-duration: must be"):
        duration_ms(text, "--by-duration")


def test_should_read_the_last_time_that_a_record_can_have() -> None:
    assert time_ms("9223372036854775807", "--since") == 2**63 - 1
