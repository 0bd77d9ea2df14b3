"""A recorded rebalance under other conditions: `Changes` names them, `changed` applies them, `difference` compares.

The changed rebalance goes through the code that leads a real group (`rebalance_analysis.rerun`); nothing of it is
estimated.
"""

from rebalance_analysis.what_if.changed_rebalance import changed, changed_document
from rebalance_analysis.what_if.changes import (
    EVERY_PROCESS,
    AddedInstances,
    Changes,
    changes_document,
    changes_from_document,
)
from rebalance_analysis.what_if.difference import (
    ComparedRebalance,
    Difference,
    ProcessCopies,
    TaskDifference,
    copies_by_process,
    difference,
    difference_document,
)

__all__ = [
    "EVERY_PROCESS",
    "AddedInstances",
    "Changes",
    "ComparedRebalance",
    "Difference",
    "ProcessCopies",
    "TaskDifference",
    "changed",
    "changed_document",
    "changes_document",
    "changes_from_document",
    "copies_by_process",
    "difference",
    "difference_document",
]
