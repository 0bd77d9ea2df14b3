"""Why a chunk failed, as it is kept for the driver."""

import json
from pathlib import Path

from assignor.errors import InputError
from spark_engine.batch.parts import failure_reason, write_failure


def test_should_keep_a_stack_trace_of_a_programs_fault_and_none_of_a_users_mistake(tmp_path: Path) -> None:
    for number, fault in enumerate((ValueError("no such thing"), InputError("cannot be opened", "rounds.jsonl"))):
        try:
            raise fault
        except ValueError as raised:
            write_failure(tmp_path, number, str(raised), raised)

    ours, theirs = (json.loads((tmp_path / f"0000000{number}.failed").read_text()) for number in (0, 1))

    assert "Traceback" in ours["trace"]
    assert theirs["trace"] == ""
    assert failure_reason(tmp_path, 1) == "rounds.jsonl: cannot be opened"
