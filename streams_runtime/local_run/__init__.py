"""Runs an application on one machine without Spark: its instances in this process, its coordinator in a child process.

`local_run`: `LocalRun`, which starts coordinator and instances, and waits until all records are processed.
`coordinator_process`: the coordinator's process. `topology_test_driver`: `TopologyTestDriver`, for tests.
"""
