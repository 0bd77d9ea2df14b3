"""Keeps Python's cycle collector away from computations that make no cycles, and from objects that stay.

A rebalance makes hundreds of thousands of small values. The collector starts again for every few hundred of them, and
looks through all that live: up to a third of the time of a large rebalance. They are all freed without it.
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
        gc.enable()


def freeze_loaded_objects() -> None:
    """Have the collector never look at the present objects again: modules, classes, functions.

    A full collection looks at every object, and the modules of a process are a few hundred thousand. For a process that
    only serves, to call once when everything is loaded: cycles among these objects are never freed.
    """
    gc.collect()
    gc.freeze()
