"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def count(number: int | None) -> str:
    """`12 345`, with thin spaces; a dash for what is not known."""
    return "–" if number is None else f"{number:,}".replace(",", "\u202f")


def duration(ms: int) -> str:
    """The two largest units: `2 min 5 s`. A negative one is over: `0 s`. static/countdown.js has the same."""
    left = max(ms, 0)
    parts: list[tuple[int, str]] = []
    for unit_ms, name in _UNITS:
        number, left = divmod(left, unit_ms)
        if number or parts:
            parts.append((number, name))
        if len(parts) == 2:
            break
    said = " ".join(f"{number}\u00a0{name}" for number, name in parts if number)
    return said or "0\u00a0s"


def utc(at_ms: int) -> str:
    """`2026-11-23 07:23:49 UTC`."""
    return _at(at_ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc_iso(at_ms: int) -> str:
    """For `datetime` of a `<time>`."""
    return _at(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 member`, `2 members`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def _at(at_ms: int) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a report may have any number
        return datetime.fromtimestamp(0, UTC)
