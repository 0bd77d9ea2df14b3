"""What every processor of the DSL does: it hands records on, and counts those it leaves out.

Source: `ContextualProcessor`, the `dropped-records` sensor of a task.
"""

from __future__ import annotations

import logging
from typing import Any

from streams_runtime.processors.api import KIn, Processor, ProcessorContext, VIn
from streams_runtime.records import Record

_logger = logging.getLogger(__name__)


class ForwardingProcessor(Processor[KIn, VIn]):
    """`dropped_records`: how many records this processor has left out so far."""

    def __init__(self) -> None:
        self.dropped_records = 0

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.forward = context.forward

    def drop(self, reason: str, *values: Any) -> None:
        """Count a skipped record and log a warning. `reason` and `values`: a message of `logging` and its arguments."""
        self.dropped_records += 1
        place = self.context.record_metadata
        if place is None:
            _logger.warning("Skipping record due to " + reason + ". Topic, partition, and offset not known.", *values)
        else:
            _logger.warning(
                "Skipping record due to " + reason + ". topic=[%s] partition=[%d] offset=[%d]", *values, *place
            )


class PassThrough(ForwardingProcessor[Any, Any]):
    """Merged streams and the branches of a split. Source: `PassThrough`."""

    def process(self, record: Record[Any, Any]) -> None:
        self.forward(record)
