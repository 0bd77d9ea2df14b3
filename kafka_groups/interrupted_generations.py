"""The recorded line of a generation that began and never got an assignment. Pure.

No record describes such a generation: its leader was gone, or another rebalance overtook it. Its members sent their
subscriptions again for the next generation. So the line has the input of the next generation, and no output.
"""

from __future__ import annotations

from collections.abc import Mapping

OVERTAKEN = "another rebalance overtook it"

_OF_THE_OUTCOME = ("output", "led_by")


def interrupted_document(id: str, generation_id: int, why: str, following: Mapping[str, object]) -> dict[str, object]:
    """A rebalance/1 line. `why`: a clause, such as `OVERTAKEN`. `following`: the line of the next generation."""
    line = {key: value for key, value in following.items() if key not in _OF_THE_OUTCOME}
    return {
        **line,
        "id": id,
        "generation_id": generation_id,
        "note": f"this generation never got an assignment: {why}; the input is that of generation "
        f"{following['generation_id']}, which came next",
        "interrupted": True,
    }
