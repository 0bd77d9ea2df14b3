"""A group whose newest records are lost, because a backup from before the loss was restored.

In the lost time the group may have had members and generations of which nothing is known here. So it comes back as if
its members had never joined, in a generation above any that may have been given out since:

- Each member is unknown, whatever it holds. It drops its tasks and joins again, so no task is given to two members.
- Whoever compares generations (a client of the instances' stores takes the newest answer) does not prefer one of the
  lost time.

A group that is led elsewhere stays as it is: its leader counts the generations, and reports again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assignor.errors import AssignorFault, InputError
from assignor.types import JAVA_INT_MAX
from coordinator_api.group.image import ClassicGroupMembers, GroupImage
from coordinator_api.group.record_codec import decode_record, encode_record
from coordinator_api.group.records import IllegalTransition
from coordinator_api.group.snapshot import snapshot_records
from coordinator_api.group.states import GroupState

LOST_GENERATIONS = 1_000_000
"""More than a group has in the time between a backup and a loss: one rebalance each second for eleven days."""


class LogDoesNotReplay(AssignorFault):
    """Records that cannot be read, or do not fit together. A coordinator does not lead such a group."""


def without_members(image: GroupImage, generation_id: int) -> GroupImage:
    """The group as Empty, in this generation. All else stays: definition, draining, how the last rebalance ended, and
    levers, but for the drains of instances, which end with their members.
    """
    return replace(
        image,
        state=GroupState.EMPTY,
        generation_id=generation_id,
        initial=False,
        cause=None,
        members=ClassicGroupMembers(),
        held=None,
        kept_because=None,
        approved_generation=None,
        promoted={},
        levers=replace(image.levers, drained={}),
    )


def log_after_a_loss(records: Sequence[str]) -> tuple[str, ...]:
    """The log of a group whose later records may be lost, made of the records that are left, oldest first.

    Raises LogDoesNotReplay, and InputError when no generation is left.
    """
    image = GroupImage()
    try:
        for record in records:
            image = decode_record(record).apply(image)
    except (InputError, IllegalTransition) as fault:
        raise LogDoesNotReplay(str(fault)) from fault
    if image.led_by is not None or image.state is GroupState.DEAD:
        return tuple(records)
    generation_id = image.generation_id + LOST_GENERATIONS
    if generation_id > JAVA_INT_MAX:
        raise InputError(f"generation {image.generation_id} cannot be raised by {LOST_GENERATIONS:,}: declare it anew")
    return tuple(map(encode_record, snapshot_records(without_members(image, generation_id))))
