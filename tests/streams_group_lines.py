"""Lines of streams_group/1: what a broker's assignor for streams groups was asked, and its answer by member.

`members`: by id, in the order in which the broker's map got them; each with its process, and what it had. `output`: the
tasks of each member, `active`, `standby` and `warm_up`, as Kafka's own class placed them.
"""

from typing import Any

from assignor.recording.streams_group import parse_recorded_streams_group
from rebalance_analysis.rerun import run_streams_group

Line = dict[str, Any]


def placed_here(line: Line) -> dict[str, object]:
    """In the form of `output`."""
    return run_streams_group(parse_recorded_streams_group(line)).output()
