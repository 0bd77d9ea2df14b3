"""One Python loop for everything that happens to the records of a source: no call and no tuple that a record does not
need.

A topology is a graph of small objects. Handing a record from one to the next costs a tuple, two calls and some notes of
who runs, which is more than most of them do. So the nodes below a source are written out as the text of one function,
in the order in which a record would visit them, and that function is compiled. It does to each record, one after the
other, exactly what the nodes would do.

    source            reads key and value
    map, filter, ...  one or two lines each, which call the user's function
    count, reduce     a look into the store, and a row for its changelog
    sink              a row for the output topic
    takes batches     a row for its batch; what is below it is a loop of its own (see `batch_sections`)
    any other node    a call, as without the loop; what it hands on goes through a function that is written in this way

A node takes part by a method `fuse` beside its `process`; a class that has only one of them (a subclass that changes
`process`, for example) does not. Rules for who writes one: both do the same to every record, in the same order; state
is in the object, not in the loop, since a record may also come by `process`; and where `process` calls a function of
the user, the loop calls it as often and with the same.

Source: none in Kafka, where the JVM's compiler does this by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.records import Record, RecordContext
from streams_runtime.logs.record_limits import RecordLimits
from streams_runtime.processors.current_node import CurrentNode
from streams_runtime.processors.loop_text import (
    CHANGES,
    ONE,
    RECORDS,
    ROWS,
    TOPIC_LINE,
    LoopFrame,
    compiled_text,
    frame_for,
)
from streams_runtime.processors.node_runs import NodeRuns, RunsHow

MOST_LINES = 2_000
"""A graph whose paths meet again and again would grow without end, because each path is written out."""

_MOST_BLOCKS, _MOST_NESTED = 60, 14
"""Python takes a hundred levels of indentation, and twenty loops and tries inside of each other."""

_MOST_NODES = 120
"""Below each other. Writing a node takes about six calls inside of each other, of which Python allows a thousand."""

READING = "<reading>"
"""In the place of a node's name; no node can have it."""

_INDENT = " "


class CannotFuse(StreamsRuntimeError):
    """The loop would be too long, or cannot do what a node needs. Nobody sees it: the nodes run one by one then."""


class Given(NamedTuple):
    """The names of the variables that hold a record at one place in the loop.

    `old`: what a table sends beside its new value, which `value` holds then, as the two of a `change`; both are empty
    for the record of a stream.
    """

    key: str
    value: str
    timestamp_ms: str
    old: str = ""
    change: str = ""


class FusableNode(Protocol):
    """A node as the loop sees it. `ProcessorRunner` and `SinkRunner` are such."""

    @property
    def name(self) -> str: ...
    def fuse(self, loop: LoopWriter, given: Given) -> None: ...


class FusableFlush(Protocol):
    """What a node has that forwards when the record cache of its store is flushed."""

    def fuse(self, loop: LoopWriter) -> bool:
        """Write the lines for one change. False: it wrote none."""
        ...

    def use(self, run: Callable[[list[bytes]], None]) -> None:
        """Flush keys in this way from now on."""
        ...


class Outputs(Protocol):
    """What the loop writes to. `RecordCollector` is one."""

    def write_row(
        self, loop: LoopWriter, topic: str, key: str, value: str, timestamp_ms: str, hashed: str | None = None
    ) -> None:
        """Write the lines that add a row for a topic. All are names of variables, with bytes or None in them.

        `hashed`: bytes that choose the partition; None: those of the key do.

        Raises StreamsRuntimeError and LogTimeout, as the first record for that topic does without the loop.
        """
        ...

    def columns_writer(self, topic: str) -> WriteColumns:
        """What adds columns of bytes for a topic. Raises as `write_row` does."""
        ...

    def write_change(self, loop: LoopWriter, store: str, key: str, value: str, timestamp_ms: str) -> None:
        """Write the lines that add a row for the changelog of a store, if it has one."""
        ...

    def take_changes(self, store: str) -> None:
        """Take rows also for changes that the store logs by itself. Raises as `write_row` does."""
        ...

    def change_check(self, store: str) -> tuple[CheckChange, RecordLimits] | None:
        """What raises for a change that the changelog of a store does not take, and what the changelog takes without a
        check; None for a store without one. Raises as `write_row` does.
        """
        ...

    def changes_writer(self, store: str) -> WriteChanges | None:
        """What adds columns of keys, values and timestamps for the changelog of a store; None for a store without one.
        Each change was checked when it was put.
        """
        ...


