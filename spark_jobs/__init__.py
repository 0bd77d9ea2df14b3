"""Runs instances of an application on Spark executors, or as plain processes of one machine.

- `workers/`: runs instances of an application as long-running Spark tasks or as plain processes.
- `ownership/`: writes ownership logs, computes the history from them, and shows the state of the group.
- `demo/`: the command `assignor demo`, which counts words on executors, kills an executor, and checks every count.
- `commands`: defines the commands of this package for the `assignor` program.
"""
