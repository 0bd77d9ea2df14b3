"""The states a task goes through, and its story: every illegal step is an error that tells it.

Rules: the steps of `task.py`, and SUSPENDED back to CREATED for a task that was suspended before it was initialised (it
has no open stores to go on with). The story keeps the last twenty states. Source: `Task.State`, `AbstractTask`.
"""

from __future__ import annotations

from collections import deque

from assignor.types import TaskId
from streams_runtime.errors import StreamsRuntimeError
from streams_runtime.task_states import TaskState, TaskType

_STEPS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.SUSPENDED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED}),
    TaskState.RUNNING: frozenset({TaskState.SUSPENDED}),
    TaskState.SUSPENDED: frozenset({TaskState.CREATED, TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset({TaskState.CREATED}),
}
_STORY_LENGTH = 20


class TaskLifecycle:
    """Of one task, active or standby; it begins CREATED."""

    __slots__ = ("_story", "_type", "state", "task_id")

    def __init__(self, task_id: TaskId, type: TaskType) -> None:
        self.task_id = task_id
        self._type = type
        self.state = TaskState.CREATED
        self._story = deque([self.state], maxlen=_STORY_LENGTH)

    def to(self, state: TaskState) -> None:
        """Raises StreamsRuntimeError for an illegal step."""
        if state not in _STEPS[self.state]:
            raise self.illegal(f"become {state.value}")
        self.state = state
        self._story.append(state)

    def expect(self, doing: str, *states: TaskState) -> None:
        """Raises StreamsRuntimeError in any other state. `doing`: `be closed`, and the like."""
        if self.state not in states:
            raise self.illegal(doing)

    def illegal(self, doing: str) -> StreamsRuntimeError:
        story = " -> ".join(state.value for state in self._story)
        return StreamsRuntimeError(
            f"({self._type.value}) is {self.state.value} and cannot {doing}; its story: {story}", self.task_id
        )
