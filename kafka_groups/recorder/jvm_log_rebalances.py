"""Parses the values in a JVM leader's INFO lines about one rebalance, and makes its placement/1 document.

The lines contain the `toString` output of client states, tasks, and maps of them. The parser searches for the names of
fields. So it can also read the lines of older releases, which have other fields. For example, `clientTags` exists since
Kafka 3.2, and Kafka 2.6 had `prevOwnedPartitionsByConsumerId`.
Source: `StreamsPartitionAssignor.assignTasksToClients`, `ClientState.toString`, `AbstractCollection.toString`,
`AbstractMap.toString`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignor.configs import NUM_STANDBY_REPLICAS
from assignor.errors import UnreadableLogLine
from assignor.java.hash_codes import process_hash, string_hash, task_hash
from assignor.java.order import hash_set_order
from assignor.recording.placement import PLACEMENT_FORMAT
from assignor.types import ProcessId, TaskId

HIGH_AVAILABILITY = "HighAvailabilityTaskAssignor"
FALLBACK_PRIOR = "FallbackPriorTaskAssignor"

Tasks = tuple[TaskId, ...]

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CLIENT = re.compile(rf"({_UUID})=\[activeTasks: \(")
_TASKS = r" \(\[([^\]]*)\]\)"
_END = re.compile(r"capacity: (\d+)(?: assigned: (\d+))?\](?:, |\}|\Z)")
_TAGS = re.compile(r"\) clientTags: \(\[(.*)\]\) capacity: ", re.DOTALL)
_PLACED = re.compile(rf"({_UUID})=\[activeTasks:{_TASKS} standbyTasks:{_TASKS}\]")
_CONSUMERS = re.compile(rf"({_UUID}): \[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class LoggedClient:
    """The values of one `ClientState` in the log."""

    capacity: int
    active: Tasks
    standby: Tasks
    previous_active: Tasks
    previous_standby: Tasks
    lags: Mapping[TaskId, int]
    tags: Mapping[str, str] = field(default_factory=dict)


def read_client_states(text: str) -> dict[ProcessId, LoggedClient]:
    """Parses client states of the form `{process=[activeTasks: ...], ...}`. The processes stay in the same order.
    Raises UnreadableLogLine.
    """
    starts = list(_CLIENT.finditer(text))
    if not starts:
        raise UnreadableLogLine("names no client")
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        ProcessId.parse(start[1]): _logged_client(start[1], text[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    }


def _logged_client(process: str, text: str) -> LoggedClient:
    end = _END.search(text)
    if end is None:
        raise UnreadableLogLine(f"is cut off in the state of {process}")
    tags = _TAGS.search(text)
    client = LoggedClient(
        capacity=int(end[1]),
        active=_field(text, "activeTasks"),
        standby=_field(text, "standbyTasks"),
        previous_active=_field(text, "prevActiveTasks"),
        previous_standby=_field(text, "prevStandbyTasks"),
        lags=_lags(text),
        tags={} if tags is None else _tags(tags[1]),
    )
    if end[2] is not None and int(end[2]) != len(client.active) + len(client.standby):
        raise UnreadableLogLine(f"says {end[2]} assigned tasks of {process}, but does not show as many")
    return client


def _field(text: str, name: str) -> Tasks:
    match = re.search(rf"\b{name}:{_TASKS}", text)
    if match is None:
        raise UnreadableLogLine(f"has no {name}")
    return read_tasks(match[1])


def _lags(text: str) -> dict[TaskId, int]:
    match = re.search(rf"\btaskLagTotals:{_TASKS}", text)
    if match is None:
        raise UnreadableLogLine("has no taskLagTotals: this release does not log them")
    lags: dict[TaskId, int] = {}
    for item in match[1].split(", ") if match[1] else ():
        task, _, lag = item.partition("=")
        lags[_task(task)] = _number(lag)
    return lags


def _tags(text: str) -> dict[str, str]:
    """Parses client tags of the form `a=b, c=d`. A value may contain commas, so a part without `=` belongs to the value
    before it.
    """
    tags: dict[str, str] = {}
    last = None
    for piece in text.split(", ") if text else ():
        key, equals, value = piece.partition("=")
        if equals:
            tags[key], last = value, key
        elif last is not None:
            tags[last] += f", {piece}"
    return tags


def read_tasks(text: str) -> Tasks:
    """Parses task ids of the form `0_0, 0_1`. Raises UnreadableLogLine."""
    return tuple(_task(item) for item in text.split(", ")) if text else ()


def read_placed(text: str) -> dict[ProcessId, tuple[Tasks, Tasks]]:
    """Parses the active and standby tasks of each process. Ignores a process if the text has only a part of its
    tasks.
    """
    return {ProcessId.parse(match[1]): (read_tasks(match[2]), read_tasks(match[3])) for match in _PLACED.finditer(text)}


def read_consumers(text: str) -> dict[ProcessId, tuple[str, ...]]:
    """Parses the consumers of each process. Ignores a process if the text has only a part of its consumers."""
    return {
        ProcessId.parse(match[1]): tuple(match[2].split(", ")) if match[2] else ()
        for match in _CONSUMERS.finditer(text)
    }


def read_tasks_by_consumer(text: str) -> dict[str, Tasks]:
    """Parses the tasks of each consumer. The text has the form `{consumer=[0_0, 0_1], ...}`. Raises
    UnreadableLogLine.
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise UnreadableLogLine("is cut off in the tasks of its consumers")
    return {match[1]: read_tasks(match[2]) for match in re.finditer(r"(?:\{|, )([^=\[\]]+)=\[([^\]]*)\]", text)}


