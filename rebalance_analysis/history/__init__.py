"""Makes the history of one task, or of all tasks of a group, over recorded rebalances. A history has the triggers of
each rebalance, the changes of tasks, and the reasons. A history is made from recordings only. To find the reasons, each
recorded rebalance is run again. To find the changes, each rebalance is compared with the previous rebalance. The new
run may place a task on a different process than the recorded leader did. If the placements differ, the history shows
the recorded placement and marks the difference.
"""

from rebalance_analysis.history.group_history import GroupHistory as GroupHistory
from rebalance_analysis.history.group_history import GroupRebalance as GroupRebalance
from rebalance_analysis.history.group_history import group_history as group_history
from rebalance_analysis.history.past_rebalance import PastRebalance as PastRebalance
from rebalance_analysis.history.past_rebalance import PlacedCopy as PlacedCopy
from rebalance_analysis.history.past_rebalance import RebalanceFacts as RebalanceFacts
from rebalance_analysis.history.task_history import TaskChange as TaskChange
from rebalance_analysis.history.task_history import TaskHistory as TaskHistory
from rebalance_analysis.history.task_history import TaskRebalance as TaskRebalance
from rebalance_analysis.history.task_history import task_history as task_history
from rebalance_analysis.history.triggers import Trigger as Trigger
from rebalance_analysis.history.triggers import TriggerKind as TriggerKind
from rebalance_analysis.history.triggers import processes_in as processes_in
