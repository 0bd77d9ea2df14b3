"""The known name that a wrong one was probably meant to be, for every error that ends in "did you mean".

A name that is only a little alike misleads, so there may be none.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CLOSE = 0.6
_PART_COUNTS = 0.9
"""A name that is alike as a whole comes before one of which only a part is alike."""


def near_name(wrong: str, known: Iterable[str], at_least: float = _CLOSE) -> str | None:
    """None when no name is as close as `at_least`, from 0 to 1 (the ratio of `difflib`).

    A wrong name without dots may be close to one part of a dotted name: `standbys` to `num.standby.replicas`. Case,
    dashes and underscores do not count.
    """
    written = _plain(wrong)
    scored = [(_likeness(written, _plain(name)), name) for name in sorted(known)]
    best, name = max(scored, key=lambda each: each[0], default=(0.0, ""))
    return name if best >= at_least else None


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """The end of an error about a wrong name, without a full stop: empty when no name is close."""
    near = near_name(wrong, known)
    return "" if near is None else f"; did you mean {near!r}?"


def _plain(name: str) -> str:
    return name.lower().strip("-").replace("_", ".").replace("-", ".")


def _likeness(wrong: str, name: str) -> float:
    whole = _ratio(wrong, name)
    if "." in wrong:
        return whole
    return max(whole, _PART_COUNTS * max(_ratio(wrong, part) for part in name.split(".")))


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
