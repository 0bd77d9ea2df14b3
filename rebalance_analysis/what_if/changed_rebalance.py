"""Applies changes to a recorded line. `changed` returns the line as the leader would have received it under other
conditions. `changed_document` returns this line as a document.

Changes are applied in this order: assignor and configs, topology and partition counts, removed instances, threads,
tags, added instances, lags. So changes of threads and tags affect only recorded instances. The definition of an added
instance contains the threads and tags of the instance.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import overload

from assignor.clients.client_state import EndOffsetSums
from assignor.configs import AssignmentConfigs
from assignor.errors import KafkaError
from assignor.pipeline import gather_members, make_tasks, sum_end_offsets
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import (
    PLACEMENT_FORMAT,
    RecordedPlacement,
    RecordedRebalance,
    dotted_configs,
    rebalance_document,
)
from assignor.recording.fields import as_assignor, as_configs
from assignor.task_assignors.base import PlacementClient, RackInformation
from assignor.types import TaskId, TopicPartition
from rebalance_analysis.what_if.changes import Changes, changes_document
from rebalance_analysis.what_if.group_changes import OpenGroup, add_instances, remove_instances, set_tags, set_threads
from rebalance_analysis.what_if.lag_changes import set_group_lags
from rebalance_analysis.what_if.placement_changes import changed_problem
from rebalance_analysis.what_if.topic_changes import with_topics

Recorded = RecordedRebalance | RecordedPlacement


@overload
def changed(recorded: RecordedRebalance, changes: Changes) -> RecordedRebalance: ...
@overload
def changed(recorded: RecordedPlacement, changes: Changes) -> RecordedPlacement: ...
@overload
def changed(recorded: Recorded, changes: Changes) -> Recorded: ...
def changed(recorded: Recorded, changes: Changes) -> Recorded:
    """Returns a copy of the line with a changed input and without output. `Changes()` does not change the input.

    Raises InputError if a change cannot be applied. The error names the field of `changes`. If a name does not match
    exactly one process, the error also names the candidates. Raises NotBuiltYet if a config needs a later release of
    this program. Raises DecodeError if a member has to be changed and its bytes cannot be decoded.
    """
    if isinstance(recorded, RecordedRebalance):
        return replace(recorded, snapshot=_changed_snapshot(recorded.snapshot, changes), output=None)
    assignor = recorded.assignor if changes.assignor is None else as_assignor(changes.assignor, "assignor")
    problem = replace(recorded.problem, configs=_changed_configs(recorded.problem.configs, changes.configs))
    return replace(recorded, assignor=assignor, problem=changed_problem(problem, changes), output=None)


def _changed_configs(configs: AssignmentConfigs, asked: Mapping[str, object]) -> AssignmentConfigs:
    return as_configs({**dotted_configs(configs), **asked}, "configs") if asked else configs


def _changed_snapshot(snapshot: RebalanceSnapshot, changes: Changes) -> RebalanceSnapshot:
    if changes.assignor is not None:
        snapshot = replace(snapshot, assignor=as_assignor(changes.assignor, "assignor"))
    snapshot = replace(snapshot, configs=_changed_configs(snapshot.configs, changes.configs))
    if changes.topology is not None or changes.partitions:
        snapshot = with_topics(snapshot, changes)
    if not (changes.remove or changes.threads or changes.tags or changes.add_instances or changes.lags):
        return snapshot
    return _with_members(snapshot, changes)


def _with_members(snapshot: RebalanceSnapshot, changes: Changes) -> RebalanceSnapshot:
    group = OpenGroup(snapshot)
    ends = _log_ends(snapshot) if changes.threads or changes.lags else _NO_ENDS
    removed = remove_instances(group, changes.remove)
    leader = snapshot.leader_process_id
    if leader in removed:
        # choose the process with the lowest id, so that the leader is the same in every run
        leader = min(group.processes())
    set_threads(group, changes.threads, ends, snapshot.application_id)
    set_tags(group, changes.tags)
    if changes.add_instances:
        add_instances(group, snapshot.application_id, changes.add_instances)
    if changes.lags:
        set_group_lags(group, changes.lags, ends)
    return replace(snapshot, members=group.closed(), leader_process_id=leader)


_NO_ENDS = EndOffsetSums({}, known=False)


def _log_ends(snapshot: RebalanceSnapshot) -> EndOffsetSums:
    """Returns the end-offset sums of the changelogs. The sums are not known if an error ends the rebalance before the
    leader requests end offsets.
    """
    try:
        tasks = make_tasks(snapshot, gather_members(snapshot).versions, created={})
        return sum_end_offsets(snapshot, tasks)
    except KafkaError:
        return _NO_ENDS


def changed_document(recorded: RecordedRebalance | RecordedPlacement, changes: Changes) -> dict[str, object]:
    """Returns the result of `changed` as a rebalance/1 or placement/1 document. The document has the id of the recorded
    line and no output. The document of a rebalance must not be mistaken for a recording. So it gets the source
    `generated` and a note with the changes.
    """
    if isinstance(recorded, RecordedPlacement):
        return {**_placement(recorded), "meta": {"what_if": changes_document(changes)}}
    document = rebalance_document(
        id=recorded.id,
        group_id=recorded.group_id,
        generation_id=recorded.generation_id,
        now_ms=recorded.now_ms,
        source="generated",
        snapshot=recorded.snapshot,
        kafka_version=recorded.kafka_version,
    )
    asked = changes_document(changes)
    if "topology" in asked:
        asked["topology"] = "another one"  # do not repeat the topology, which is in the input of the document
    return {**document, "note": f"what if: {json.dumps(asked, ensure_ascii=False)}"}


def _placement(recorded: RecordedPlacement) -> dict[str, object]:
    problem = recorded.problem
    document: dict[str, object] = {
        "format": PLACEMENT_FORMAT,
        "kafka_version": problem.configs.kafka_version.release(recorded.kafka_version),
        "id": recorded.id,
        "assignor": recorded.assignor,
        "configs": dotted_configs(problem.configs),
        "tasks": [str(task) for task in problem.tasks],
        "stateful": [str(task) for task in problem.stateful_tasks],
        "clients": {str(process): _client(client) for process, client in problem.clients.items()},
    }
    return document if problem.racks is None else {**document, **_racks(problem.racks)}


def _racks(racks: RackInformation) -> dict[str, object]:
    return {
        "task_partitions": _partitions(racks.task_partitions),
        "changelog_partitions": _partitions(racks.changelog_partitions),
        "partition_racks": {
            topic: [sorted(each, key=lambda rack: rack or "") for each in by_partition]
            for topic, by_partition in racks.partition_racks.items()
        },
    }


def _partitions(by_task: Mapping[TaskId, tuple[TopicPartition, ...]]) -> dict[str, object]:
    return {str(task): [list(partition) for partition in partitions] for task, partitions in by_task.items()}


def _client(client: PlacementClient) -> dict[str, object]:
    return {
        "capacity": client.capacity,
        "consumers": list(client.consumers),
        "prev_active": _tasks(client.previous_active),
        "prev_standby": _tasks(client.previous_standby),
        "lags": {str(task): client.lags.lag_for(task) for task in client.lags},
        "tags": dict(client.tags),
        "rack": client.rack,
    }


def _tasks(tasks: frozenset[TaskId]) -> list[str]:
    return [str(task) for task in sorted(tasks)]
