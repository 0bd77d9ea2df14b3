"""Structured logs on stderr: a JSON object a line, or text to read. Other libraries' logs take the same form."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor

from coordinator_api.settings import Settings


def configure(settings: Settings) -> None:
    """Set up logging for the whole process. Results never go here: stdout belongs to them."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if settings.log_format == "json":
        last: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        last = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # one line a request is what /metrics is for; uvicorn's own start and stop lines are said by `serve`
    for quiet in ("uvicorn.access", "uvicorn.error", "aiosqlite", "alembic", "asyncio", "httpcore", "httpx"):
        logging.getLogger(quiet).setLevel(logging.WARNING)
