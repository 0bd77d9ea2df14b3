"""Runs one recorded line again: the leader of this project decides on the recorded rebalance or placement problem.
Replay, what-if, forecast and sweep use this module, too. So their results are always equal to the results of `assignor
assign`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from assignor.configs.kafka_versions import KafkaVersion
from assignor.errors import InputError, KafkaError, OwnAssignorFailed
from assignor.explain import Explanation, explain_placement, explain_rebalance
from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceResult
from assignor.recording import (
    PLACEMENT_FORMAT,
    REBALANCE_FORMAT,
    RecordedPlacement,
    RecordedRebalance,
    is_class_path,
    parse_recorded_placement,
    parse_recorded_rebalance,
    placement_output,
    rebalance_output,
)
from assignor.recording.streams_group import (
    STREAMS_GROUP_FORMAT,
    RecordedStreamsGroup,
    as_placement,
    parse_recorded_streams_group,
)
from assignor.task_assignors.base import (
    AssignmentError,
    Placement,
    PlacementProblem,
    PublicInterfaceAssignor,
    TaskAssignor,
    validate_placement,
)
from assignor.task_assignors.decisions import Decision, DecisionLog
from assignor.task_assignors.registry import task_assignor_named
from assignor.task_assignors.streams_groups.member_sticky import MemberAssignment, StreamsGroupPlacement
from assignor.types import AssignorErrorCode, TaskId
from rebalance_analysis.compare import Comparison, compare_placement, compare_rebalance, compare_streams_group


@dataclass(frozen=True, slots=True)
class RerunRebalance:
    """A rebalance/1 line, and the result that the leader of this project computes for its input."""

    recorded: RecordedRebalance
    result: RebalanceResult

    @property
    def id(self) -> str:
        return self.recorded.id

    @property
    def placed(self) -> tuple[PlacementProblem, Placement] | None:
        """The input and the output of the task assignor; None if the rebalance ended before the assignor ran."""
        if self.result.problem is None or self.result.placement is None:
            return None
        return self.result.problem, self.result.placement

    @property
    def error(self) -> str | None:
        """The reason why no task was placed. If there is an error without a reason, `error` is the name of the error
        code that the members receive. `error` is None if the rebalance had no error.
        """
        if self.result.error is not None:
            return self.result.error.with_hint()
        code = self.result.error_code
        return None if code is AssignorErrorCode.NONE else code.name

    def output(self) -> dict[str, object]:
        return rebalance_output(self.result)

    def comparison(self) -> Comparison | None:
        """Compares the result with the recorded output. Returns None if another leader led the rebalance, or if the
        rebalance was interrupted. Raises InputError if no output is recorded.
        """
        if self.recorded.led_by is not None or self.recorded.interrupted:
            return None
        if self.recorded.output is None:
            raise InputError("is missing, so there is nothing to compare with", "output")
        return compare_rebalance(self.result, self.recorded.output)

    def explanations(self, task: TaskId | None) -> list[Explanation]:
        return list(explain_rebalance(self.result, task))


@dataclass(frozen=True, slots=True)
class RerunPlacement:
    """A placement/1 line, and the placement that the line's task assignor computes."""

    recorded: RecordedPlacement
    placement: Placement
    decisions: Sequence[Decision]
    error: ClassVar[None] = None
    """Always None: if the tasks of a placement problem cannot be placed, the run raises InputError."""

    @property
    def id(self) -> str:
        return self.recorded.id

    @property
    def placed(self) -> tuple[PlacementProblem, Placement]:
        """The input and the output of the task assignor."""
        return self.recorded.problem, self.placement

    def output(self) -> dict[str, object]:
        return placement_output(self.placement)

    def comparison(self) -> Comparison | None:
        """Compares the placement with the recorded output. Raises InputError if the line has no output."""
        if self.recorded.output is None:
            raise InputError("is missing, so there is nothing to compare with", "output")
        return compare_placement(self.placement, self.recorded.output)

    def explanations(self, task: TaskId | None) -> list[Explanation]:
        return list(explain_placement(self.recorded.problem, self.placement, self.decisions, task))


@dataclass(frozen=True, slots=True)
class RerunStreamsGroup:
    """A streams_group/1 line, and the assignments that the broker's assignor computes for its members."""

    recorded: RecordedStreamsGroup
    placed: Mapping[str, MemberAssignment]

    @property
    def id(self) -> str:
        return self.recorded.id

    def output(self) -> dict[str, object]:
        return {
            member: {
                "active": sorted(map(str, assignment.active)),
                "standby": sorted(map(str, assignment.standby)),
                "warm_up": [],
            }
            for member, assignment in self.placed.items()
        }

    def comparison(self) -> Comparison:
        """Compares the assignments with the recorded output. Raises InputError if the line has no output."""
        if self.recorded.output is None:
            raise InputError("is missing, so there is nothing to compare with", "output")
        return compare_streams_group(self.placed, self.recorded.output)


Rerun = RerunRebalance | RerunPlacement

LoadOwn = Callable[[str], TaskAssignor]
"""A function that loads a user's task assignor by its name, `module:Class`. The function runs the user's code. A caller
that does not allow the user's code passes None.
"""


