"""The topology of a group whose program is somebody else's.

| files | what they do |
|---|---|
| `described_topology` | the topology of a group from the text of `Topology#describe`, and what it leaves open |
| `text`, `graph` | the text as nodes; the nodes as a graph |
| `stores` | which changelog each store has, and of which kind |
| `shown_joins`, `copartition` | which topics need equal numbers of partitions |
| `inferred` | the topology that the topics and tasks of a running group show, without a text |
"""
