"""Definitions of groups for tests of the rules, which look at nothing in them but the topology and the cluster."""

import json

from coordinator_api.group.events import DeclareGroup


def definition_text(name: str, topology: str = "t1") -> str:
    """`topology`: the topic that its one subtopology reads."""
    subtopology = {
        "id": 0,
        "source_topics": [topology],
        "repartition_source_topics": [],
        "sink_topics": [],
        "repartition_sink_topics": [],
        "stores": [],
    }
    topologies = {"subtopologies": [subtopology], "copartition_groups": []}
    return json.dumps({"name": name, "topology": topologies, "cluster": {"brokers": [], "topics": {}}})


def declared(name: str, topology: str = "t1", *, replace: bool = False) -> DeclareGroup:
    return DeclareGroup(definition_text(name, topology), replaces_topology=replace)
