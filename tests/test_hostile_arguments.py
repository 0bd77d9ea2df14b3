"""No argument of any command ends in a traceback: each option and argument of each command, with hostile values.

The commands run in this process. What would contact somebody, listen, or start a process ends the command there: by
then its arguments were read.
"""

import functools
import io
import multiprocessing.process
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from assignor_cli.app import main, program
from coordinator_api.http import server
from tests.program import SMOKE

_LONGEST_RUN_S = 20.0
_ENOUGH = 10
"""Values of each option in a usual run, which begin at another one for each; all of them are for `make soak`."""

WORDS = (
    *("", " ", "-1", "0", "1e400", "nan", "inf", "1_000", "0x10", "\u0663", "\U0001d7d7", "9" * 400, "9" * 5000),
    *("1.5", "--", "-", "=", "==", "a=", "=b", "a=b=c", ",", "a,,b", ":", "::", "@", "null", "{", "[1", '"'),
    *("99999999999999999d", "-5s", "5x", "1d2h", "2026-13-01", "2026-01-01T25:00", "10000-01-01T00:00:00Z"),
    *("0000-00-00", "0001-01-01T00:00:00+23:59"),
    *("host:99999", "host:-1", "host:", ":80", "[::1", "[::1]:x", "http://[", "http://", "http://h:99999", "ftp://x"),
    *("http://" + "a" * 300 + "/", "http://\u00e4\udcff/", "a" * 300 + ":80", "embedded:", "\udcff", "\ufeff"),
    *("x" * 70_000, "P999999999999D", "PT1E9S", "9223372036854775808", "-9223372036854775809", "253402300800000"),
    *("../../../x", "~nobody-is-called-so/x", "module:", ":x", "os:path", "no.such.module:X", "%s%n{0}", "(?P<"),
)


def hostile_files(directory: Path) -> list[str]:
    """Paths that are given where a file is expected, and everywhere else."""
    contents = {
        "empty": b"",
        "bom": b"\xef\xbb\xbf{}",
        "utf16": "a=b\n".encode("utf-16"),
        "binary": bytes(range(256)),
        "nul": b"\0" * 100,
        "brace": b"{",
        "list.json": b"[1, 2]",
        "deep.json": b"[" * 100_000,
        "number.json": b'{"a": 1e999999, "b": ' + b"9" * 5000 + b"}",
        "surrogate.json": b'{"input": "\\ud800"}',
        "keys.toml": b"a = 1\na = 2\n",
        "broken.toml": b"[x\n",
        "properties": b"key\\u12=1\n",
        "cut.gz": b"\x1f\x8b\x08\x00\x00",
    }
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    loop = directory / "loop"
    loop.symlink_to(loop)
    return [
        *(str(directory / name) for name in contents),
        str(directory),
        str(loop),
        str(directory / "none"),
        str(directory / "empty" / "below"),
        str(directory / ("n" * 300)),
        "/dev/null",
        "/proc/self/mem",
    ]


class _Contacted(SystemExit):
    """Somebody would have been asked, or a process started."""

    def __init__(self) -> None:
        super().__init__(0)


def _contact(*_: object, **__: object) -> None:
    raise _Contacted


def _checked_address(host: object, port: object) -> None:
    """What the system refuses before it asks anybody."""
    if isinstance(host, str):
        host.encode("idna")
    if isinstance(port, int) and not 0 <= port <= 65_535:
        raise OverflowError("port must be 0-65535.")


def _connect(_: socket.socket, address: object) -> None:
    if isinstance(address, tuple):
        _checked_address(address[0], address[1])
    raise _Contacted


def _getaddrinfo(host: object, port: object, *_: object, **__: object) -> None:
    _checked_address(host, port)
    raise _Contacted


def _too_long(*_: object) -> None:
    raise _Contacted


@dataclass(frozen=True)
class Outcome:
    """`problem`: None when the command ended as it should."""

    code: int | None
    stderr: str
    problem: str | None


def run(arguments: list[str]) -> Outcome:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    code: int | None = None
    problem: str | None = None
    with mock.patch.multiple(sys, stdin=given, stdout=out, stderr=err, argv=["assignor", *arguments]):
        signal.setitimer(signal.ITIMER_REAL, _LONGEST_RUN_S)
        try:
            main()
        except _Contacted:
            pass
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException as error:
            problem = "".join(traceback.format_exception(error)[-4:])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    err.flush()
    assert isinstance(err.buffer, io.BytesIO)
    stderr = err.buffer.getvalue().decode()
    if problem is None and "Traceback" in stderr:
        problem = stderr
    if problem is None and code not in (None, 0, 1, 2):
        problem = f"exit code {code}"
    if problem is None and code == 2 and not stderr.strip():
        problem = "nothing is said"
    return Outcome(code, stderr, problem)


