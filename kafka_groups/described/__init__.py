"""Reconstructs the topology of an application whose program is not available.

| files | what they do |
|---|---|
| `described_topology` | Makes a topology from the text of `Topology#describe`, and lists its assumptions. |
| `text`, `graph` | `text` parses the text into nodes. `graph` makes the node graph from these nodes. |
| `stores` | Finds the changelog and the kind of each store. |
| `shown_joins`, `copartition` | Find the topics of which Kafka requires equal numbers of partitions. |
| `inferred` | Infers a topology from the topics and tasks of a running group. Needs no text of `Topology#describe`. |
"""
