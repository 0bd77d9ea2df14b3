"""How the input of an active task flows: what waits for the task, and how much it has processed.

Streams tasks make these values, and heartbeats carry them to the coordinator. Source: the consumer metric
`records-lag`, and `TaskMetadata.endOffsets` with `TaskMetadata.committedOffsets` (KIP-744).
"""

from typing import NamedTuple


class TaskFlow(NamedTuple):
    """`lag`: the number of offsets in the task's input partitions that the task has not processed; None while the end
    of a partition is not known. `behind_ms`: the time in milliseconds by which the newest processed timestamp is behind
    the clock; 0 if nothing waits, and None if the task has processed nothing. `processed`: the number of input records
    that the task has processed since it was assigned.
    """

    lag: int | None
    behind_ms: int | None
    processed: int


def task_flow(lag: int | None, newest_ms: int, now_ms: int, processed: int) -> TaskFlow:
    """`newest_ms`: the newest processed timestamp; negative if the task has processed nothing."""
    if lag == 0:
        return TaskFlow(0, 0, processed)
    return TaskFlow(lag, None if newest_ms < 0 else max(0, now_ms - newest_ms), processed)
