"""The recorded line of a generation that began and never got an assignment. Pure.

Nobody writes down what such a generation was about: its leader was gone, or another rebalance overtook it. What its
members sent, they sent again for the generation that came next. So the line has that one's input, and no output.
"""

from __future__ import annotations

from collections.abc import Mapping

OVERTAKEN = "another rebalance overtook it"

_OF_THE_OUTCOME = ("output", "led_by")


def interrupted_document(id: str, generation_id: int, why: str, following: Mapping[str, object]) -> dict[str, object]:
    """A rebalance/1 line. `why`: a clause. `following`: the line of the generation that came next."""
    line = {key: value for key, value in following.items() if key not in _OF_THE_OUTCOME}
    return {
        **line,
        "id": id,
        "generation_id": generation_id,
        "note": f"this generation never got an assignment: {why}; the input is that of generation "
        f"{following['generation_id']}, which came next",
        "interrupted": True,
    }
