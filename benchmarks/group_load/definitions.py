"""The group that the members join: one topic, one store, as many tasks as are asked for."""

from __future__ import annotations

from typing import Any

TOPIC = "events"
CHANGELOG = "app-counts-changelog"
END_OFFSET = 1_000


def definition(tasks: int, **configs: object) -> dict[str, Any]:
    """The body of PUT /v1/groups/{group}. Kafka's default configs, and `configs` under names with underscores."""
    changelog = {
        "name": "counts",
        "changelog_topic": CHANGELOG,
        "source_topic_as_changelog": None,
        "changelog": {"type": "unwindowed", "configs": {}},
    }
    subtopology = {
        "id": 0,
        "source_topics": [TOPIC],
        "repartition_source_topics": [],
        "sink_topics": [],
        "repartition_sink_topics": [],
        "stores": [changelog],
    }
    return {
        "assignor": "HighAvailabilityTaskAssignor",
        "configs": {name.replace("_", "."): value for name, value in configs.items()},
        "application_id": "app",
        "topology": {"subtopologies": [subtopology], "copartition_groups": []},
        "cluster": {
            "brokers": [{"id": 0, "rack": None}],
            "topics": {TOPIC: {"partitions": tasks, "replicas": None, "leaders": None}},
        },
        "existing_internal_topics": {CHANGELOG: {"partitions": tasks, "replicas": None}},
        "changelog_end_offsets": {CHANGELOG: [END_OFFSET] * tasks},
        "committed_offsets": {},
    }
