"""What of a user's program comes along into another process, and what is said of the rest."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from streams_runtime.application import Application, ThreadErrorResponse
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.dsl import StreamsBuilder
from streams_runtime.serdes import STRING
from streams_runtime.thread_processes import pickling
from streams_runtime.thread_processes.packed_application import packed, unpacked

CLOCK = SystemClock()


def application(directory: Path, mapper: Any, servers: str | None = None, **handlers: Any) -> Application:
    builder = StreamsBuilder()
    builder.stream("in", STRING, STRING).map_values(mapper).to("out", value_serde=STRING)
    configs = {
        "application.id": "packed",
        "bootstrap.servers": servers or f"embedded:{directory}",
        "stream.threads.run.as": "processes",
    }
    return Application(builder.build(), configs, **handlers)


def test_should_take_lambdas_and_what_they_close_over_along(tmp_path: Path) -> None:
    suffix = "!"
    made = application(tmp_path, lambda value: value + suffix)
    found: Application = unpacked(packed(made, CLOCK)).application
    assert found.topology.describe() == made.topology.describe()
    assert found.configs == made.configs


def test_should_leave_handlers_here_that_are_called_here(tmp_path: Path) -> None:
    lock = threading.Lock()

    def handler(_error: Exception) -> ThreadErrorResponse:
        with lock:
            return ThreadErrorResponse.SHUTDOWN_CLIENT

    made = application(
        tmp_path,
        str.upper,
        uncaught_exception_handler=handler,
        state_listener=lambda _new, _old: lock.locked(),
        restore_listener_factory=lambda: lock,
    )
    assert unpacked(packed(made, CLOCK)).application.id == "packed"


def test_should_name_what_cannot_come_along_and_what_to_do(tmp_path: Path) -> None:
    lock = threading.Lock()

    def guarded(value: str) -> str:
        with lock:
            return value

    with pytest.raises(StreamsRuntimeError) as raised:
        packed(application(tmp_path, guarded), CLOCK)
    said = str(raised.value)
    assert said.startswith(
        "stream.threads.run.as=processes: node 'KSTREAM-MAPVALUES-0000000001' of the topology cannot"
    )
    assert "lock" in said
    assert said.endswith("Make locks, connections and clients in a processor's init")

    def handling(_record: object, _error: object) -> Any:
        return lock

    with pytest.raises(StreamsRuntimeError, match="processing_exception_handler cannot be pickled"):
        packed(application(tmp_path, str.upper, processing_exception_handler=handling), CLOCK)


def test_should_say_what_to_install_for_what_only_cloudpickle_takes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickling, "_CLOUDPICKLE", ("no_such_package",))
    with pytest.raises(StreamsRuntimeError, match=r"pip install cloudpickle, which takes such objects along$"):
        packed(application(tmp_path, lambda value: value), CLOCK)
    assert unpacked(packed(application(tmp_path, str.upper), CLOCK)).application.id == "packed"


def test_should_refuse_a_log_that_no_other_process_finds(tmp_path: Path) -> None:
    with pytest.raises(StreamsRuntimeError, match="'memory:m' is in the memory of this process"):
        packed(application(tmp_path, str.upper, "memory:m"), CLOCK)


def test_should_say_that_a_module_is_missing_where_the_thread_is_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def mapper(value):\n    return value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    data = packed(application(tmp_path, only_here.mapper), CLOCK)
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(StreamsRuntimeError, match="ModuleNotFoundError: No module named 'only_here'"):
        unpacked(data)
