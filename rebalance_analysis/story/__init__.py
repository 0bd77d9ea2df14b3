"""What happened to a task, or to all tasks of a group, over recorded rebalances, and what set each rebalance off.

Everything comes from the recordings: a rebalance run again gives the reasons, two in a row give what changed between
them. Where this program would have placed a task elsewhere than the recorded leader did, the story follows the
recording and says so.
"""

from rebalance_analysis.story.documents import group_story_document, task_story_document
from rebalance_analysis.story.group_story import GroupRebalance, GroupStory, Move, group_story
from rebalance_analysis.story.past_rebalance import PastRebalance, RebalanceFacts
from rebalance_analysis.story.recorded_copies import PlacedCopy
from rebalance_analysis.story.task_rebalance import TaskChange, TaskRebalance, TaskWaiting
from rebalance_analysis.story.task_story import TaskStory, TaskSummary, story
from rebalance_analysis.story.triggers import Trigger, TriggerKind

__all__ = [
    "GroupRebalance",
    "GroupStory",
    "Move",
    "PastRebalance",
    "PlacedCopy",
    "RebalanceFacts",
    "TaskChange",
    "TaskRebalance",
    "TaskStory",
    "TaskSummary",
    "TaskWaiting",
    "Trigger",
    "TriggerKind",
    "group_story",
    "group_story_document",
    "story",
    "task_story_document",
]
