"""Moves tasks between clients so that they read less across racks, and each client keeps its number of tasks (KIP-925).

`costs.py` says what a copy of a task costs on each client. `task_graph.py` finds the cheapest placement, in Kafka's
order of steps: of several that are equally cheap, it is the one that Kafka finds. `first_flow.py` has the placement
from which balance_subtopology starts. `optimization.py` puts them together, for active tasks and for standbys.
Source: `RackAwareTaskAssignor`.
"""
