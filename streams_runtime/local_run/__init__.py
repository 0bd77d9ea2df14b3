"""An application on this machine alone, without Spark: a coordinator as a process of its own, and instances here.

`local_run`: `LocalRun`, which starts both and waits until they have caught up. `coordinator_process`: the coordinator.
"""
