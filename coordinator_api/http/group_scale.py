"""The scale signal of a group: how many instances it needs, what the change would cost, and whether an instance may be
taken away.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from assignor.errors import AssignorFault
from assignor.names.short_names import names_of_threads
from assignor.types import Role
from coordinator_api.group.description import DescribedMember
from coordinator_api.group.health import GroupHealth, HealthLevel
from coordinator_api.group.health_rules import health_of
from coordinator_api.group.scale import Scale, scale
from coordinator_api.http.dependencies import compute
from coordinator_api.http.models.group_models import GroupScaleAnswer, ScaleCostAnswer
from coordinator_api.http.page_computations import what_if
from coordinator_api.http.present_rebalance import present_rebalance
from coordinator_api.runtime.coordinator import Coordinator
from rebalance_analysis.simulate import ForecastModel
from rebalance_analysis.what_if import AddedInstances, Changes, changes_document

_WAITS = (HealthLevel.BUSY, HealthLevel.BROKEN)


async def group_scale(request: Request, coordinator: Coordinator, group_id: str, catch_up_ms: int) -> GroupScaleAnswer:
    """Computes the scale signal. The cost comes from the same computation as `assignor what-if`, in a worker process.
    The wanted number of instances is returned even if the cost cannot be computed.
    """
    runtime = coordinator.group(group_id)
    members = (await runtime.describe()).members
    processes = _processes(members)
    found = scale(runtime.group.flow(), len(processes), len(members), catch_up_ms)
    changes, removed = _changes(found, processes, len(members))
    cost, error = None, None
    if changes != Changes():
        try:
            source = await present_rebalance(coordinator, group_id)
            asked, bounds = changes_document(changes), coordinator.document_bounds
            cost = _cost(await compute(request, coordinator, what_if, source, asked, bounds, ForecastModel()))
        except AssignorFault as fault:  # for example, the cluster does not answer, or the service is busy
            error = str(fault)
    keeps = _reasons_to_keep(found, health_of(runtime.observation()))
    names = names_of_threads(
        (str(each.process_id or each.member.member_id), each.member.last_join.client_id) for each in members
    )
    return GroupScaleAnswer(
        group_id=group_id,
        **found._asdict(),
        may_remove=not keeps,
        keeps_because=keeps,
        removes=[names[process] for process in removed],
        cost=cost,
        cost_error=error,
    )


def _processes(members: Sequence[DescribedMember]) -> dict[str, int]:
    """Returns the number of active tasks of each instance."""
    tasks: Counter[str] = Counter()
    for member in members:
        active = sum(copy.role is Role.ACTIVE for copy in member.tasks)
        tasks[str(member.process_id or member.member.member_id)] += active
    return dict(tasks)


def _changes(found: Scale, processes: Mapping[str, int], threads: int) -> tuple[Changes, list[str]]:
    """Returns the changes that lead to the wanted number of instances, and the instances that they remove: those with
    the fewest active tasks.
    """
    if found.wanted == found.instances or not processes:
        return Changes(), []
    if found.wanted > found.instances:
        added = AddedInstances(found.wanted - found.instances, max(round(threads / found.instances), 1))
        return Changes(add_instances=(added,)), []
    removed = sorted(processes, key=lambda each: (processes[each], each))[: found.instances - found.wanted]
    return Changes(remove=tuple(removed)), removed


def _cost(computed: Mapping[str, Any]) -> ScaleCostAnswer:
    difference, forecast = computed["difference"], computed["forecast"]
    records, stable_after_ms = difference["after"]["records_by_process"], forecast["stable_after_ms"]
    return ScaleCostAnswer(
        tasks_that_move=forecast["active_moves"],
        records_to_restore=None if records is None else sum(records.values()),
        seconds=None if stable_after_ms is None else stable_after_ms / 1_000,
    )


def _reasons_to_keep(found: Scale, health: GroupHealth) -> list[str]:
    reasons = [each.text for each in health.reasons if each.level in _WAITS]
    if found.wanted >= found.instances:
        reasons.insert(0, "All instances are needed.")
    return reasons
