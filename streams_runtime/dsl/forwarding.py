"""What every processor of the DSL does: it hands records on, and counts those it leaves out.

Source: `ContextualProcessor`, the `dropped-records` sensor of a task.
"""

from __future__ import annotations

import logging
from typing import Any, cast

from streams_runtime.common.records import Record
from streams_runtime.processors.api import KIn, Processor, ProcessorContext, VIn
from streams_runtime.processors.context import NodeContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.reporting.losses import TOLD_AS_NOTICE, DropReason

_logger = logging.getLogger(__name__)


class ForwardingProcessor(Processor[KIn, VIn]):
    forwards_plain_records = False
    """What it hands on may be the change of a table. Where it is not, the loop knows the processor."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.forward = context.forward
        self._dropped = cast("NodeContext", context).dropped  # what runs a processor of the DSL counts its losses

    def drop(self, reason: DropReason, message: str, *values: Any, detail: str = "") -> None:
        """Count a skipped record, and log it. `message` and `values`: of `logging`, what is wrong with it. `detail`:
        what to tell of this reason from now on.
        """
        level = self._dropped(reason, detail)
        if not _logger.isEnabledFor(level):
            return
        where = self.context.record_metadata
        if where is None:
            text, values = ". Topic, partition, and offset not known.", values
        else:
            text, values = ". topic=[%s] partition=[%d] offset=[%d]", (*values, *where)
        _logger.log(level, "Skipping record due to " + message + text, *values, extra=TOLD_AS_NOTICE)


class PassThrough(ForwardingProcessor[Any, Any]):
    """Merged streams and the branches of a split. Source: `PassThrough`."""

    def process(self, record: Record[Any, Any]) -> None:
        self.forward(record)

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        loop.forward(given)
        return True
