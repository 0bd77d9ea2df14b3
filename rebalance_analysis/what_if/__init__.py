"""Runs a recorded rebalance under other conditions. The class `Changes` has the changed conditions. `changed` applies
the changes. `difference` compares two results.

The result of the changed rebalance is not an estimate: the code that leads real groups computes it
(`rebalance_analysis.rerun`).
"""

from rebalance_analysis.what_if.changed_rebalance import changed as changed
from rebalance_analysis.what_if.changes import EVERY_PROCESS as EVERY_PROCESS
from rebalance_analysis.what_if.changes import AddedInstances as AddedInstances
from rebalance_analysis.what_if.changes import Changes as Changes
from rebalance_analysis.what_if.changes import changes_document as changes_document
from rebalance_analysis.what_if.changes import changes_from_document as changes_from_document
from rebalance_analysis.what_if.difference import difference as difference
from rebalance_analysis.what_if.difference import difference_document as difference_document
