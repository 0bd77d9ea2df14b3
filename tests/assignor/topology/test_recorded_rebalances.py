"""Topics and tasks of every recorded rebalance, from topology, cluster and existing topics alone.

Rack-aware lines and those of the public sticky assignor count too: neither changes anything before tasks are placed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assignor.cluster import Cluster
from assignor.errors import KafkaError, MissingSourceTopicError
from assignor.protocol.assignment_info import decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.recording import RecordedOutput, RecordedRebalance, parse_recorded_rebalance
from assignor.snapshot import RebalanceSnapshot
from assignor.topology.group_topology import java_hash_code
from assignor.topology.internal_topics import (
    CreatedTopic,
    InternalTopicCatalog,
    prepare_changelog_topics,
    prepare_repartition_topics,
)
from assignor.topology.partition_grouper import partition_groups
from assignor.types import AssignorErrorCode, TaskId
from tests.checkout import VECTORS

_FILES = sorted([*VECTORS.glob("rebalances*.jsonl.gz"), *(VECTORS / "recordings").glob("*.jsonl.gz")])
_BEYOND_TOPICS = "IllegalStateException"  # thrown by later steps, about previous tasks or racks


class Line(NamedTuple):
    document: dict[str, Any]
    rebalance: RecordedRebalance

    @property
    def output(self) -> RecordedOutput:
        assert self.rebalance.output is not None
        return self.rebalance.output

    def error_codes(self) -> set[int]:
        infos = [decode_assignment(data).user_data or b"" for data in self.output.assignments.values()]
        return {decode_assignment_info(info).err_code for info in infos if info} - {0}


class Topics(NamedTuple):
    """`repartition_only`: what had been created when changelogs were not looked at yet."""

    created: dict[str, CreatedTopic]
    ready: dict[str, int]
    repartition_only: dict[str, CreatedTopic]


def test_should_find_the_files() -> None:
    assert len(_FILES) == 11


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_should_make_the_recorded_topics_ready(path: Path) -> None:
    different = []
    for line in _lines(path):
        difference = _difference(line)
        if difference is not None:
            different.append((line.rebalance.id, difference))

    assert different == []


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_should_compute_javas_hash_code_of_every_subtopology(path: Path) -> None:
    different = []
    for line in _lines(path):
        recorded = [entry["java_hash_code"] for entry in line.document["input"]["topology"]["subtopologies"]]
        computed = [java_hash_code(subtopology) for subtopology in line.rebalance.snapshot.topology.subtopologies]
        if computed != recorded:
            different.append((line.rebalance.id, computed, recorded))

    assert different == []


def _lines(path: Path) -> Iterator[Line]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for text in lines:
            document = json.loads(text)
            given = document["input"]
            given["assignor"] = "HighAvailabilityTaskAssignor"
            given["configs"] = {key: value for key, value in given["configs"].items() if "rack.aware" not in key}
            yield Line(document, parse_recorded_rebalance(document))


def _difference(line: Line) -> object | None:
    output, codes = line.output, line.error_codes()
    recorded_class = None if output.error is None else output.error.split(":")[0]
    if AssignorErrorCode.SHUTDOWN_REQUESTED in codes:  # comes before any topic is looked at
        return output.created_topics or None
    try:
        topics = _topics(line.rebalance.snapshot)
    except MissingSourceTopicError as error:
        return None if codes == {AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA} else error
    except KafkaError as error:
        return None if _same_error(error, output.error) else (error.as_recorded(), output.error)
    if recorded_class not in (None, _BEYOND_TOPICS):
        return ("no error", output.error)
    if AssignorErrorCode.ASSIGNMENT_ERROR in codes:  # versions that do not go together: no changelogs any more
        return _created_difference(topics.repartition_only, output)
    if recorded_class is None and topics.ready != output.internal_topics:
        return (topics.ready, output.internal_topics)
    return _created_difference(topics.created, output)


def _topics(snapshot: RebalanceSnapshot) -> Topics:
    catalog = InternalTopicCatalog(snapshot.existing_internal_topics, snapshot.failures)
    repartition = prepare_repartition_topics(snapshot.topology, snapshot.cluster, catalog, snapshot.configs)
    tasks = _tasks_by_subtopology(snapshot, repartition.cluster)
    changelogs = prepare_changelog_topics(snapshot.topology, tasks, catalog, snapshot.configs)
    return Topics(
        {**repartition.created, **changelogs.created},
        {**repartition.ready, **changelogs.ready},
        dict(repartition.created),
    )


def _tasks_by_subtopology(snapshot: RebalanceSnapshot, cluster: Cluster) -> dict[int, list[TaskId]]:
    tasks: dict[int, list[TaskId]] = {}
    for task in partition_groups(snapshot.topology, cluster):
        tasks.setdefault(task.subtopology, []).append(task)
    return tasks


def _same_error(error: KafkaError, recorded: str | None) -> bool:
    return error.as_recorded() == recorded


def _created_difference(created: dict[str, CreatedTopic], output: RecordedOutput) -> object | None:
    if output.created_topics is None:
        return None
    computed = {
        name: (
            topic.partitions,
            topic.replication_factor,
            topic.configs
            if name in output.created_topics and output.created_topics[name].configs is not None
            else None,
        )
        for name, topic in created.items()
    }
    recorded = {
        name: (topic.partitions, topic.replication_factor, topic.configs)
        for name, topic in output.created_topics.items()
    }
    return None if computed == recorded else (computed, recorded)
