"""Which directory of a task is obsolete: nobody has it, and nothing in it has changed for longer than the delay.

A decision on values; `StateDirectory.clean_obsolete` looks, locks, looks again and deletes. It has to look twice,
because a thread may have used the directory between the first look and the lock. Source: `StateDirectory`,
state.cleanup.delay.ms.
"""

from __future__ import annotations

from typing import NamedTuple


class DirectoryLook(NamedTuple):
    """What was seen of a task's directory. `changed_ms`: when anything in it last changed, since the epoch.

    `is_used`: a thread of this process has it. The lock of the one that cleans does not count.
    """

    changed_ms: int
    is_used: bool


def obsolete_for_ms(seen: DirectoryLook, now_ms: int, cleanup_delay_ms: int) -> int | None:
    """How long the directory has not changed, if that makes it obsolete; None when it is to stay."""
    unchanged_ms = now_ms - seen.changed_ms
    return None if seen.is_used or unchanged_ms <= cleanup_delay_ms else unchanged_ms
