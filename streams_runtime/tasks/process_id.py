"""The id of an instance, kept in its state directory so that an instance that comes back is the one that went.

Rule: `<state.dir>/<application.id>/kafka-streams-process-metadata` holds `{"processId": "<uuid>"}`; what cannot be read
counts as not there, and then a fresh id is drawn. Source: `StateDirectory.initializeProcessId`; KIP-441.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

from assignor.types import ProcessId

PROCESS_FILE_NAME = "kafka-streams-process-metadata"


def stored_process_id(application_directory: Path) -> ProcessId:
    """Read the process id of `<state.dir>/<application.id>`, or draw one and keep it there. Raises OSError."""
    application_directory.mkdir(parents=True, exist_ok=True)
    file = application_directory / PROCESS_FILE_NAME
    known = _read(file)
    if known is not None:
        return known
    drawn = ProcessId.from_bytes(uuid.uuid4().bytes)
    written = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    written.write_text(json.dumps({"processId": str(drawn)}))
    written.replace(file)
    return drawn


def _read(file: Path) -> ProcessId | None:
    try:
        # Kafka ignores fields that it does not know, and so does this
        return ProcessId.parse(json.loads(file.read_text())["processId"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
