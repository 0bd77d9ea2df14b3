"""`/v1/groups`: the calls that declare, list, describe, drain and delete groups."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query, Request, Response

from coordinator_api.group import events
from coordinator_api.group.administration import MOST_DIFFERENCES_NAMED, differences, shortened
from coordinator_api.group.image import GroupImage
from coordinator_api.group.outcome import Accepted, Declared, Rejected
from coordinator_api.group.scale import DEFAULT_CATCH_UP_MS
from coordinator_api.group.states import RejectionCode
from coordinator_api.http.audit import note_effect, note_lever, reason_of
from coordinator_api.http.call_rights import forbidden, principal_of
from coordinator_api.http.connections import unless_hung_up
from coordinator_api.http.dependencies import (
    DIGITS,
    DrainedInstance,
    DrainedMember,
    GroupId,
    TheCoordinator,
    accepted,
    answer,
    caller,
    described_body,
    named_router,
    one_drained,
    problems,
    run_on_document,
)
from coordinator_api.http.group_document import described_group
from coordinator_api.http.group_scale import group_scale
from coordinator_api.http.models.documents import DefinitionDocument
from coordinator_api.http.models.group_models import (
    DeclareAnswer,
    GroupAnswer,
    GroupFlowAnswer,
    GroupList,
    GroupScaleAnswer,
)
from coordinator_api.http.other_coordinators import OtherCoordinators, all_groups
from coordinator_api.http.problems import Problem
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.definitions import declared_definition
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_client.access.principals import Need, Right

router = named_router(prefix="/v1/groups", tags=["groups"], responses=problems(404))


@router.put(
    "/{group}",
    responses={201: {"model": DeclareAnswer}, **problems(404, 409, 415)},
    openapi_extra=described_body(DefinitionDocument),
)
async def declare_group(
    request: Request,
    response: Response,
    group_id: GroupId,
    coordinator: TheCoordinator,
    replace: Annotated[bool, Query(description="True to replace the topology even if the group has members.")] = False,
) -> DeclareAnswer:
    """Declare a new group (201), or replace the definition of a group (200). The next rebalance uses the new
    definition.

    While the group has members, a definition with a different topology or cluster is refused (409
    `INCONSISTENT_GROUP_PROTOCOL`). With `replace=true`, a different topology or cluster is accepted even if the group
    has members. The problem document lists the differences between the new definition and the present definition. The
    fields `revision`, `declared_by` and `declared_at_ms` of the problem document describe the present definition.

    The config `kafka.version` (4.3 or 4.4) names the Kafka version whose rules the group follows. If the definition has
    no `kafka.version`, an existing group keeps its version, and a new group gets 4.4.
    """

    if replace:
        asked = Need(Right.OPERATOR, group_id)
        refusal = principal_of(request).refusal(asked)
        if refusal is not None:
            raise forbidden(asked, refusal)
    bounds, version = coordinator.document_bounds, await coordinator.kafka_version(group_id)
    input_json = await run_on_document(request, coordinator, "body", declared_definition, group_id, bounds, version)
    declaration = events.DeclareGroup(input_json, replaces_topology=replace, declared_by=caller(request))
    decided = await coordinator.handle_or_create(group_id, declaration, tenant=principal_of(request).group_prefix)
    if isinstance(decided, Rejected) and decided.code is RejectionCode.INCONSISTENT_GROUP_PROTOCOL:
        await _note_refused_definition(request, coordinator.group(group_id), input_json)
        raise _refusal(group_id, decided, coordinator.group(group_id).image)
    declared = accepted(decided, Declared)
    if declared.replaced_topology:
        note_effect(request, replaced_topology=True)
    response.status_code = 201 if declared.created else 200
    return DeclareAnswer(group_id=group_id, revision=declared.revision)


@router.get("", responses={200: {"model": GroupList}})
async def list_groups(request: Request, coordinator: TheCoordinator) -> Response:
    """Lists the groups of all coordinators. Leaves out groups that the caller may not see.

    Each group has its id, state, generation, number of members, next probing rebalance and error. `led_by`: the leader
    of the group, if it is outside this service.

    `condition`: the reason why a Stable group processes no records; null if no reason is known. `notices`: the number
    of notices that the group's processes sent in the last day. `unreadable`: the groups with a log that cannot be read.
    The service does not lead groups with unreadable logs. If the coordinator of a group does not answer within a
    second, the state of the group is `Unknown`. Coordinators send each other the header `Assignor-Asked-By:
    coordinator`. If a call has the header `Assignor-Asked-By`, the answer lists only the groups of this coordinator.
    `quotas`: the use and the limits of the caller's prefix; null for a caller that sees all groups.
    """
    principal = principal_of(request)
    others: OtherCoordinators = request.app.state.other_coordinators
    elsewhere = await others.groups(request, request.url.path)
    groups, unreadable = all_groups(coordinator, principal.sees, elsewhere)
    quotas = coordinator.quotas.shown(principal.group_prefix)
    return answer(GroupList(groups=groups, unreadable=unreadable, quotas=quotas))


@router.get("/{group}", responses={200: {"model": GroupAnswer}})
async def describe_group(request: Request, group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """Describes a group: state, generation, members, every copy of every task with role and lag, next probing
    rebalance, and advice.

    `cluster`: the cluster that the definition names, and whether it answers. `led_by`: the leader, if it is outside
    this service. `last_reported_ms`: the time of the last report from this leader. `condition`: the reason why a Stable
    group processes no records. `notices`: the notices of the group's processes, such as dropped records.
    """
    coordinator.overload.admit("describe")
    return await unless_hung_up(request, _description(group_id, coordinator))


@router.get("/{group}/flow", responses={200: {"model": GroupFlowAnswer}})
async def group_flow(group_id: GroupId, coordinator: TheCoordinator) -> Response:
    """Returns the input lag of a group and of its tasks, in records and in time, the records that it processes per
    second, and the last hour. The values come from the heartbeats of the members, so no cluster is asked. Members of
    Kafka Streams itself report no flow.
    """
    runtime = coordinator.group(group_id)
    return answer(GroupFlowAnswer.of(group_id, runtime.group.flow()))


@router.get("/{group}/scale", responses={200: {"model": GroupScaleAnswer}})
async def show_scale(
    request: Request,
    group_id: GroupId,
    coordinator: TheCoordinator,
    catch_up_s: Annotated[
        int,
        Query(ge=1, le=86_400, description="The seconds within which the waiting records should be processed."),
        DIGITS,
    ] = DEFAULT_CATCH_UP_MS // 1_000,
) -> Response:
    """Returns the number of instances that the group needs for its input, for an autoscaler such as KEDA's
    `metrics-api`: `wanted_instances`. Also returns what the change would cost, and whether an instance may be taken
    away now. Members of Kafka Streams itself report no flow, so their group keeps its number of instances.
    """
    return answer(await group_scale(request, coordinator, group_id, catch_up_s * 1_000))


async def _description(group_id: str, coordinator: Coordinator) -> Response:
    """Describes a group. Only a few descriptions run at one time. The description of a large group occupies a thread
    for long, and heartbeats may need this thread.
    """
    runtime = coordinator.group(group_id)
    async with coordinator.descriptions:
        group = await described_group(runtime, coordinator.clusters)
        return await asyncio.to_thread(answer, group)


@router.delete("/{group}", status_code=204, responses=problems(404, 409))
async def delete_group(
    request: Request,
    group_id: GroupId,
    coordinator: TheCoordinator,
    force: Annotated[
        bool, Query(description="Also delete a group whose log cannot be read, although it may have members.")
    ] = False,
) -> None:
    """Delete a group and its recorded rebalances. If the group has members, the call is refused. If the leader of a
    group is outside this service, the group may be deleted with its members.
    """
    accepted(await coordinator.delete(group_id, force=force), Accepted)
    if force:
        note_effect(request, forced=True)


@router.post("/{group}/drain", status_code=204, responses=problems(404, 409))
async def drain_group(
    request: Request,
    group_id: GroupId,
    coordinator: TheCoordinator,
    instance: DrainedInstance = None,
    member: DrainedMember = None,
) -> None:
    """Order every member to stop, in the answer to its next heartbeat. A PUT of the group ends the drain of the group.

    With `instance` or `member`, the call does not order any member to stop. The tasks of this instance or member move
    to other instances. Each task moves as soon as another instance has caught up on it. `GET` shows whether the
    instance or member can be stopped. The drain of an instance or member ends when the instance or member has left the
    group, or when `DELETE` is called.
    """
    event: events.Drain | events.SetInstanceDrain = events.Drain()
    if instance is not None or member is not None:
        named = await one_drained(instance, member)
        event = events.SetInstanceDrain(True, *named, caller(request), reason_of(request))
    note_lever(request, event)
    accepted(await coordinator.group(group_id).handle(event), Accepted)


async def _note_refused_definition(request: Request, runtime: GroupRuntime, input_json: str) -> None:
    """Remembers the refused definition for the health of the group."""
    running = runtime.image.input_json
    if running is not None:
        found = await asyncio.to_thread(differences, running, input_json)
        runtime.callers.definition_refused(caller(request), shortened(found, MOST_DIFFERENCES_NAMED, "; "))


def _refusal(group_id: str, refused: Rejected, image: GroupImage) -> Problem:
    """Adds the group's id to a refusal. Also adds the caller that declared the present definition, if it is known, so
    that the operator knows whom to ask.
    """
    origin, detail = image.origin, f"group {group_id}: {refused.detail}"
    if origin.declared_at_ms is None:
        return Problem(refused.code.value, detail)
    at = datetime.fromtimestamp(origin.declared_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return Problem(
        refused.code.value,
        f"{detail}. What the group runs was declared at {at} by {origin.declared_by}",
        extensions={
            "revision": image.revision,
            "declared_by": origin.declared_by,
            "declared_at_ms": origin.declared_at_ms,
        },
    )
