"""Reads placements from the INFO lines in the log files of JVM members. Use this module for groups whose records in
`__consumer_offsets` cannot be read.

HighAvailabilityTaskAssignor logs its whole input and output in one line. For the sticky assignors, the lines of the
leader show the clients, the tasks, the previous owners of tasks, and the result. The lines of the leader have no lags.
The sticky assignors do not need lags. The sticky assignors iterate over clients and tasks in the order of Java's hash
maps. The log shows this order only at level DEBUG. So this module computes the order from the names of clients and
tasks. If the lines of a rebalance are cut off or mixed with other lines, the rebalance is left out. The reason is
reported.
Source: `HighAvailabilityTaskAssignor.assign`, `StreamsPartitionAssignor.assignTasksToClients`, `computeNewAssignment`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from assignor.configs import KAFKA_VERSION
from assignor.configs.kafka_versions import version_of_release
from assignor.errors import InputError, UnreadableLogLine
from assignor.recording.fields import as_assignor, as_configs
from assignor.types import ProcessId
from kafka_groups.recorder.jvm_log_rebalances import (
    FALLBACK_PRIOR,
    HIGH_AVAILABILITY,
    LoggedRebalance,
    problem_of_decision,
    problem_of_rebalance,
    read_client_states,
    read_consumers,
    read_placed,
    read_tasks,
    read_tasks_by_consumer,
    walk_of_tasks,
)

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MESSAGE = re.compile(
    r"(?P<clients>(?:(?P<nodes>\d+) client nodes and \d+ consumers|All members) participating in this rebalance:)"
    r"|(?P<stateful>Assigning stateful tasks: \[(?P<tasks>[^\]]*)\])"
    r"|(?P<states>Assigning tasks and (?P<standbys>\d+) standby replicas to client nodes (?=\{))"
    r"|(?P<fallback>Failed to fetch end offsets for changelogs, will return previous assignment)"
    r"|(?P<rack>Assignment (?:before|after) .{0,80}task optimization is)"
    r"|(?P<decided>Decided on assignment: )"
    r"|(?P<placed>Assignment of tasks to nodes: )"
    r"|(?P<assigned>Assigned tasks \[(?P<all>[^\]]*)\] including stateful \[(?P<some>[^\]]*)\] to clients as:)"
    rf"|(?P<previous>Client (?P<client>{_UUID}) per-consumer assignment:)"
    r"|(?P<finished>Finished (?:un)?stable assignment of tasks)"
)
_DECISION = re.compile(r"\} with(?P<no> no)? followup probing rebalance\.")
_STATELESS = re.compile(r"and stateless tasks: \[([^\]]*)\]")
_PREVIOUS = re.compile(r"prev owned (active|standby) (\{[^{}]*\}?)")
_TIMESTAMP = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_RELEASE = re.compile(r"Kafka version: (\d+\.\d+\.\d+)\b", re.ASCII)  # every Kafka client logs its version at its start
_STREAM_THREAD = re.compile(r"stream-thread \[([^\]]+?)(?:-consumer)?\]")
_THREAD = re.compile(r"[\w.-]*StreamThread-\d+", re.ASCII)

Document = dict[str, object]


def placements_from_log(
    lines: Iterable[str],
    configs: Mapping[str, object] | None = None,
    *,
    assignor: str | None = None,
    on_skipped: Callable[[str], None] | None = None,
) -> Iterator[Document]:
    """Yields a placement/1 document for each rebalance, as soon as all its lines have been read. Each document has an
    input and an output. `configs`: the configs of the leader, under Kafka's dotted names. The log does not show the
    configs. `assignor`: the assignor of rebalances whose lines name no assignor, for example LegacyStickyTaskAssignor.
    If `assignor` is None, these rebalances are left out. `on_skipped`: a function that is called for each rebalance
    that is left out. The argument of `on_skipped` is a text with the line number and the reason. Raises InputError for
    an unknown config or assignor.
    """
    as_configs(dict(configs or {}), "configs")
    if assignor is not None and as_assignor(assignor, "assignor") == HIGH_AVAILABILITY:
        raise InputError(f"{HIGH_AVAILABILITY} logs itself what it decided; leave this option out", "assignor")
    return _LogReader(dict(configs or {}), assignor, on_skipped or _ignore).read(lines)


def _ignore(reason: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class _LogRecord:
    """The first line of a log message of an assignor. `rest`: the text after the words that identify the message."""

    kind: str
    found: re.Match[str]
    line: int
    text: str

    @property
    def rest(self) -> str:
        return self.text[self.found.end() :]

    @property
    def timestamp(self) -> str | None:
        match = _TIMESTAMP.search(self.text, 0, self.found.start())
        return None if match is None else match[0]

    @property
    def thread(self) -> str | None:
        match = _STREAM_THREAD.search(self.text, 0, self.found.start())
        if match is not None:
            return match[1]
        other = _THREAD.search(self.text, 0, self.found.start())
        return None if other is None else other[0]


@dataclass(slots=True)
class _LogReader:
    """Collects the values of rebalances from log lines. The key of each rebalance is the name of the thread that leads
    it. A line that does not begin a message may continue the message before it.
    """

    configs: Document
    assignor: str | None
    on_skipped: Callable[[str], None]
    rebalances: dict[str | None, LoggedRebalance] = field(default_factory=dict)
    latest: LoggedRebalance | None = None
    begun: tuple[str, LoggedRebalance, ProcessId | None] | None = None
    count: int = 0
    version: Document = field(default_factory=dict)
    """The field `kafka_version` that the documents get. The value is empty if the configs already name a version. The
    value is also empty if the log names no known release.
    """

    def read(self, lines: Iterable[str]) -> Iterator[Document]:
        for number, text in enumerate(lines, 1):
            for piece in text.split("\\n"):  # in a JSON log, the two characters `\n` mean the end of a line
                if (release := _RELEASE.search(piece)) is not None:
                    self._note_release(release[1])
                found = _MESSAGE.search(piece) if "ssign" in piece or "participating in this" in piece else None
                if found is not None:
                    yield from self._begin(_LogRecord(found.lastgroup or "", found, number, piece))
                elif self.begun is not None:
                    self._go_on(number, piece)
        for rebalance in list(self.rebalances.values()):
            yield from self._end(rebalance)

    def _note_release(self, release: str) -> None:
        with suppress(InputError):  # an unknown release: its rebalances are run with the rules of 4.3
            version_of_release(release)
            self.version = {} if KAFKA_VERSION in self.configs else {"kafka_version": release}

    def _begin(self, record: _LogRecord) -> Iterator[Document]:
        self.begun = None
        if record.kind == "decided":
            yield from self._decide(record)
            return
        if record.kind == "clients":
            if record.thread in self.rebalances:
                yield from self._end(self.rebalances[record.thread])
            self._open(record)
        rebalance = self._rebalance_of(record)
        if record.kind == "finished":
            yield from self._end(rebalance)
            return
        try:
            self._add(rebalance, record)
        except UnreadableLogLine as error:
            self._skip(record.line, str(error))

    def _add(self, rebalance: LoggedRebalance, record: _LogRecord) -> None:
        """Parses the first line of a message. The message may have more lines. Raises UnreadableLogLine."""
        found = record.found
        match record.kind:
            case "clients":
                rebalance.nodes = None if found["nodes"] is None else int(found["nodes"])
            case "stateful":
                rebalance.stateful = read_tasks(found["tasks"])
            case "states":
                rebalance.standby_replicas = int(found["standbys"])
                rebalance.states = read_client_states(record.rest)
            case "fallback":
                rebalance.fell_back = True
            case "rack":
                rebalance.rack_aware = True
            case "assigned":
                rebalance.tasks, rebalance.stateful = read_tasks(found["all"]), read_tasks(found["some"])
        client = ProcessId.parse(found["client"]) if record.kind == "previous" else None
        self.begun = (record.kind, rebalance, client)
        self._go_on(record.line, record.rest)

    def _go_on(self, line: int, text: str) -> None:
        """Parses the rest of the first line of a message, or a later line that may belong to the message. Ignores a
        later line that does not belong to the message.
        """
        if self.begun is None:
            return
        kind, rebalance, client = self.begun
        try:
            if kind == "clients":
                rebalance.consumers |= read_consumers(text)
            elif kind == "stateful" and (stateless := _STATELESS.search(text)):
                rebalance.tasks = walk_of_tasks((*(rebalance.stateful or ()), *read_tasks(stateless[1])))
            elif kind in ("placed", "assigned") and not rebalance.decided:
                rebalance.placed |= read_placed(text)
            elif client is not None:
                for role, tasks in _PREVIOUS.findall(text):
                    of_consumers = read_tasks_by_consumer(tasks).values()
                    rebalance.previous.setdefault(client, {})[role] = tuple(
                        task for each in of_consumers for task in each
                    )
        except UnreadableLogLine as error:
            self._skip(line, str(error))

    def _decide(self, record: _LogRecord) -> Iterator[Document]:
        """Yields the document of a rebalance from the line of HighAvailabilityTaskAssignor. The line of
        HighAvailabilityTaskAssignor has all values except the consumers, which come from earlier lines.
        """
        rebalance = LoggedRebalance(record.line, record.timestamp, record.thread)
        try:
            decision = _DECISION.search(record.rest)
            if decision is None:
                raise UnreadableLogLine("is cut off before it says whether a probing rebalance follows")
            states = read_client_states(record.rest[: decision.start() + 1])
            rebalance = self._rebalance_of_clients(record, states.keys()) or rebalance
            problem = problem_of_decision(rebalance, states)
            id = self._id(record.timestamp, rebalance.thread or record.thread)
            document = rebalance.document(id, HIGH_AVAILABILITY, self.configs, problem, decision["no"] is None)
            yield {**document, **self.version}
        except UnreadableLogLine as error:
            self._skip(record.line, str(error))
        rebalance.decided = True
        if rebalance.thread in self.rebalances and self.rebalances[rebalance.thread] is not rebalance:
            self.rebalances[rebalance.thread].decided = True

    def _end(self, rebalance: LoggedRebalance) -> Iterator[Document]:
        """Yields the document of a rebalance that has no line of HighAvailabilityTaskAssignor."""
        self.rebalances.pop(rebalance.thread, None)
        if rebalance.decided or not rebalance.consumers:
            return
        try:
            assignor = rebalance.assignor(self.assignor)
            problem = problem_of_rebalance(rebalance)
            id = self._id(rebalance.timestamp, rebalance.thread)
            document = rebalance.document(id, assignor, self.configs, problem, assignor == FALLBACK_PRIOR)
            yield {**document, **self.version}
        except UnreadableLogLine as error:
            self._skip(rebalance.line, f"the rebalance that begins here {error}")

    def _open(self, record: _LogRecord) -> LoggedRebalance:
        rebalance = LoggedRebalance(record.line, record.timestamp, record.thread)
        self.rebalances[record.thread] = self.latest = rebalance
        return rebalance

    def _rebalance_of(self, record: _LogRecord) -> LoggedRebalance:
        """Returns the rebalance to which a log line belongs: the rebalance of the thread that wrote the line. If the
        line names no thread, returns the rebalance that began last. If no rebalance has begun, returns a new rebalance,
        because a log file may begin in the middle of a rebalance.
        """
        if record.thread in self.rebalances:
            return self.rebalances[record.thread]
        if record.thread is None and self.latest is not None:
            return self.latest
        return self._open(record)

    def _rebalance_of_clients(self, record: _LogRecord, clients: Iterable[ProcessId]) -> LoggedRebalance | None:
        """Returns the unfinished rebalance that has these clients. The line of HighAvailabilityTaskAssignor may lack
        the full name of the thread. So the rebalance is found by its clients.
        """
        wanted = set(clients)
        fitting = [each for each in self.rebalances.values() if not each.decided and set(each.consumers) == wanted]
        named = [each for each in fitting if each.thread == record.thread]
        return next(iter(named[-1:] or fitting[-1:]), None)

    def _id(self, timestamp: str | None, thread: str | None) -> str:
        self.count += 1
        return f"{timestamp or '-'}/{thread or '-'}/{self.count}"

    def _skip(self, line: int, reason: str) -> None:
        self.on_skipped(f"line {line}: {reason}")
