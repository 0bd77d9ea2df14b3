"""What became of a task, or of all tasks of a group, over recorded rounds, with what set each round off.

Everything is told from the recordings: one round run again gives the reasons, two rounds in a row what changed between
them. Where a recorded placement is not the one this program decides, the recorded one is told, and marked.
"""

from assignor.story.documents import group_story_document, task_story_document
from assignor.story.group_story import GroupRebalance, GroupStory, Move, group_story
from assignor.story.past_rebalance import PastRebalance, RebalanceFacts
from assignor.story.recorded_copies import PlacedCopy
from assignor.story.task_story import TaskChange, TaskRebalance, TaskStory, TaskSummary, TaskWaiting, story
from assignor.story.triggers import Trigger, TriggerKind

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
