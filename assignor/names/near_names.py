"""Suggests the known name that is closest to a misspelt name, for errors that end in "did you mean".

A weak match would mislead, so it is not suggested.
"""

import difflib
from collections.abc import Iterable

_CLOSE = 0.6
_PART_COUNTS = 0.9
"""If only a part of a name matches, the ratio is multiplied by this factor. So a match of the whole name ranks
higher.
"""


def near_name(wrong: str, known: Iterable[str], at_least: float = _CLOSE) -> str | None:
    """Returns the known name that is closest to `wrong`. Returns None if the `difflib` ratio (0 to 1) of the closest
    name is below `at_least`.

    A wrong name without dots is also compared with the parts of a dotted name: `standbys` is close to
    `num.standby.replicas`. The comparison ignores case, and treats dashes and underscores as dots.
    """
    written = _plain(wrong)
    scored = [(_likeness(written, _plain(name)), name) for name in sorted(known)]
    best, name = max(scored, key=lambda each: each[0], default=(0.0, ""))
    return name if best >= at_least else None


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Returns a suffix for an error message, such as `; did you mean 'x'?`, or an empty text if no known name is
    close.
    """
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
