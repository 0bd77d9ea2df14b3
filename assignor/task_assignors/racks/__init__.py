"""Moves tasks between clients to save cross-rack reads. Each client keeps its number of tasks (KIP-925).

`task_graph.py` finds the cheapest placement by Kafka's steps. If several placements are equally cheap, `task_graph.py`
finds the same placement as Kafka. `optimization.py` computes the cost of a copy of a task on each client, and moves
active tasks and standbys.
Source: `RackAwareTaskAssignor`.
"""
