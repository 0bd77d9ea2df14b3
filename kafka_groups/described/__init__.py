"""Reconstructs the topology of an application whose program is not available.

| files | what they do |
|---|---|
| `described_topology` | makes the topology from the text of `Topology#describe`, and lists its assumptions |
| `text`, `graph` | `text` parses the text to nodes; `graph` makes the node graph from the nodes |
| `stores` | finds the changelog of each store, and the store's kind |
| `shown_joins`, `copartition` | find the topics that need equal numbers of partitions |
| `inferred` | infers the topology from the topics and tasks of a running group, without the text of `Topology#describe`
|
"""
