"""The order of faults: by chance, and each kind as often as any other."""

from __future__ import annotations

import random
from collections.abc import Sequence


def drawn(kinds: Sequence[str], count: int, chance: random.Random) -> list[str]:
    """So many, in rounds. A round has each kind once; what is left over at the end is a part of a round."""
    found: list[str] = []
    while len(found) < count:
        found += chance.sample(kinds, len(kinds))
    return found[:count]