@pytest.fixture
def nobody_is_contacted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASSIGNOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(socket.socket, "connect", _connect)
    monkeypatch.setattr(socket.socket, "bind", _contact)
    monkeypatch.setattr(socket, "getaddrinfo", _getaddrinfo)
    # the class stays: a module that is first imported now has `Popen[bytes]` in its annotations
    monkeypatch.setattr(subprocess.Popen, "__init__", _contact)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", _contact)
    # `serve` would give this process its own log: no handler of pytest is left then, and later tests read nothing
    monkeypatch.setattr(server, "_configure_logging", lambda _settings: None)
    before = signal.signal(signal.SIGALRM, _too_long)
    yield
    signal.signal(signal.SIGALRM, before)


@functools.cache
def commands() -> Mapping[str, Any]:
    found: dict[str, Any] = {}

    def walk(command: Any, path: tuple[str, ...]) -> None:
        for name, below in getattr(command, "commands", {}).items():
            walk(below, (*path, name))
        if not hasattr(command, "commands"):
            found[" ".join(path)] = command

    walk(program(), ())
    return found


_TOPOLOGY = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [a])
      --> none
"""
_OF_ARGUMENTS = {
    "FILE...": SMOKE,
    "INPUT...": SMOKE,
    "A": SMOKE,
    "B": SMOKE,
    "MODULE:APP": "os:path",
    "GROUP": "group",
    "PARTITION": "0",
    "OFFSET": "0",
}
_OF_OPTIONS = {
    "--bootstrap-server": "embedded:log",
    "--grid": "num.standby.replicas=0",
    "--output": "output",
    "--application-id": "app",
    "--group": "group",
    "--right": "read",
    "--topology": "topology.txt",
}
_OF_OPTIONS_OF = {"lead": {"--bootstrap-server": "127.0.0.1:9"}}
_FIRST = {
    "record": ["--bootstrap-server", "127.0.0.1:9", "--group", "group"],
    "consume": ["--from-beginning", "--until-end"],
    "dead-letters retry": ["--record", "0:0", "--skip-refused"],
    "explain": [SMOKE],
}
"""What else a command needs to read its other arguments."""


def calls(name: str, command: Any, parameter: Any, value: str) -> list[str]:
    """The arguments of a call in which only this one is hostile."""
    of_options = {**_OF_OPTIONS, **_OF_OPTIONS_OF.get(name, {})}
    options: list[str] = []
    positional: list[str] = []
    for each in command.params:
        if each is parameter:
            given = value
        elif each.required:
            given = of_options.get(each.opts[0]) or _OF_ARGUMENTS.get(each.metavar or "", "name")
        else:
            continue
        if each.param_type_name == "option":
            options.append(f"{each.opts[0]}={given}")
        else:
            positional.append(given)
    return [*options, "--", *positional]


def hostile_values(parameter: Any, files: list[str]) -> list[str]:
    """Words and files, and for `key=value` also a plain key with each."""
    values = [*WORDS, *files]
    metavar = parameter.metavar or ""
    if "=" in metavar:
        key = {"key=value": "num.standby.replicas", "STORE=WHAT": "store"}.get(metavar, "name")
        values += [f"{key}={value}" for value in values]
    return values


@pytest.fixture
def files(tmp_path: Path, nobody_is_contacted: None) -> list[str]:
    (tmp_path / "topology.txt").write_text(_TOPOLOGY)
    (tmp_path / "lines").write_text("one\ntwo\n")
    assert run(["topics", "create", "--bootstrap-server=embedded:log", "name"]).code == 0
    assert run(["produce", "--bootstrap-server=embedded:log", "name", "lines"]).code == 0
    (tmp_path / "hostile").mkdir()
    return hostile_files(tmp_path / "hostile")


def _problems(name: str, files: list[str], enough: int | None) -> list[str]:
    command = commands()[name]
    parameters = [each for each in command.params if not getattr(each, "is_flag", False)]
    found: list[str] = []
    for number, parameter in enumerate(parameters):
        values = hostile_values(parameter, files)
        chosen = values if enough is None else values[number % 7 :: max(1, len(values) // enough)]
        for value in chosen:
            outcome = run([*name.split(), *_FIRST.get(name, []), *calls(name, command, parameter, value)])
            if outcome.problem is not None:
                found.append(f"{name} {parameter.opts[0]} {value[:80]!r}: {outcome.problem}")
    return found


@pytest.mark.parametrize("name", commands())
def test_should_end_no_argument_in_a_traceback(name: str, files: list[str]) -> None:
    assert _problems(name, files, _ENOUGH) == []


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("name", commands())
def test_should_end_no_argument_in_a_traceback_whatever_it_is(name: str, files: list[str]) -> None:
    assert _problems(name, files, None) == []
