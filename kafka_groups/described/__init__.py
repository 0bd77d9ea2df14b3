"""Reconstructs the topology of an application whose program is not available.

- `described_topology`: makes a topology from the text of `Topology#describe`, and lists its assumptions.
- `text`: parses the text into nodes.
- `graph`: makes the node graph from these nodes.
- `stores`: finds the changelog and the kind of each store.
- `shown_joins`, `copartition`: find the topics of which Kafka requires equal numbers of partitions.
- `inferred`: infers a topology from the topics and tasks of a running group, without the text of `Topology#describe`.
"""
