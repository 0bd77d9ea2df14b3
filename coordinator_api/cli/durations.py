"""Durations as people type them: 500ms, 60s, 10m, 1h, 1h30m."""

from __future__ import annotations

import re

from assignor.errors import InputError

_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6})s)?(?:(\d{1,9})ms)?")


def duration_ms(text: str, option: str) -> int:
    """In milliseconds. Raises InputError, with the option's name, for anything else."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise InputError(f"must be a duration such as 60s, 10m or 1h30m, not {text!r}", option)
    return sum(int(count) * unit_ms for count, unit_ms in zip(match.groups(), _UNIT_MS.values(), strict=True) if count)
