"""Runs an application on one machine without Spark. The instances run in threads of this process, and the coordinator
runs in a child process.

`local_run`: the class `LocalRun`, which starts the coordinator and the instances, and waits until all records are
processed. `coordinator_process`: the class `CoordinatorProcess`, which runs the coordinator in a child process.
`topology_test_driver`: the class `TopologyTestDriver`, for tests.
"""
