"""Computations for callers: a rebalance, a forecast, or the explanation of a rebalance. The computations store nothing.

Each function calls the library with one rebalance/1 or placement/1 document, in a worker process. A forecast must not
be more work than one rebalance of the largest group that the service accepts. So the larger the group is, the fewer
rebalances its forecast may have.
"""

from collections.abc import Mapping

from pydantic import BaseModel

from assignor import pipeline
from assignor.errors import InputError, KafkaError
from assignor.explain import explain_rebalance, explanation_document
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import RecordedPlacement, RecordedRebalance, parse_recorded_rebalance
from assignor.task_assignors.base import TaskAssignor
from assignor.types import TaskId
from coordinator_api.http.models.group_models import AssignAnswer, RebalanceExplanation, SimulateAnswer
from coordinator_api.runtime.allowed_assignors import allowed_here
from coordinator_api.runtime.definitions import (
    DocumentBounds,
    check_names,
    check_size,
    check_subtopologies,
    partition_total,
)
from coordinator_api.store.recorded_documents import read_recorded
from rebalance_analysis.rerun import LoadOwn, RerunRebalance, parse_recorded, run_recorded
from rebalance_analysis.simulate import ForecastModel, forecast, forecast_document

MAX_ROUNDS = 1_000
"""The largest number of rebalances of one forecast."""


MAX_ANSWER_BYTES = 67_108_864
"""The largest size of one answer in bytes. The service limits the size because the whole answer is in memory. The
library and `assignor assign` have no limit.
"""


def assign(document: Mapping[str, object], bounds: DocumentBounds) -> bytes:
    """Computes the `AssignAnswer` of one rebalance/1 or placement/1 document, as JSON.

    Raises InputError, DecodeError or AssignorNotListed.
    """
    recorded = _read(document, bounds)
    try:
        ran = run_recorded(recorded, own_assignors(bounds.assignor_classes))
    except InputError as error:
        if isinstance(error.__cause__, KafkaError):
            raise InputError(error.__cause__.with_hint(), "placement") from None
        raise
    assignments = ran.result.assignments.parts.values() if isinstance(ran, RerunRebalance) else ()
    size = sum(parts.size for parts in assignments)
    if size > MAX_ANSWER_BYTES:
        raise InputError(
            f"the assignments have {size} bytes, more than the {MAX_ANSWER_BYTES} of an answer; "
            "run `assignor assign` on the document",
            "input.members",
        )
    return _json(AssignAnswer(id=ran.id, output=ran.output()))


def simulate(
    document: Mapping[str, object], bounds: DocumentBounds, model: ForecastModel, max_rounds: int | None
) -> bytes:
    """Computes the `SimulateAnswer` of one rebalance/1 or placement/1 document, as JSON. `max_rounds`: the largest
    number of rebalances; None for the largest number that the service allows for a group of this size. Raises
    InputError, DecodeError, AssignorNotListed.
    """
    recorded = _read(document, bounds)
    most = most_rounds(_size(recorded, bounds), bounds)
    max_rounds = most if max_rounds is None else max_rounds
    if max_rounds > most:
        raise InputError(
            f"no more than {most} rounds of a group of this size are forecast here (group.max.partitions)", "max_rounds"
        )

    ahead = forecast(recorded, model, max_rounds=max_rounds, load_own=own_assignors(bounds.assignor_classes))
    return _json(SimulateAnswer(id=recorded.id, forecast=forecast_document(ahead, model)))


def own_assignors(classes: tuple[str, ...]) -> LoadOwn:
    """Returns a function that loads a custom assignor. The returned function raises AssignorNotListed for an assignor
    whose class path is not in `classes`. `classes`: the class paths of `AllowedAssignors`.
    """
    allowed = allowed_here(classes)

    def load(path: str) -> TaskAssignor:
        allowed.check(path)
        own = allowed.load(path)
        assert own is not None, f"{path} is no class path"
        return own

    return load


def most_rounds(size: int, bounds: DocumentBounds) -> int:
    """Returns the largest number of rebalances that a forecast may have, for a group or a placement problem of this
    size.
    """
    return max(min(MAX_ROUNDS, bounds.max_partitions // max(size, 1)), 1)


def _read(document: Mapping[str, object], bounds: DocumentBounds) -> RecordedRebalance | RecordedPlacement:
    """Reads a document. Raises InputError for a document that cannot be used, for example if the group is too large.
    Raises AssignorNotListed.
    """
    check_subtopologies(document.get("input"), "input.", bounds.max_subtopologies)
    recorded = parse_recorded(document)
    if isinstance(recorded, RecordedRebalance):
        check_names(recorded.snapshot, "input")
        check_size(recorded.snapshot, bounds.max_partitions)
    assignor = recorded.assignor if isinstance(recorded, RecordedPlacement) else recorded.snapshot.assignor
    allowed_here(bounds.assignor_classes).check(assignor)
    return recorded


def _size(recorded: RecordedRebalance | RecordedPlacement, bounds: DocumentBounds) -> int:
    """Returns the size of a group or a placement problem. Raises InputError for a problem that is too large for a
    forecast.
    """
    if isinstance(recorded, RecordedRebalance):
        return group_size(recorded.snapshot)
    clients = recorded.problem.clients.values()
    size = len(recorded.problem.tasks) + sum(client.capacity + len(client.lags.reported) for client in clients)
    if size > bounds.max_partitions:
        raise InputError(
            f"a problem of {size} tasks, threads and lags is more than group.max.partitions, {bounds.max_partitions}",
            "clients",
        )
    return size


def group_size(snapshot: RebalanceSnapshot) -> int:
    return partition_total(snapshot) + len(snapshot.members)


def explain(stored: bytes, task: TaskId | None, classes: tuple[str, ...]) -> bytes | None:
    """Runs a recorded rebalance again and explains it, as JSON. `same_result` in the answer is true if the result
    equals the recorded result. `same_result` should always be true. Returns None if the rebalance did not place `task`.

    `stored`: the recording in the stored form. `classes`: the class paths of `AllowedAssignors`. Raises InputError if
    the assignor is no longer available.
    """
    document, assignments = read_recorded(stored)
    recorded = parse_recorded_rebalance(document)
    own_assignor = allowed_here(classes).load(recorded.snapshot.assignor)
    result = pipeline.assign(recorded.snapshot, recorded.now_ms, own_assignor)
    explanations = [explanation_document(each) for each in explain_rebalance(result, task)]
    if task is not None and not explanations:
        return None
    assert recorded.output is not None, "every stored rebalance has an output"
    return _json(
        RebalanceExplanation(
            group_id=recorded.group_id,
            generation_id=recorded.generation_id,
            error=recorded.output.error,
            same_result=result.assignments == assignments,
            explanations=explanations,
        )
    )


def _json(answer: BaseModel) -> bytes:
    return answer.model_dump_json(ensure_ascii=True).encode("ascii")
