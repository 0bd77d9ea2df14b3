"""The history of one task, or of all tasks of a group, over recorded rebalances, with the triggers of each rebalance.

Everything comes from the recordings: running a rebalance again gives the reasons, and comparing it with the previous
rebalance gives the changes. Where this program would have placed a task elsewhere than the recorded leader did, the
history follows the recording and marks the difference.
"""

from rebalance_analysis.history.group_history import (
    GroupHistory,
    GroupRebalance,
    group_history,
    group_history_document,
    task_history_document,
)
from rebalance_analysis.history.past_rebalance import PastRebalance, PlacedCopy, RebalanceFacts
from rebalance_analysis.history.task_history import TaskChange, TaskHistory, TaskRebalance, task_history
from rebalance_analysis.history.triggers import Trigger, TriggerKind

__all__ = [
    "GroupHistory",
    "GroupRebalance",
    "PastRebalance",
    "PlacedCopy",
    "RebalanceFacts",
    "TaskChange",
    "TaskHistory",
    "TaskRebalance",
    "Trigger",
    "TriggerKind",
    "group_history",
    "group_history_document",
    "task_history",
    "task_history_document",
]