def _task(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except ValueError as error:
        raise UnreadableLogLine(str(error)) from None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnreadableLogLine(f"{text[:80]!r} is no lag") from None


@dataclass(slots=True)
class LoggedRebalance:
    """The values of one rebalance that have been read from the log. `line`: the line number of the first message of the
    rebalance; the first line of the log is line 1. `placed`: the new active and standby tasks of each process.
    `previous`: the active and standby tasks that each process had before.

    `decided`: True if the log has a line of HighAvailabilityTaskAssignor for this rebalance, even if this line cannot
    be read.
    """

    line: int
    timestamp: str | None
    thread: str | None
    nodes: int | None = None
    consumers: dict[ProcessId, tuple[str, ...]] = field(default_factory=dict)
    tasks: Tasks | None = None
    stateful: Tasks | None = None
    states: Mapping[ProcessId, LoggedClient] | None = None
    standby_replicas: int | None = None
    fell_back: bool = False
    rack_aware: bool = False
    decided: bool = False
    placed: dict[ProcessId, tuple[Tasks, Tasks]] = field(default_factory=dict)
    previous: dict[ProcessId, dict[str, Tasks]] = field(default_factory=dict)

    def assignor(self, otherwise: str | None) -> str:
        """Returns the assignor that placed the tasks. `otherwise`: the assignor that the caller names; it is used if
        the log does not name an assignor. Raises UnreadableLogLine if neither the log nor the caller names an assignor.
        """
        if self.fell_back:
            return FALLBACK_PRIOR
        if otherwise is None:
            raise UnreadableLogLine("does not say which assignor placed it; name it")
        return otherwise

    def document(
        self, id: str, assignor: str, configs: Mapping[str, object], problem: Mapping[str, object], probing: bool
    ) -> dict[str, object]:
        if self.rack_aware:
            raise UnreadableLogLine("was placed by a rack-aware strategy, which cannot be run again")
        if self.standby_replicas is not None:
            configs = {**configs, NUM_STANDBY_REPLICAS: self.standby_replicas}
        return {
            "format": PLACEMENT_FORMAT,
            "id": id,
            "assignor": assignor,
            "configs": dict(configs),
            **problem,
            "output": {
                "probing_rebalance_needed": probing,
                "clients": {
                    str(process): {"active": _texts(active), "standby": _texts(standby)}
                    for process, (active, standby) in sorted(self.placed.items())
                },
            },
        }


def problem_of_decision(rebalance: LoggedRebalance, states: Mapping[ProcessId, LoggedClient]) -> dict[str, object]:
    """Returns the input of a placement from the line of HighAvailabilityTaskAssignor. Also sets `rebalance.placed`.
    Raises UnreadableLogLine.
    """
    tasks = sorted(task for client in states.values() for task in client.active)
    if len(set(tasks)) != len(tasks):
        raise UnreadableLogLine("shows a task as active twice")
    stateful = {frozenset(client.lags) for client in states.values()}
    if len(stateful) != 1:
        raise UnreadableLogLine("shows lags of different tasks for different clients")
    missing = next(iter(stateful)).difference(tasks)
    if missing:
        raise UnreadableLogLine(f"shows no active copy of {min(missing)}")
    rebalance.placed = {process: (client.active, client.standby) for process, client in states.items()}
    return _problem(tasks, sorted(next(iter(stateful))), rebalance, states)


def problem_of_rebalance(rebalance: LoggedRebalance) -> dict[str, object]:
    """Returns the input of a placement from the lines of the leader. Use this function only for assignors that use no
    lags. Raises UnreadableLogLine.
    """
    if rebalance.stateful is None or rebalance.tasks is None:
        raise UnreadableLogLine("has no line with its tasks")
    if rebalance.nodes is not None and len(rebalance.consumers) != rebalance.nodes:
        raise UnreadableLogLine(f"has {len(rebalance.consumers)} of its {rebalance.nodes} clients")
    if not rebalance.consumers or set(rebalance.placed) != set(rebalance.consumers):
        raise UnreadableLogLine("has no placement for all of its clients")
    placed = sorted(task for active, _ in rebalance.placed.values() for task in active)
    if placed != sorted(rebalance.tasks):
        raise UnreadableLogLine("does not place each of its tasks once")
    return _problem(rebalance.tasks, rebalance.stateful, rebalance, rebalance.states or _states(rebalance))


def walk_of_tasks(tasks: Iterable[TaskId]) -> Tasks:
    """Returns the tasks in the order in which a Java `HashMap<TaskId, ..>` has them."""
    return tuple(hash_set_order(sorted(tasks), task_hash))


def _states(rebalance: LoggedRebalance) -> dict[ProcessId, LoggedClient]:
    if set(rebalance.previous) != set(rebalance.consumers) or any(
        len(each) != 2 for each in rebalance.previous.values()
    ):
        raise UnreadableLogLine("has no previous tasks for all of its clients")
    states: dict[ProcessId, LoggedClient] = {}
    for process in _walk_of_processes(rebalance.consumers):
        active = set(rebalance.previous[process]["active"])
        standby = set(rebalance.previous[process]["standby"]) - active
        states[process] = LoggedClient(
            len(rebalance.consumers[process]), (), (), tuple(sorted(active)), tuple(sorted(standby)), {}
        )
    return states


def _walk_of_processes(consumers: Mapping[ProcessId, Sequence[str]]) -> list[ProcessId]:
    """Returns the processes in the order in which the leader's Java HashMap of processes has them. To fill this
    HashMap, the leader iterates over a second HashMap, whose keys are member ids.
    """
    process_of = {member: process for process, members in consumers.items() for member in members}
    members = hash_set_order(sorted(process_of), string_hash)
    return hash_set_order((process_of[member] for member in members), process_hash)


def _problem(
    tasks: Iterable[TaskId],
    stateful: Iterable[TaskId],
    rebalance: LoggedRebalance,
    states: Mapping[ProcessId, LoggedClient],
) -> dict[str, object]:
    return {
        "tasks": _texts(tasks),
        "stateful": _texts(stateful),
        "clients": {
            str(process): _client(client, rebalance.consumers.get(process)) for process, client in states.items()
        },
    }


def _client(client: LoggedClient, consumers: Sequence[str] | None) -> dict[str, object]:
    document: dict[str, object] = {"capacity": client.capacity}
    if consumers is not None and len(consumers) == client.capacity:
        document["consumers"] = list(consumers)
    document |= {
        "prev_active": _texts(client.previous_active),
        "prev_standby": _texts(client.previous_standby),
        "lags": {str(task): lag for task, lag in client.lags.items()},
        "tags": dict(client.tags),
    }
    return document


def _texts(tasks: Iterable[TaskId]) -> list[str]:
    return [str(task) for task in tasks]
