"""Moves tasks between clients so that they read less across racks, and each client keeps its number of tasks (KIP-925).

`task_graph.py` finds the cheapest placement, in Kafka's order of steps: of several that are equally cheap, it is the
one that Kafka finds. `optimization.py` says what a copy of a task costs on each client, and places active tasks and
standbys.
Source: `RackAwareTaskAssignor`.
"""
