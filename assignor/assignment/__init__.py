"""Kafka's public interface for task assignors (KIP-924) in Python. To use your own assignor, write a class like the one
in this example, and pass its name in the form `module:Class`.

```python
from assignor.assignment import ApplicationState, CustomTaskAssignor, TaskAssignment

class MyTaskAssignor(CustomTaskAssignor):
    def assign(self, application_state: ApplicationState) -> TaskAssignment: ...
```

An assignor is pure: it reads no clock, and equal states always give equal assignments. Java's getters are attributes
here. An empty `Optional` is None, and an `Instant` is a number of milliseconds since 1970. The functions of
`TaskAssignmentUtils` are functions of this package. An assignor can log its reasons (`ApplicationState.log`), which
Kafka does not support. An assignor has no `configure` method: the configs are in `ApplicationState.assignment_configs`.
Java's TaskAssignor is called `CustomTaskAssignor` here. The name TaskAssignor belongs to the simpler interface
`assign(problem, log)` of Kafka's own assignors.
Source: `org.apache.kafka.streams.processor.assignment`.
"""

from typing import TYPE_CHECKING

from assignor.names.lazy_names import LazyNames

if TYPE_CHECKING:
    from assignor.assignment.application_state import ApplicationState as ApplicationState
    from assignor.assignment.application_state import KafkaStreamsState as KafkaStreamsState
    from assignor.assignment.application_state import TaskInfo as TaskInfo
    from assignor.assignment.application_state import TaskTopicPartition as TaskTopicPartition
    from assignor.assignment.rack_optimization import RackAwareOptimizationParams as RackAwareOptimizationParams
    from assignor.assignment.rack_optimization import (
        optimize_rack_aware_active_tasks as optimize_rack_aware_active_tasks,
    )
    from assignor.assignment.rack_optimization import (
        optimize_rack_aware_standby_tasks as optimize_rack_aware_standby_tasks,
    )
    from assignor.assignment.standbys import default_standby_task_assignment as default_standby_task_assignment
    from assignor.assignment.sticky import StickyTaskAssignor as StickyTaskAssignor
    from assignor.assignment.task_assignment import AssignedTask as AssignedTask
    from assignor.assignment.task_assignment import AssignedTaskType as AssignedTaskType
    from assignor.assignment.task_assignment import KafkaStreamsAssignment as KafkaStreamsAssignment
    from assignor.assignment.task_assignment import TaskAssignment as TaskAssignment
    from assignor.assignment.task_assignment import identity_assignment as identity_assignment
    from assignor.assignment.task_assignment import validate_task_assignment as validate_task_assignment
    from assignor.assignment.task_assignor import CustomTaskAssignor as CustomTaskAssignor
    from assignor.task_assignors.base import AssignmentError as AssignmentError

_LAZY = LazyNames(globals())
__all__ = [*_LAZY.home_of]
__getattr__ = _LAZY.load
__dir__ = _LAZY.listed
