"""Moves tasks between clients to save cross-rack reads. The number of tasks of each client does not change (KIP-925).

`task_graph.py` finds the cheapest placement with the same steps as Kafka. If several placements are equally cheap,
`task_graph.py` finds the same placement as Kafka. `optimization.py` computes the cost of a copy of a task on each
client, and moves active tasks and standbys.
Source: `RackAwareTaskAssignor`.
"""
