"""Which directories are obsolete, as a decision on values."""

from __future__ import annotations

import pytest

from streams_runtime.tasks.obsolete_directories import DirectoryLook, obsolete_for_ms


@pytest.mark.parametrize(
    ("seen", "answer"),
    [
        (DirectoryLook(changed_ms=100, is_used=False), 900),
        (DirectoryLook(changed_ms=401, is_used=False), None),
        (DirectoryLook(changed_ms=400, is_used=False), None),  # longer than the delay, not as long
        (DirectoryLook(changed_ms=399, is_used=False), 601),
        (DirectoryLook(changed_ms=100, is_used=True), None),
        (DirectoryLook(changed_ms=5_000, is_used=False), None),  # the clock was set back
    ],
)
def test_should_call_a_directory_obsolete_that_nobody_used_for_longer_than_the_delay(
    seen: DirectoryLook, answer: int | None
) -> None:
    assert obsolete_for_ms(seen, now_ms=1_000, cleanup_delay_ms=600) == answer
