"""What happened to a task, or to all tasks of a group, over recorded rebalances, and what set each rebalance off.

Everything comes from the recordings: a rebalance run again gives the reasons, two in a row give what changed between
them. Where this program would have placed a task elsewhere than the recorded leader did, the history follows the
recording and says so.
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