WriteColumns = Callable[[Sequence[Any], Sequence[Any], Sequence[int]], bool]
"""Writes columns of keys, values and timestamps. False: it wrote nothing, and each row has to be looked at."""


CheckChange = Callable[[bytes, bytes | None, int], None]
"""Raises for the key, the value and the timestamp of a change that its changelog does not take."""

WriteChanges = Callable[[list[Any], list[Any], list[int]], None]
"""Adds columns of keys, values and timestamps."""


class Section(Protocol):
    """A node that takes batches, in the loop that collects for it. `BatchSection` is one."""

    def write(self, loop: LoopWriter, given: Given) -> None:
        """Write the lines that add a record to its batch."""
        ...

    def compile(self, runtime: Any) -> None: ...


Translate = Callable[[Mapping[str, Any], Exception], Exception]
"""The variables of the loop and the error to the error that the node raises by itself."""


class LoopWriter:
    """Collects the text of the loop. `fuse` of a node writes its lines with it.

    `outputs`: of the task. `frame`: what it goes over. `hindrances`: for each node that could take batches why it may
    not (see `batch_hindrances`). `runs`: hears how each node runs.
    """

    def __init__(
        self,
        outputs: Outputs,
        frame: LoopFrame = RECORDS,
        *,
        hindrances: Mapping[str, str] | None = None,
        runs: NodeRuns | None = None,
    ) -> None:
        self.outputs = outputs
        self.hindrances = {} if hindrances is None else hindrances
        self.runs = runs or NodeRuns()
        self.sections: dict[str, Section] = {}
        """Those that this loop collects for, in the order in which their turns come."""
        self._frame = frame
        self.row = Given("key", "value", "timestamp_ms")
        self.source = self.row if frame is RECORDS else self.row._replace(timestamp_ms="input_ms[at]")
        self.names: dict[str, Any] = {"new_record": _new_record, "Record": Record}
        self.fused = 0
        """How many nodes below the source are written out."""
        self.if_it_fails: Translate | None = None
        """For the lines that are written next."""
        self._known: list[tuple[str, object, str]] = []
        self._optional: list[tuple[str, int, int]] = []
        self._first: list[str] = []
        self._lines: list[str] = []
        self._nodes: list[tuple[str, Translate | None]] = []
        self._depth = 4
        self._nested = 0
        self._loops = 0
        """How many loops are open inside of the innermost `going_on`."""
        self._inside: list[str] = [READING]
        self._below: list[list[Any]] = [[]]
        self._counts: dict[str, int] = {}

    # --- for nodes

    def bind(self, hint: str, value: object) -> str:
        """A name for an object that stays the same."""
        name = self.new(hint)
        self.names[name] = value
        return name

    def new(self, hint: str) -> str:
        """A name that nobody else has."""
        number = self._counts.get(hint, 0)
        self._counts[hint] = number + 1
        return f"{hint}_{number}"

    def line(self, text: str) -> None:
        if len(self._lines) >= MOST_LINES:
            raise CannotFuse("the loop would be too long")
        self._lines.append(_INDENT * self._depth + text)
        self._nodes.append((self._inside[-1], self.if_it_fails))

    def once(self, text: str) -> None:
        """A line that runs before the first record, as soon as `topic` and `partition` are known."""
        if self._frame is CHANGES:
            raise CannotFuse("a change that was held back has no topic")
        if self._frame is ONE:
            raise CannotFuse("where the input record is from is known to the task, not here")
        self._first.append(_INDENT * 2 + text)

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        """What is written inside stands below `text`, which ends with a colon."""
        is_loop = text.startswith("for ")
        is_nested = is_loop or text == "try:"
        if self._depth >= _MOST_BLOCKS or self._nested + is_nested > _MOST_NESTED:
            raise CannotFuse("the loop would be too deep")
        self.line(text)
        self._depth += 1
        self._nested += is_nested
        self._loops += is_loop
        yield
        self._depth -= 1
        self._nested -= is_nested
        self._loops -= is_loop

    @contextmanager
    def going_on(self, node: str | None = None) -> Iterator[None]:
        """An error of what is written inside goes to the handler, and the lines that follow run if that goes on.

        `node`: who has the lines inside; None: the node that is being written.
        """
        loops, self._loops = self._loops, 0
        with self.block("try:"):
            yield
        self._loops = loops
        with self.inside(node or self._inside[-1]), self.block("except Exception as error:"):
            self.line(self._frame.failed)

    @contextmanager
    def if_used(self, variable: str) -> Iterator[None]:
        """What is written inside gives this variable its value, and is left out where no later line asks for it."""
        start = len(self._lines)
        yield
        self._optional.append((variable, start, len(self._lines)))

    def know(self, variable: str, serializer: object, written: str) -> None:
        """What an equal serializer makes of this variable is in the variable `written`."""
        self._known.append((variable, serializer, written))

    def known(self, variable: str, serializer: object) -> str | None:
        """The variable of `know`."""
        for known, by, written in self._known:
            if known == variable and by == serializer:
                return written
        return None

    @contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Lines that are written inside belong to this node."""
        self._inside.append(node)
        try:
            yield
        finally:
            self._inside.pop()

    def forward(self, given: Given, child: str | None = None) -> None:
        """Hand a record to all children of the node that is being written, or to the one of this name.

        A node writes it as the last thing of what it does with a record, or with one pass of a loop of its own.
        """
        children = [each for each in self._below[-1] if child is None or each.name == child]
        if not children:
            self.line("pass")
        for number, each in enumerate(children, 1):
            if number < len(children) or self._loops:  # something comes after it
                with self.going_on(each.name):
                    self._enter(each, given)
            else:
                self._enter(each, given)

    def remember_position(self) -> None:
        """Before a call that may ask which record is processed."""
        if self._frame is CHANGES:
            raise CannotFuse("a change that was held back has no input record")
        if self._frame is ONE:
            return  # it was remembered before the call of the node above
        key, value, timestamp_ms = self.source[:3]
        self.line("queue.polled(at)")
        self.line(f"runtime.record = new_record(Record, ({key}, {value}, {timestamp_ms}, ()))")
        self.line("runtime.stream_time_ms = stream_time_ms")

    def call(
        self,
        name: str,
        process: Callable[[Record[Any, Any]], None],
        given: Given,
        why: str,
        *,
        with_stores: Callable[[Record[Any, Any]], None] | None = None,
    ) -> None:
        """The node as it is, with all that is below it. `with_stores`: for a node whose stores log its timestamp."""
        self.runs.note(name, RunsHow.ONCE_A_RECORD, why)
        value = given.value
        if given.old:
            value = f"new_record({given.change}, ({given.value}, {given.old}))"
        self.remember_position()
        self.line(f"current.name = {name!r}")
        if self._frame is ONE:  # there the node above has a timestamp
            process = with_stores or process
        else:
            self.line(f"current.timestamp_ms = {(given if with_stores else self.source).timestamp_ms}")
        record = f"new_record(Record, ({given.key}, {value}, {given.timestamp_ms}, ()))"
        if self._frame is RECORDS and given == self.row:
            record = "runtime.record"
        self.line(f"{self.bind('process', process)}({record})")
        self.line("current.name = None")
        if self._frame is not ONE:
            self.line("current.timestamp_ms = -1")

    @property
    def takes_batches(self) -> bool:
        """Whether it goes over records that can wait for each other."""
        return self._frame in (RECORDS, ROWS)

    def written(self, children: list[Any], write: Callable[[], object]) -> bool:
        """Have a node write its lines, with these children for `forward`. False: it wrote none."""
        self._below.append(children)
        try:
            if write() is False:
                return False
        finally:
            self._below.pop()
        if len(self._below) > 1:  # not the source itself
            self.fused += 1
        return True

    def collect(self, name: str, new_section: Callable[[LoopWriter], Section], given: Given) -> None:
        """Have a node that takes batches get this record later. `new_section` is given the loop of what is below it."""
        section = self.sections.get(name)
        if section is None:
            if self._frame is CHANGES:
                raise CannotFuse("changes that were held back are no batch")
            self.runs.note(name, RunsHow.ONCE_A_BATCH)
            below = LoopWriter(self.outputs, ROWS, hindrances=self.hindrances, runs=self.runs)
            section = self.sections[name] = new_section(below)
        section.write(self, given)

    # --- inside

    def _enter(self, node: FusableNode, given: Given) -> None:
        if len(self._inside) > _MOST_NODES:
            raise CannotFuse("the chain of nodes is too long")
        with self.inside(node.name):
            node.fuse(self, given)

    def compiled(self, current: CurrentNode, runtime: Any) -> FusedLoop:
        """The function, with what it needs of the task."""
        for section in self.sections.values():
            section.compile(runtime)
        self._leave_out()
        head, tail, _ = frame_for(self._frame, self._lines)
        head = head.replace(TOPIC_LINE, "\n".join((TOPIC_LINE, *self._first)))
        text = "\n".join((head, *self._lines, tail))
        state = FusedLoop(current, runtime, [*[("", None)] * (head.count("\n") + 1), *self._nodes])
        namespace = {**self.names, "current": current, "runtime": runtime, "state": state}
        exec(compiled_text(text), namespace)  # noqa: S102 - the text is made here, of names made here
        state.run = namespace["fused"]
        return state

    def _leave_out(self) -> None:
        """A line that may fail in words of its own names the record, so it asks for all of it."""
        for variable, start, end in reversed(self._optional):
            used = re.compile(rf"\b{variable}\b")
            if any(translate for _, translate in self._nodes[end:]) or any(map(used.search, self._lines[end:])):
                continue
            del self._lines[start:end], self._nodes[start:end]
        self._optional.clear()


class FusedLoop:
    """`run` is the loop. Of records: `run(queue, keys, values, timestamps_ms, offsets, start, stop)` does to these
    records of a batch what the graph does. After an error `at` is the record that failed, and `was_reading` whether it
    could not be read. `left_out`: how many records had a negative timestamp; whoever calls sets it to 0.
    `takes_batches`: whether some node gets the records of a run together.

    Of one record: `run(key, value, timestamp_ms)`, and of changes: `run(keys)` writes and forwards what a record cache
    has of them.
    """

    __slots__ = ("_current", "_nodes", "_runtime", "at", "left_out", "run", "takes_batches", "was_reading")

    def __init__(self, current: CurrentNode, runtime: Any, nodes: list[tuple[str, Translate | None]]) -> None:
        self._current = current
        self._runtime = runtime
        self._nodes = nodes
        self.at = self.left_out = 0
        self.was_reading = self.takes_batches = False
        self.run: Callable[..., None] = _not_compiled

    def failed(self, at: int, error: BaseException) -> BaseException:
        """Called by the loop with the record that it was at. Gives the error to raise."""
        self.at = at
        node, instead = self._origin(error)
        self.was_reading = node == READING
        current = self._current
        if current.name is None:
            current.name = node
        current.failed(error, None)
        current.timestamp_ms = -1
        return instead

    def record_failed(self, at: int, error: Exception) -> None:
        """Called by a loop for an error of a node about the record at this place, which goes on elsewhere.

        Raises what ends the record.
        """
        node, instead = self._stopped(error)
        self._current.timestamp_ms = -1
        self._runtime.record_failed(at, node, instead)

    def node_failed(self, error: Exception) -> None:
        """As `record_failed`, of the record that the task knows: called by the function for one record."""
        self._runtime.node_failed(*self._stopped(error))

    def flush_failed(self, error: Exception, context: RecordContext) -> None:
        """As `record_failed`, of a change: called by the loop of changes."""
        node, instead = self._stopped(error)
        runtime = self._runtime
        before = runtime.enter_context(context)
        try:
            runtime.node_failed(node, instead)
        finally:
            runtime.leave_context(before)

    def _stopped(self, error: Exception) -> tuple[str, Exception]:
        """The node that the error came from, which does not run any more, and what it raises for this error."""
        node, instead = self._origin(error)
        self._current.name = None
        return node, instead  # type: ignore[return-value]  # nothing else is made of an Exception

    def _origin(self, error: BaseException) -> tuple[str, BaseException]:
        """The node whose line failed, and what it raises for this error."""
        trace = error.__traceback__
        if trace is None or not 0 < trace.tb_lineno <= len(self._nodes):
            return "", error
        node, translate = self._nodes[trace.tb_lineno - 1]
        if translate is None or not isinstance(error, Exception):
            return node, error
        instead = translate(trace.tb_frame.f_locals, error)
        if instead is not error:
            instead.__cause__ = error
        return node, instead


def _not_compiled(*_: object) -> None:
    raise AssertionError("the loop is not compiled")


_new_record = tuple.__new__
