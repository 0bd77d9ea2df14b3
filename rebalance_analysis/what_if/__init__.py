"""A recorded rebalance under other conditions: `Changes` has the conditions, `changed` applies them, and `difference`
compares two results.

The changed rebalance is decided by the code that leads a real group (`rebalance_analysis.rerun`), not estimated.
"""

from rebalance_analysis.what_if.changed_rebalance import changed
from rebalance_analysis.what_if.changes import (
    EVERY_PROCESS,
    AddedInstances,
    Changes,
    changes_document,
    changes_from_document,
)
from rebalance_analysis.what_if.difference import difference, difference_document

__all__ = [
    "EVERY_PROCESS",
    "AddedInstances",
    "Changes",
    "changed",
    "changes_document",
    "changes_from_document",
    "difference",
    "difference_document",
]
