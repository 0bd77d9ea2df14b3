"""The models of bodies and answers that consist of one document, and the data of the examples. All examples describe
the same group, which has one member.

`assignor.recording` reads the documents and checks their fields.
"""

from typing import Any

from pydantic import ConfigDict, RootModel

A_TIME_MS = 1_795_372_800_000
A_MEMBER_ID = "words-1-8d7f3a52-5a0b-4f3a-9a86-0a5f6c1d2e3b"

A_SUBSCRIPTION = "AAMAAAABAAVsaW5lcwAAACkAAAALAAAACz8MKx5sHUpTmkMvH15rehAAAAAAAAAAAAAAAAAAAAAAAAAAAAD///////8="
"""The subscription of a first join to the group of `A_DEFINITION`, as base64."""

AN_ASSIGNMENT = (
    "AAMAAAABAAVsaW5lcwAAAAIAAAAAAAAAAQAAAEAAAAALAAAACwAAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAH//"
    "////////"
)
"""The assignment of all tasks to A_MEMBER_ID, as base64."""

A_DEFINITION: dict[str, Any] = {
    "assignor": "HighAvailabilityTaskAssignor",
    "configs": {"num.standby.replicas": 1},
    "topology": {
        "subtopologies": [
            {
                "id": 0,
                "source_topics": ["lines"],
                "repartition_source_topics": [],
                "sink_topics": [],
                "repartition_sink_topics": [],
                "stores": [{"name": "counts", "changelog_topic": "words-counts-changelog"}],
            }
        ],
        "copartition_groups": [],
    },
    "cluster": {"brokers": [{"id": 0}], "topics": {"lines": {"partitions": 2}}},
    "existing_internal_topics": {"words-counts-changelog": {"partitions": 2}},
    "changelog_end_offsets": {"words-counts-changelog": [1_000, 1_000]},
    "committed_offsets": {},
}

AN_OUTPUT: dict[str, Any] = {
    "assignments": {A_MEMBER_ID: AN_ASSIGNMENT},
    "internal_topics": {"words-counts-changelog": 2},
    "created_topics": {},
    "probing_rebalance_at_ms": None,
    "followup_rebalance": False,
    "error": None,
}

A_REBALANCE: dict[str, Any] = {
    "format": "rebalance/1",
    "id": "words-1",
    "group_id": "words",
    "generation_id": 1,
    "now_ms": A_TIME_MS,
    "source": "kafka",
    "input": {
        **A_DEFINITION,
        "application_id": "words",
        "leader_process_id": None,
        "members": {A_MEMBER_ID: {"client_id": "words-1", "subscription": A_SUBSCRIPTION}},
    },
    "output": AN_OUTPUT,
}


class DefinitionDocument(RootModel[dict[str, Any]]):
    """A definition: the `input` of a rebalance/1 document, without members and leader. A definition contains the
    brokers, topics and offsets of its cluster, or the address of a cluster that provides them. docs/formats.md
    describes rebalance/1.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [A_DEFINITION]})


class RebalanceDocument(RootModel[dict[str, Any]]):
    """A rebalance/1 document, which docs/formats.md describes."""

    model_config = ConfigDict(json_schema_extra={"examples": [A_REBALANCE]})
