"""The state of a task, the steps between states, and its story, which the error for an illegal step tells.

Rules: the steps are those of `Task`; besides, a task that was suspended before it was initialised goes back to CREATED,
since it has no open stores to go on with. The story keeps the last twenty states. Source: `Task.State`, `AbstractTask`.
"""

from __future__ import annotations

from collections import deque

from assignor.types import TaskId
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.states import TaskState, TaskType

_STEPS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.SUSPENDED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED}),
    TaskState.RUNNING: frozenset({TaskState.SUSPENDED}),
    TaskState.SUSPENDED: frozenset({TaskState.CREATED, TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset({TaskState.CREATED}),
}
_STORY_LENGTH = 20


class TaskLifecycle:
    """The state of one task, active or standby. It begins as CREATED."""

    __slots__ = ("_story", "_type", "state", "task_id")

    def __init__(self, task_id: TaskId, type: TaskType) -> None:
        self.task_id = task_id
        self._type = type
        self.state = TaskState.CREATED
        self._story = deque([self.state], maxlen=_STORY_LENGTH)

    def to(self, state: TaskState) -> None:
        """Take a step. Raises StreamsRuntimeError for an illegal one."""
        if state not in _STEPS[self.state]:
            raise self.illegal(f"become {state.value}")
        self.state = state
        self._story.append(state)

    def expect(self, doing: str, *states: TaskState) -> None:
        """Raises StreamsRuntimeError unless the state is one of these. `doing`: what was tried, such as `be closed`."""
        if self.state not in states:
            raise self.illegal(doing)

    def illegal(self, doing: str) -> StreamsRuntimeError:
        story = " -> ".join(state.value for state in self._story)
        return StreamsRuntimeError(
            f"({self._type.value}) is {self.state.value} and cannot {doing}; its story: {story}", self.task_id
        )
