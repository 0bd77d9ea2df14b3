"""Recordings with one thing changed, removed or replaced by something odd."""

import copy
import gzip
import json
from typing import Any

from hypothesis import strategies as st

from tests.checkout import VECTORS

leaves = (
    st.none()
    | st.booleans()
    | st.sampled_from(
        [0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 10**30, 0.5, 1e308, "", "\x00", "\ud800"]
    )
    | st.text(max_size=8)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def paths_in(document: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    if isinstance(document, dict):
        for key, value in document.items():
            found += paths_in(value, (*path, key))
    elif isinstance(document, list):
        for number, value in enumerate(document[:4]):
            found += paths_in(value, (*path, number))
    return found


def changed(document: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """A copy with another value, or without one for Ellipsis, at `path`."""
    copied = copy.deepcopy(document)
    place: Any = copied
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copied


def one_change(data: st.DataObject, document: dict[str, Any]) -> dict[str, Any]:
    path = data.draw(st.sampled_from(paths_in(document)))
    return changed(document, path, data.draw(values | st.just(...)))


def recordings() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in ("placements", "placements_tags", "placements_rack", "rebalances"):
        with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            documents = [json.loads(line) for _, line in zip(range(40), lines, strict=False)]
        found += sorted(documents, key=lambda document: len(json.dumps(document)))[:8]
    return found


RECORDINGS = recordings()
