"""What happened to a task, or to all tasks of a group, over recorded rebalances, and what set each rebalance off.

Everything comes from the recordings: a rebalance run again gives the reasons, two in a row give what changed between
them. Where this program would have placed a task elsewhere than the recorded leader did, the history follows the
recording and says so.
"""

from rebalance_analysis.history.documents import group_history_document, task_history_document
from rebalance_analysis.history.group_history import GroupHistory, GroupRebalance, Move, group_history
from rebalance_analysis.history.past_rebalance import PastRebalance, RebalanceFacts
from rebalance_analysis.history.recorded_copies import PlacedCopy
from rebalance_analysis.history.task_history import (
    TaskChange,
    TaskHistory,
    TaskRebalance,
    TaskSummary,
    TaskWaiting,
    task_history,
)
from rebalance_analysis.history.triggers import Trigger, TriggerKind

__all__ = [
    "GroupHistory",
    "GroupRebalance",
    "Move",
    "PastRebalance",
    "PlacedCopy",
    "RebalanceFacts",
    "TaskChange",
    "TaskHistory",
    "TaskRebalance",
    "TaskSummary",
    "TaskWaiting",
    "Trigger",
    "TriggerKind",
    "group_history",
    "group_history_document",
    "task_history",
    "task_history_document",
]
