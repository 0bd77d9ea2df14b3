"""Times and durations as options say them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from assignor.errors import InputError
from assignor.types import JAVA_LONG_MAX

_LONGEST_SHOWN = 80
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,3})?)S)?)?\Z"
)


def time_ms(text: str, option: str) -> int:
    """Milliseconds since the epoch, or a date and time as in ISO 8601; without a zone it is local time. Raises
    InputError.
    """
    try:
        if text.isascii() and text.isdigit():
            return _within_long(int(text))
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError):
        raise InputError(
            f"must be milliseconds since the epoch, or a time such as 2026-11-22T19:00:00Z, not {_shortened(text)}",
            option,
        ) from None


def duration_ms(text: str, option: str) -> int:
    """`PnDTnHnMnS`, as Kafka's tools take it. Raises InputError."""
    match = _DURATION.match(text)
    parts = {} if match is None else {name: float(found) for name, found in match.groupdict().items() if found}
    if not parts:
        raise InputError(f"must be a duration such as P7D or PT1H30M, not {_shortened(text)}", option)
    try:
        return round(timedelta(**parts).total_seconds() * 1_000)
    except OverflowError:
        raise InputError(f"must be at most {timedelta.max.days:,} days, not {_shortened(text)}", option) from None


def _within_long(value: int) -> int:
    if value > JAVA_LONG_MAX:
        raise OverflowError
    return value


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def checked_timestamp_ms(value: int, option: str) -> int:
    """Raises InputError for a time before the epoch, which no record can have."""
    if value < 0:
        raise InputError(f"must not be before the epoch, and {value} ms is", option)
    return value