def run(document: Mapping[str, object], load_own: LoadOwn | None = None) -> Rerun:
    """Parses the document of a line and runs it again. Raises InputError if the document cannot be used. Raises
    NotBuiltYet if the document needs a later release of this program. Raises DecodeError if the bytes of the document
    cannot be decoded.
    """
    return run_recorded(parse_recorded(document), load_own)


def parse_recorded(document: Mapping[str, object]) -> RecordedRebalance | RecordedPlacement:
    """Parses the document of a line according to its `format`. A streams group becomes a placement problem without a
    recorded output. `run_streams_group` runs a streams group as the broker does. Raises InputError if the document
    cannot be used. Raises NotBuiltYet if the document needs a later release of this program.
    """
    kind = document.get("format")
    if kind == REBALANCE_FORMAT:
        return parse_recorded_rebalance(document)
    if kind == PLACEMENT_FORMAT:
        return parse_recorded_placement(document)
    if kind == STREAMS_GROUP_FORMAT:
        return as_placement(parse_recorded_streams_group(document))
    shown = repr(kind[:80]) if isinstance(kind, str) else type(kind).__name__
    raise InputError(f"must be {REBALANCE_FORMAT}, {PLACEMENT_FORMAT} or {STREAMS_GROUP_FORMAT}, not {shown}", "format")


def with_kafka_version(
    recorded: RecordedRebalance | RecordedPlacement, version: KafkaVersion
) -> RecordedRebalance | RecordedPlacement:
    """Returns a copy of the line that follows the rules of another Kafka version. The recorded output stays
    unchanged.
    """
    if isinstance(recorded, RecordedRebalance):
        configs = replace(recorded.snapshot.configs, kafka_version=version)
        return replace(recorded, snapshot=replace(recorded.snapshot, configs=configs))
    configs = replace(recorded.problem.configs, kafka_version=version)
    return replace(recorded, problem=replace(recorded.problem, configs=configs))


def run_recorded(recorded: RecordedRebalance | RecordedPlacement, load_own: LoadOwn | None = None) -> Rerun:
    """Runs a parsed line again. Raises InputError, DecodeError or NotBuiltYet if the line cannot be run."""
    if isinstance(recorded, RecordedRebalance):
        own = _own_assignor(recorded.snapshot.assignor, load_own)
        return RerunRebalance(recorded, assign(recorded.snapshot, recorded.now_ms, own))
    log = DecisionLog()
    assignor = _own_assignor(recorded.assignor, load_own) or task_assignor_named(recorded.assignor)
    try:
        placement = assignor.assign(recorded.problem, log)
        validate_placement(recorded.problem, placement, recorded.assignor)
    except KafkaError as error:
        raise InputError(f"no placement: {error.with_hint()}") from error
    return RerunPlacement(recorded, placement, log)


def run_streams_group(recorded: RecordedStreamsGroup) -> RerunStreamsGroup:
    """Runs a line of a streams group again, with the broker's assignor. Raises InputError if there are tasks but no
    members.
    """
    placing = StreamsGroupPlacement(
        recorded.members, recorded.tasks, recorded.stateful, recorded.num_standby_replicas, recorded.kafka_version.rules
    )
    try:
        return RerunStreamsGroup(recorded, placing.solved())
    except KafkaError as error:
        raise InputError(f"no placement: {error.with_hint()}") from error


def _own_assignor(name: str, load_own: LoadOwn | None) -> TaskAssignor | None:
    """Loads the class of a task assignor that the user wrote. Returns None if the assignor is a built-in assignor."""
    if not is_class_path(name):
        return None
    if load_own is None:
        raise InputError(f"{name!r} is a class of your own, and such classes are not loaded here", "assignor")
    own = load_own(name)
    return _OwnPublicAssignor(name, own) if isinstance(own, PublicInterfaceAssignor) else _OwnAssignor(name, own)


class _OwnAssignor:
    """Wraps a user's own assignor class. If the class raises any exception, raises OwnAssignorFailed instead. So if the
    user's class raises an exception, only the current line fails.
    """

    def __init__(self, path: str, assignor: TaskAssignor) -> None:
        self.name = assignor.name
        self._path = path
        self._assignor = assignor

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        try:
            placement = self._assignor.assign(problem, log)
        except (KafkaError, InputError):
            raise
        except Exception as error:
            raise OwnAssignorFailed(f"{self._path} raised {type(error).__name__}: {error}", "assignor") from error
        if not isinstance(placement, Placement):
            raise OwnAssignorFailed(
                f"{self._path} returned {type(placement).__name__} instead of a Placement", "assignor"
            )
        return placement


class _OwnPublicAssignor(_OwnAssignor):
    """Wraps a user's own class that implements Kafka's public interface for task assignors. Source: `TaskAssignor`
    (KIP-924).
    """

    def __init__(self, path: str, assignor: PublicInterfaceAssignor) -> None:
        super().__init__(path, assignor)
        self._listener = assignor

    def on_assignment_computed(
        self, assignment: Mapping[str, bytes], subscription: Mapping[str, bytes], error: AssignmentError
    ) -> None:
        try:
            self._listener.on_assignment_computed(assignment, subscription, error)
        except KafkaError:
            raise
        except Exception as fault:
            where = f"{self._path}.on_assignment_computed"
            raise OwnAssignorFailed(f"{where} raised {type(fault).__name__}: {fault}", "assignor") from fault
