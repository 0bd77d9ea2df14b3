"""On which rack an added instance is: nobody says so, and a rack-aware strategy needs to know.

Rule: each new instance is on the rack that has the fewest instances so far, those added before it included; of several,
on the first by name. Where no instance has a rack, a new one has none. So racks stay as even as they can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator


def new_racks(racks: Iterable[str | None]) -> Iterator[str | None]:
    """`racks`: of the instances that there are. Endless: the rack of each new one."""
    instances = Counter(rack for rack in racks if rack is not None)
    while True:
        rack = min(instances, key=lambda each: (instances[each], each), default=None)
        if rack is not None:
            instances[rack] += 1
        yield rack
