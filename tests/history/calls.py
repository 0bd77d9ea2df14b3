"""A history as data: what clients asked and were answered, which tasks threads had, and which faults happened.

Every process writes a file of its own, one JSON object a line; times are nanoseconds of the machine's monotonic clock,
which all processes of a machine share. A killed process may leave half a line, and the calls that it had under way are
missing: nobody heard their answers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from assignor.errors import InputError
from spark_jobs.ownership.ownership_log import OwnershipLine, read_ownership

SUFFIX = ".jsonl"
RUN_FILE = "run.json"
OWNERSHIP = "ownership"
"""The directory of the ownership logs of groups on Spark, one directory for each group."""


class Outcome(StrEnum):
    """`unknown`: no answer came, or one that says to try again. The call may have had its effect, or have it later."""

    ANSWERED = "answered"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client. `client`: one life of one process, or an operator. `answer`: of a refusal, its `code`.

    `where`: file and line, for people who look for it.
    """

    client: str
    group: str
    operation: str
    arguments: Mapping[str, Any]
    begin_ns: int
    end_ns: int
    outcome: Outcome
    answer: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""

    @property
    def is_answered(self) -> bool:
        return self.outcome is Outcome.ANSWERED

    @property
    def code(self) -> str:
        """Of a refusal, empty otherwise."""
        return str(self.answer.get("code", "")) if self.outcome is Outcome.REFUSED else ""


@dataclass(frozen=True, slots=True)
class TasksLine:
    """A stream thread has exactly these tasks from now on. `event`: started, joining, assigned, revoked, dropped, or
    restored and processed, which name one `task` and change nothing.
    """

    client: str
    group: str
    thread: str
    event: str
    at_ns: int
    member_id: str = ""
    generation_id: int = 0
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    task: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class FaultLine:
    """A fault that happened, from when to when. `target`: a process, a proxy or a disk."""

    fault: str
    target: str
    begin_ns: int
    end_ns: int
    where: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """The word count of one group at the end: what its output says, what a plain loop says, and what was written twice.

    `lag`: records that were never committed. `at_least_once`: the group's guarantee; otherwise exactly-once.
    """

    found: Mapping[str, int]
    expected: Mapping[str, int]
    twice: tuple[str, ...] = ()
    lag: int = 0
    at_least_once: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """`settings`: of the run, such as its seed and the times that members are judged by. `ownership`: the ownership
    logs of groups on Spark.
    """

    calls: tuple[Call, ...] = ()
    tasks: tuple[TasksLine, ...] = ()
    faults: tuple[FaultLine, ...] = ()
    counts: Mapping[str, Counts] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    ownership: Mapping[str, Sequence[OwnershipLine]] = field(default_factory=dict)

    @property
    def deaths(self) -> dict[int, float]:
        """The time at which each Python worker was killed, in milliseconds since the epoch, by process id."""
        return {int(pid): at_ms for pid, at_ms in self.settings.get("deaths", {}).items()}

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(
            sorted({call.group for call in self.calls} | {line.group for line in self.tasks} | set(self.counts))
        )

    def calls_of(self, group: str, *operations: str) -> tuple[Call, ...]:
        """Sorted by their begin; all operations when none is named."""
        return tuple(
            call for call in self.calls if call.group == group and (not operations or call.operation in operations)
        )


Line = Call | TasksLine | FaultLine
_KINDS: Mapping[str, type[Line]] = {"call": Call, "tasks": TasksLine, "fault": FaultLine}


def encoded(line: Line) -> str:
    """With its end of line."""
    kind = next(name for name, each in _KINDS.items() if isinstance(line, each))
    document = {name: value for name, value in asdict(line).items() if name != "where"}
    return json.dumps({"kind": kind, **document}, separators=(",", ":")) + "\n"


def read_history(directory: Path) -> History:
    """Every complete line of every file. Raises InputError for a line that is none, and for no run at all."""
    if not (directory / RUN_FILE).exists():
        raise InputError(f"holds no {RUN_FILE}: it is no run of tests.history", str(directory))
    run = json.loads((directory / RUN_FILE).read_text(encoding="utf-8"))
    lines = [line for file in sorted(directory.glob(f"*{SUFFIX}")) for line in _lines(file)]
    return History(
        tuple(sorted((each for each in lines if isinstance(each, Call)), key=lambda call: call.begin_ns)),
        tuple(sorted((each for each in lines if isinstance(each, TasksLine)), key=lambda line: line.at_ns)),
        tuple(sorted((each for each in lines if isinstance(each, FaultLine)), key=lambda line: line.begin_ns)),
        {group: Counts(**{**each, "twice": tuple(each["twice"])}) for group, each in run["counts"].items()},
        run["settings"],
        {each.name: read_ownership(each) for each in (directory / OWNERSHIP).glob("*")},
    )


def write_run(directory: Path, settings: Mapping[str, Any], counts: Mapping[str, Counts]) -> None:
    """What belongs to no single client. The counts are known at the end of a run only."""
    document = {"settings": dict(settings), "counts": {group: asdict(each) for group, each in counts.items()}}
    (directory / RUN_FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _lines(file: Path) -> Iterator[Line]:
    text = file.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            yield _decoded(json.loads(line), f"{file.name}:{number}")
        except (ValueError, TypeError, KeyError) as fault:
            raise InputError(f"is no line of a history: {fault!r}", f"{file}:{number}") from fault


def _decoded(document: dict[str, Any], where: str) -> Line:
    kind = _KINDS[document.pop("kind")]
    if kind is Call:
        document["outcome"] = Outcome(document["outcome"])
    if kind is TasksLine:
        document["active"], document["standby"] = tuple(document["active"]), tuple(document["standby"])
    return kind(**document, where=where)
