"""A recorded round under other conditions: `Changes` say which, `changed` makes the round, `difference` compares two.

The changed round goes through the very code that decides (`assignor.rerun`); nothing of it is estimated.
"""

from assignor.what_if.changed_document import changed_document
from assignor.what_if.changed_round import changed
from assignor.what_if.changes import EVERY_PROCESS, AddedInstances, Changes
from assignor.what_if.changes_document import changes_document, changes_from_document
from assignor.what_if.difference import ComparedRebalance, Difference, TaskDifference, difference
from assignor.what_if.difference_document import difference_document
from assignor.what_if.process_copies import ProcessCopies, copies_by_process

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
