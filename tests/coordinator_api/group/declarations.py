"""Definitions of groups for tests of the rules, which look at nothing in them but the topology."""

from __future__ import annotations

import json

from coordinator_api.group.events import DeclareGroup


def definition_text(name: str, topology: str = "t1") -> str:
    return json.dumps({"name": name, "topology": topology})


def declared(name: str, topology: str = "t1", *, replace: bool = False) -> DeclareGroup:
    return DeclareGroup(definition_text(name, topology), replaces_topology=replace)
