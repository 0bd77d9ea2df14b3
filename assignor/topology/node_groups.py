"""Which nodes run together: connected by an edge or by a store that they share.

The groups are numbered in the order in which their first nodes were added, global stores included, so the numbers of
subtopologies can have gaps. Source: `InternalTopologyBuilder.makeNodeGroups`, `QuickUnion`.
"""

from __future__ import annotations

from assignor.topology.definition import ProcessorNode, TopologyDefinition


def node_groups(definition: TopologyDefinition) -> dict[int, tuple[str, ...]]:
    """Node names by group id, each group in the order added."""
    root_of: dict[str, str] = {}

    def root(name: str) -> str:
        while root_of[name] != name:
            root_of[name] = root_of[root_of[name]]
            name = root_of[name]
        return name

    first_user_of_store: dict[str, str] = {}
    for name, node in definition.nodes.items():
        root_of[name] = name
        for parent in node.parents:
            root_of[root(name)] = root(parent)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            user = first_user_of_store.setdefault(store, name)
            root_of[root(name)] = root(user)

    members: dict[str, list[str]] = {}
    for name in definition.nodes:
        members.setdefault(root(name), []).append(name)
    return {group_id: tuple(names) for group_id, names in enumerate(members.values())}
