"""Keeps Python's cycle collector away from a computation that makes no cycles.

A rebalance makes hundreds of thousands of small values. The collector starts again for every few hundred of them, and
looks through all that live: up to a third of the time of a large rebalance. They are all freed without it. Those that
live on count as old afterwards, as if it had been through them: otherwise its next run would begin with all of them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """The collector starts no run inside, and goes on afterwards. Of several threads at a time the first one decides;
    where somebody else has switched it off, it stays off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # what somebody else has frozen stays frozen
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
        gc.enable()
