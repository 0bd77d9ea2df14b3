"""What a built-in operation of the DSL is to a task: the function that takes its records, made once.

Source: `ProcessorNode`; in Kafka, operations are processors like those of users.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from streams_runtime.processors.api import Processor
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.receivers import Receiver


class Operator(ABC):
    """A node of a task that is no processor of the user. A topology makes one for each task."""

    @abstractmethod
    def connect(self, child: Receiver, task: NodeContext) -> Receiver:
        """The receiver of this node. Called after the stores are open, again whenever the task runs again.

        `child`: hands a record to all nodes below. An operator that goes on after that, with another record or a store,
        guards it: `task.guarded(child)`. One that puts into a store names its record first: `task.current.works_on`.
        """


NodeSupplier = Callable[[], Processor[Any, Any] | Operator]
"""A `ProcessorSupplier`, or what makes a new operator each time it is called."""
